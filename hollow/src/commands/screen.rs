//! Writes a screen for people: aligned labels, commands to paste and progress. Only a terminal gets colours and lines that change.

use std::{
    ffi::OsStr,
    io::{IsTerminal, Write},
    pin::pin,
    time::Duration,
};

use tokio::time::{Instant, timeout};
use wire::text::printable;

/// The width of the labels.
const LABEL: usize = 10;
/// Duration of a step before its first line.
const SILENT: Duration = Duration::from_secs(1);
/// How often the line of a step is written again on a terminal, and elsewhere.
const LIVE_INTERVAL: Duration = Duration::from_millis(200);
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

const BOLD: &str = "\u{1b}[1m";
const GREEN: &str = "\u{1b}[1;32m";
const DIM: &str = "\u{1b}[2m";
const RESET: &str = "\u{1b}[0m";
/// Returns to the beginning of the line and erases it.
const ERASE: &str = "\r\u{1b}[2K";

/// A line of a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// What has happened.
    Title(String),
    /// A value with its label.
    Value(&'static str, String),
    /// A sentence.
    Text(String),
    /// A command to paste.
    Command(String),
    /// A remark of less weight.
    Note(String),
    /// An empty line.
    Blank,
}

/// Where a screen is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    is_coloured: bool,
    /// Whether a line can be rewritten.
    is_live: bool,
}

impl Screen {
    /// Returns the screen of stdout.
    pub(super) fn of_stdout() -> Self {
        let variable = |name: &str| std::env::var_os(name);
        let is_terminal = std::io::stdout().is_terminal();
        let term = variable("TERM");
        Self {
            is_coloured: is_coloured(
                is_terminal,
                variable("NO_COLOR").as_deref(),
                variable("CLICOLOR_FORCE").as_deref(),
                term.as_deref(),
            ),
            is_live: is_terminal && term.is_none_or(|term| term != "dumb"),
        }
    }

    /// Returns the variable that lets another process colour its output, which is not a terminal, as this screen.
    pub(super) fn variable(self) -> (&'static str, &'static str) {
        match self.is_coloured {
            true => ("CLICOLOR_FORCE", "1"),
            false => ("NO_COLOR", "1"),
        }
    }

    /// Writes lines; a closed stdout is no error.
    pub(super) fn write(self, lines: &[Line]) {
        let _ = std::io::stdout()
            .lock()
            .write_all(self.render(lines).as_bytes());
    }

    fn render(self, lines: &[Line]) -> String {
        lines.iter().map(|line| self.line(line) + "\n").collect()
    }

    fn line(self, line: &Line) -> String {
        // Parts of a line may come from nodes and files.
        match line {
            Line::Title(text) => self.color(GREEN, &printable(text)),
            Line::Value(label, value) => {
                let label = self.color(DIM, &format!("{label:<LABEL$}"));
                format!("  {label} {}", printable(value))
            }
            Line::Text(text) => format!("  {}", printable(text)),
            Line::Command(text) => format!("    {}", self.color(BOLD, &printable(text))),
            Line::Note(text) => format!("  {}", self.color(DIM, &printable(text))),
            Line::Blank => String::new(),
        }
    }

    fn color(self, colour: &str, text: &str) -> String {
        match self.is_coloured {
            true => format!("{colour}{text}{RESET}"),
            false => text.to_owned(),
        }
    }

    /// Waits for a step. After a second its line is shown until it ends: it changes on a terminal, and is repeated elsewhere.
    pub(super) async fn wait<T>(
        self,
        describe: impl Fn() -> String,
        work: impl Future<Output = T>,
    ) -> T {
        self.wait_on(&mut std::io::stdout(), describe, work).await
    }

