//! How output is shown: colours and lines that change are for terminals, unless the user decides otherwise. Long steps are shown until
//! they end. The program `cloudsim` uses it as well.

use std::{
    ffi::OsStr,
    io::{IsTerminal, Write},
    os::fd::AsFd,
    pin::pin,
    time::Duration,
};

use terminal_size::{Width, terminal_size_of};
use tokio::time::{Instant, timeout};
use wire::text::printable;

/// Duration of a step before its first line.
const SILENT: Duration = Duration::from_secs(1);
/// How often the line of a step is written again on a terminal, and elsewhere: there, each wait is twice as long as the one before.
const LIVE_INTERVAL: Duration = Duration::from_millis(200);
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);
const MAX_PLAIN_INTERVAL: Duration = Duration::from_secs(300);

const RESET: &str = "\u{1b}[0m";
/// Returns to the beginning of the line and erases it.
const ERASE: &str = "\r\u{1b}[2K";

/// The colour of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Headings and commands.
    Bold,
    /// Success.
    Green,
    /// Failure.
    Red,
    /// Labels and remarks.
    Dim,
}

impl Style {
    fn sequence(self) -> &'static str {
        match self {
            Self::Bold => "\u{1b}[1m",
            Self::Green => "\u{1b}[1;32m",
            Self::Red => "\u{1b}[1;31m",
            Self::Dim => "\u{1b}[2m",
        }
    }
}

/// Where output is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terminal {
    /// Whether texts have colours.
    pub is_coloured: bool,
    /// Whether a line can be written again.
    pub is_live: bool,
    /// The number of columns, if it is known.
    pub width: Option<usize>,
}

impl Terminal {
    /// Returns what is known of an output.
    pub fn of(output: &(impl IsTerminal + AsFd)) -> Self {
        let variable = |name: &str| std::env::var_os(name);
        let (is_terminal, term) = (output.is_terminal(), variable("TERM"));
        Self {
            is_coloured: is_coloured(
                is_terminal,
                variable("NO_COLOR").as_deref(),
                variable("CLICOLOR_FORCE").as_deref(),
                term.as_deref(),
            ),
            is_live: is_terminal && term.is_none_or(|term| term != "dumb"),
            width: terminal_size_of(output).map(|(Width(columns), _)| usize::from(columns)),
        }
    }

    /// Returns the text with its colour, if there are colours.
    pub fn paint(self, style: Style, text: &str) -> String {
        match self.is_coloured {
            true => format!("{}{text}{RESET}", style.sequence()),
            false => text.to_owned(),
        }
    }

    /// Erases the line of a step that [`Terminal::wait`] shows, so that another line can be written. It is shown again soon.
    pub fn erase(self, out: &mut impl Write) {
        if self.is_live {
            let _ = out.write_all(ERASE.as_bytes());
        }
    }

    /// Waits for a step. After a second its line is shown until it ends: it changes on a terminal, and is repeated elsewhere, less and
    /// less often.
    pub async fn wait<T>(
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
        let mut interval = if self.is_live {
            LIVE_INTERVAL
        } else {
            PLAIN_INTERVAL
        };
        loop {
            let seconds = begun.elapsed().as_secs();
            let text = format!("{} … {seconds} s", printable(&describe()));
            show(&match self.is_live {
                true => format!("{ERASE}{}", self.paint(Style::Dim, &text)),
                false => format!("{text}\n"),
            });
            if let Ok(done) = timeout(interval, &mut work).await {
                if self.is_live {
                    show(ERASE);
                }
                return done;
            }
            if !self.is_live {
                interval = (interval * 2).min(MAX_PLAIN_INTERVAL);
            }
        }
    }
}

/// Breaks a text at spaces into lines of at most `width` characters; a longer word has a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Reports whether output has colours: on a terminal that shows them, or where they are forced (<https://bixense.com/clicolors>), unless
/// the user wants none (<https://no-color.org>).
pub(crate) fn is_coloured(
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

    #[test]
    fn colours_are_for_terminals_unless_the_user_decides() {
        for (is_terminal, no_color, force, term, expected) in [
            (true, None, None, Some("xterm"), true),
            (true, None, None, None, true),
            (true, Some(""), None, None, true),
            (true, Some("1"), None, Some("xterm"), false),
            (true, Some("0"), None, None, false),
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
            let terminal = Terminal {
                is_live,
                ..Terminal::default()
            };
            let mut out = Vec::new();
            let work = async {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                7
            };
            let done = terminal.wait(&mut out, || "step".to_owned(), work).await;
            assert_eq!(done, 7);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{millis}");
        }
    }

    #[test]
    fn long_texts_are_broken_at_spaces() {
        for (text, expected) in [
            ("", &[""][..]),
            ("one two", &["one two"]),
            ("one two, three", &["one two,", "three"]),
            ("/a/very/long/path, b", &["/a/very/long/path,", "b"]),
        ] {
            assert_eq!(wrap(text, 8), expected, "{text}");
        }
    }
}
