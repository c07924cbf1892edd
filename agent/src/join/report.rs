//! Formats the results of the checks, a line for each, with the cure of each failure. Pure.

use std::fmt;

use crate::cli::CheckName;

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckResult {
    /// The check has passed.
    Passed(String),
    /// The check has passed with a remark.
    Remark(String),
    /// The check has passed, but the node will not work as expected.
    Warning {
        /// What is wrong.
        what: String,
        /// The cure.
        cure: String,
    },
    /// The check has failed.
    Failed {
        /// What is wrong.
        what: String,
        /// The cure.
        cure: String,
    },
}

impl CheckResult {
    /// Creates a failure.
    pub(super) fn bad(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::Failed {
            what: what.into(),
            cure: cure.into(),
        }
    }
}

/// The results of all checks.
#[derive(Debug)]
pub(super) struct Report<'a> {
    ignored: &'a [CheckName],
    found: Vec<(CheckName, CheckResult)>,
}

impl<'a> Report<'a> {
    /// Creates an empty report; checks with these names cannot fail.
    pub(super) fn new(ignored: &'a [CheckName]) -> Self {
        Self {
            ignored,
            found: Vec::new(),
        }
    }

    /// Adds the result of a check.
    pub(super) fn add(&mut self, check: CheckName, verdict: CheckResult) {
        self.found.push((check, verdict));
    }

    /// Returns the number of failed checks.
    pub(super) fn failure_count(&self) -> usize {
        self.found
            .iter()
            .filter(|(check, verdict)| self.fails(*check, verdict))
            .count()
    }

    fn fails(&self, check: CheckName, verdict: &CheckResult) -> bool {
        let is_ignored = self
            .ignored
            .iter()
            .any(|name| *name == check || *name == CheckName::All);
        matches!(verdict, CheckResult::Failed { .. }) && !is_ignored
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (check, verdict) in &self.found {
            let (word, what) = match verdict {
                CheckResult::Passed(what) => ("ok", what),
                CheckResult::Remark(what) => ("note", what),
                CheckResult::Warning { what, .. } => ("warning", what),
                CheckResult::Failed { what, .. } if self.fails(*check, verdict) => ("FAILED", what),
                CheckResult::Failed { what, .. } => ("ignored", what),
            };
            writeln!(f, "  {word:<8} {:<9} {what}", check.name())?;
            if let CheckResult::Failed { cure, .. } | CheckResult::Warning { cure, .. } = verdict {
                writeln!(f, "  {:<8} {:<9} → {cure}", "", "")?;
            }
        }
        Ok(())
    }
}

/// Colours the words that begin the lines of a printed report.
pub(super) fn color(report: &str) -> String {
    /// Green, yellow and red of ANSI terminals.
    const COLORS: [(&str, u8); 3] = [("  ok ", 32), ("  warning ", 33), ("  FAILED ", 31)];
    let line = |line: &str| {
        let found = COLORS.iter().find(|(word, _)| line.starts_with(word));
        found.map_or_else(
            || line.to_owned(),
            |(word, color)| format!("\u{1b}[{color}m{word}\u{1b}[0m{}", &line[word.len()..]),
        )
    };
    report.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_their_cure_and_ignored_ones_do_not_count() {
        let ignored = [CheckName::Ports];
        let mut report = Report::new(&ignored);
        report.add(CheckName::Root, CheckResult::Passed("yes".into()));
        report.add(CheckName::Mqtt, CheckResult::Remark("no broker".into()));
        let (what, cure) = ("the disk is full".into(), "free disk space".into());
        report.add(CheckName::Pressure, CheckResult::Warning { what, cure });
        report.add(CheckName::Runtime, CheckResult::bad("none", "install one"));
        report.add(CheckName::Ports, CheckResult::bad("taken", "take another"));
        assert_eq!(report.failure_count(), 1);
        let all = [CheckName::All];
        let mut none = Report::new(&all);
        none.add(CheckName::Runtime, CheckResult::bad("none", "install one"));
        assert_eq!(none.failure_count(), 0);
        let text = report.to_string();
        assert_eq!(
            text.lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>(),
            [
                "ok root yes",
                "note mqtt no broker",
                "warning pressure the disk is full",
                "→ free disk space",
                "FAILED runtime none",
                "→ install one",
                "ignored ports taken",
                "→ take another"
            ]
        );
        let lines = color(&text);
        assert_eq!(lines.matches("\u{1b}[0m").count(), 3, "{lines}");
        assert!(lines.starts_with("\u{1b}[32m  ok \u{1b}[0m"), "{lines}");
        let plain = ["32", "33", "31", "0"].iter().fold(lines, |text, color| {
            text.replace(&format!("\u{1b}[{color}m"), "")
        });
        assert_eq!(plain, text);
    }
}
