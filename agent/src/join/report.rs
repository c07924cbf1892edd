//! What was found of a machine, a line for each check, with the cure of what stands in the way. Pure.

use std::fmt;

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is as it must be.
    Good(String),
    /// The node will run, and this should be known.
    Note(String),
    /// The node would not run.
    Bad {
        /// What is wrong.
        what: String,
        /// What to do.
        cure: String,
    },
}

impl Verdict {
    /// Something is wrong.
    pub(super) fn bad(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::Bad { what: what.into(), cure: cure.into() }
    }
}

/// All that was found.
#[derive(Debug)]
pub(super) struct Report<'a> {
    ignored: &'a [String],
    found: Vec<(&'static str, Verdict)>,
}

impl<'a> Report<'a> {
    /// Nothing yet; checks of these names cannot fail.
    pub(super) fn new(ignored: &'a [String]) -> Self {
        Self { ignored, found: Vec::new() }
    }

    /// A check has been made.
    pub(super) fn add(&mut self, check: &'static str, verdict: Verdict) {
        self.found.push((check, verdict));
    }

    /// How many have failed.
    pub(super) fn failed(&self) -> usize {
        self.found.iter().filter(|(check, verdict)| self.fails(check, verdict)).count()
    }

    fn fails(&self, check: &str, verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Bad { .. }) && !self.ignored.iter().any(|name| name == check)
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (check, verdict) in &self.found {
            let (word, what) = match verdict {
                Verdict::Good(what) => ("ok", what),
                Verdict::Note(what) => ("note", what),
                Verdict::Bad { what, .. } if self.fails(check, verdict) => ("FAILED", what),
                Verdict::Bad { what, .. } => ("ignored", what),
            };
            writeln!(f, "  {word:<8} {check:<9} {what}")?;
            if let Verdict::Bad { cure, .. } = verdict {
                writeln!(f, "  {:<8} {:<9} → {cure}", "", "")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_has_its_cure_below_it_and_what_is_ignored_does_not_count() {
        let ignored = ["ports".to_owned()];
        let mut report = Report::new(&ignored);
        report.add("root", Verdict::Good("yes".into()));
        report.add("mqtt", Verdict::Note("no broker".into()));
        report.add("runtime", Verdict::bad("none", "install one"));
        report.add("ports", Verdict::bad("taken", "take another"));
        assert_eq!(report.failed(), 1);
        let text = report.to_string();
        assert_eq!(
            text.lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>(),
            [
                "ok root yes",
                "note mqtt no broker",
                "FAILED runtime none",
                "→ install one",
                "ignored ports taken",
                "→ take another"
            ]
        );
    }
}
