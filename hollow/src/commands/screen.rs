//! Writes a screen for people: aligned labels, commands to paste and progress. Only a terminal gets colours and lines that change.

use agent::terminal::{Style, Terminal};
use wire::text::printable;

use super::output;

/// The width of the labels.
const LABEL: usize = 10;

/// A line of a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// What has happened.
    Title(String),
    /// What has failed.
    Failure(String),
    /// A heading.
    Heading(String),
    /// A step that is done, with its time.
    Step(String, String),
    /// A value with its label.
    Value(&'static str, String),
    /// A sentence.
    Text(String),
    /// A row of a table.
    Row(String),
    /// A command to paste.
    Command(String),
    /// A remark of less weight.
    Note(String),
    /// An empty line.
    Blank,
}

/// Where a screen is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen(Terminal);

impl Screen {
    /// Returns the screen of stdout.
    pub(super) fn of_stdout() -> Self {
        Self(Terminal::of(&std::io::stdout()))
    }

    /// Returns the variable that lets another process colour its output, which is not a terminal, as this screen.
    pub(super) fn variable(self) -> (&'static str, &'static str) {
        match self.0.is_coloured {
            true => ("CLICOLOR_FORCE", "1"),
            false => ("NO_COLOR", "1"),
        }
    }

    /// Writes lines.
    pub(super) fn write(self, lines: &[Line]) {
        output::put(&self.render(lines));
    }

    fn render(self, lines: &[Line]) -> String {
        lines.iter().map(|line| self.line(line) + "\n").collect()
    }

    fn line(self, line: &Line) -> String {
        let paint = |style, text: &str| self.0.paint(style, text);
        // Parts of a line may come from nodes and files.
        match line {
            Line::Title(text) => paint(Style::Green, &printable(text)),
            Line::Failure(text) => paint(Style::Red, &printable(text)),
            Line::Heading(text) => paint(Style::Bold, &printable(text)),
            Line::Step(time, text) => {
                format!("{}  {}", paint(Style::Dim, time), printable(text))
            }
            Line::Value(label, value) => {
                let label = paint(Style::Dim, &format!("{label:<LABEL$}"));
                format!("  {label} {}", printable(value))
            }
            Line::Text(text) => format!("  {}", printable(text)),
            Line::Row(text) => printable(text),
            Line::Command(text) => format!("    {}", paint(Style::Bold, &printable(text))),
            Line::Note(text) => format!("  {}", paint(Style::Dim, &printable(text))),
            Line::Blank => String::new(),
        }
    }

    /// Prints a line while [`Screen::wait`] may show another one.
    pub(super) fn print_line(self, line: &str) {
        self.0.erase(&mut output::Stdout);
        output::print_line(line);
    }

    /// Waits for a step. After a second its line is shown until it ends: it changes on a terminal, and is repeated elsewhere,
    /// less and less often.
    pub(super) async fn wait<T>(
        self,
        describe: impl Fn() -> String,
        work: impl Future<Output = T>,
    ) -> T {
        self.0.wait(&mut output::Stdout, describe, work).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(is_coloured: bool) -> Screen {
        Screen(Terminal {
            is_coloured,
            is_live: is_coloured,
            width: None,
        })
    }

    #[test]
    fn foreign_text_brings_no_escape_sequences_and_a_pipe_gets_none() {
        let foreign = "\u{1b}[31mx".to_owned();
        let lines = [
            Line::Title("ready".into()),
            Line::Value("API", foreign.clone()),
            Line::Command("a\tb".into()),
            Line::Note("n".into()),
            Line::Heading(foreign.clone()),
            Line::Step("1 s".into(), foreign.clone()),
            Line::Row(foreign.clone()),
            Line::Failure(foreign),
            Line::Blank,
        ];
        let plain = screen(false).render(&lines);
        assert!(
            !plain.contains('\u{1b}') && plain.contains("\n  API        "),
            "{plain}"
        );
        let coloured = screen(true).render(&lines);
        assert!(
            coloured.starts_with("\u{1b}[1;32mready\u{1b}[0m\n"),
            "{coloured}"
        );
        assert!(!coloured.contains("\u{1b}[31m"), "{coloured}");
    }
}