    async fn wait_on<T>(
        self,
        out: &mut impl Write,
        describe: impl Fn() -> String,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        if let Ok(done) = timeout(SILENT, &mut work).await {
            return done;
        }
        let begun = Instant::now() - SILENT;
        let mut show = |text: &str| {
            // a closed pipe does not interrupt the step
            let _ = write!(out, "{text}").and_then(|()| out.flush());
        };
        loop {
            let text = format!(
                "{} … {} s",
                printable(&describe()),
                begun.elapsed().as_secs()
            );
            show(&match self.is_live {
                true => format!("{ERASE}{}", self.color(DIM, &text)),
                false => format!("{text}\n"),
            });
            let interval = if self.is_live {
                LIVE_INTERVAL
            } else {
                PLAIN_INTERVAL
            };
            if let Ok(done) = timeout(interval, &mut work).await {
                if self.is_live {
                    show(ERASE);
                }
                return done;
            }
        }
    }
}

/// Reports whether output has colours: on a terminal that shows them, or where they are forced (<https://bixense.com/clicolors>), unless
/// the user wants none (<https://no-color.org>).
fn is_coloured(
    is_terminal: bool,
    no_color: Option<&OsStr>,
    force: Option<&OsStr>,
    term: Option<&OsStr>,
) -> bool {
    let is_forced = force.is_some_and(|force| !force.is_empty() && force != "0");
    no_color.is_none_or(OsStr::is_empty)
        && (is_forced || is_terminal && term.is_none_or(|term| term != "dumb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(is_coloured: bool, is_live: bool) -> Screen {
        Screen {
            is_coloured,
            is_live,
        }
    }

    #[test]
    fn colours_are_for_terminals_unless_the_user_decides() {
        for (is_terminal, no_color, force, term, expected) in [
            (true, None, None, Some("xterm"), true),
            (true, Some(""), None, None, true),
            (true, Some("1"), None, Some("xterm"), false),
            (true, None, None, Some("dumb"), false),
            (false, None, None, Some("xterm"), false),
            (false, None, Some("1"), Some("xterm"), true),
            (false, None, Some("0"), Some("xterm"), false),
            (false, Some("1"), Some("1"), Some("xterm"), false),
        ] {
            let found = is_coloured(
                is_terminal,
                no_color.map(OsStr::new),
                force.map(OsStr::new),
                term.map(OsStr::new),
            );
            assert_eq!(
                found, expected,
                "{is_terminal} {no_color:?} {force:?} {term:?}"
            );
        }
    }

    #[test]
    fn foreign_text_brings_no_escape_sequences_and_a_pipe_gets_none() {
        let lines = [
            Line::Title("ready".into()),
            Line::Value("API", "https://\u{1b}[31mx".into()),
            Line::Command("a\tb".into()),
            Line::Note("n".into()),
            Line::Blank,
        ];
        let plain = screen(false, false).render(&lines);
        assert!(
            !plain.contains('\u{1b}') && plain.contains("\n  API        https://"),
            "{plain}"
        );
        let coloured = screen(true, true).render(&lines);
        assert!(
            coloured.starts_with("\u{1b}[1;32mready\u{1b}[0m\n")
                && !coloured.contains("[31m\u{1b}"),
            "{coloured}"
        );
        assert!(!coloured.contains("\u{1b}[31m"), "{coloured}");
    }

    #[tokio::test(start_paused = true)]
    async fn step_of_more_than_a_second_is_shown_until_it_ends() {
        for (is_live, millis, expected) in [
            (false, 900, ""),
            (true, 900, ""),
            (false, 1100, "step … 1 s\n"),
            (false, 7000, "step … 1 s\nstep … 6 s\n"),
            (
                true,
                1300,
                "\r\u{1b}[2Kstep … 1 s\r\u{1b}[2Kstep … 1 s\r\u{1b}[2K",
            ),
        ] {
            let mut out = Vec::new();
            let work = async {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                7
            };
            let done = screen(false, is_live)
                .wait_on(&mut out, || "step".to_owned(), work)
                .await;
            assert_eq!(done, 7);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{millis}");
        }
    }
}
