//! Formats the results of the checks: a line for each, with the remedy of each failure, or a document for programs. Pure.

use std::fmt;

use serde::Serialize;
use wire::text::count;

use crate::{cli::CheckName, terminal::wrap};

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckResult {
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
    /// The check was not run, and neither are those that need it: the reason.
    Skipped(String),
    /// The check does not apply to this node: the reason.
    NotApplicable(String),
}

impl CheckResult {
    /// Creates a failure.
    pub(crate) fn bad(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::Failed {
            what: what.into(),
            cure: cure.into(),
        }
    }

    /// Creates a warning.
    pub(crate) fn warning(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::Warning {
            what: what.into(),
            cure: cure.into(),
        }
    }

    /// Adds these options, which name the paths of the installation, to the command that removes the node: without them it would remove
    /// the machine's own one.
    pub(crate) fn name_paths(&mut self, options: &str) {
        if let Self::Warning { cure, .. } | Self::Failed { cure, .. } = self {
            *cure = cure.replace(RESET, &format!("`edge-agent reset{options}`"));
        }
    }

    /// Returns the text and the cure.
    pub(crate) fn texts(&self) -> (&str, Option<&str>) {
        match self {
            Self::Passed(what)
            | Self::Remark(what)
            | Self::Skipped(what)
            | Self::NotApplicable(what) => (what, None),
            Self::Warning { what, cure } | Self::Failed { what, cure } => (what, Some(cure)),
        }
    }

    /// Returns the severity: a higher one is worse.
    fn severity(&self) -> u8 {
        match self {
            Self::Skipped(_) | Self::NotApplicable(_) => 0,
            Self::Passed(_) => 1,
            Self::Remark(_) => 2,
            Self::Warning { .. } => 3,
            Self::Failed { .. } => 4,
        }
    }

    /// Reports whether checks that need this one are skipped.
    pub(crate) fn blocks(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Skipped(_))
    }
}

/// The command of cures that removes the node of this machine.
const RESET: &str = "`edge-agent reset`";

/// The result of a check, with details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The result.
    pub(crate) result: CheckResult,
    /// The parts of it, one a line.
    pub(crate) details: Vec<String>,
    /// The results of the parts that decide.
    parts: Vec<CheckResult>,
}

impl From<CheckResult> for Finding {
    fn from(result: CheckResult) -> Self {
        Self {
            result,
            details: Vec::new(),
            parts: Vec::new(),
        }
    }
}

impl Finding {
    /// Adds details to a result.
    pub(crate) fn with_details(result: CheckResult, details: Vec<String>) -> Self {
        Self {
            result,
            details,
            parts: Vec::new(),
        }
    }

    /// Combines the results of several parts: the worst decide, and the others are details. Without parts, `none` is the result.
    pub(crate) fn combine(parts: Vec<CheckResult>, none: CheckResult) -> Self {
        let worst = parts.iter().map(CheckResult::severity).max();
        let mut chosen = parts
            .iter()
            .filter(|part| Some(part.severity()) == worst)
            .cloned();
        let Some(first) = chosen.next() else {
            return none.into();
        };
        let result = chosen.fold(first, CheckResult::join);
        let details = match parts.as_slice() {
            [_] => Vec::new(),
            all => all.iter().map(|part| part.texts().0.to_owned()).collect(),
        };
        let parts = parts.into_iter();
        let mut parts: Vec<_> = parts
            .filter(|part| Some(part.severity()) == worst)
            .collect();
        // one line is enough for what needs no remedy
        if parts.len() == 1 || result.texts().1.is_none() {
            parts.clear();
        }
        Self {
            result,
            details,
            parts,
        }
    }

    /// Returns what is printed: the results of all parts that decide, or the one result.
    fn results(&self) -> &[CheckResult] {
        match self.parts.as_slice() {
            [] => std::slice::from_ref(&self.result),
            parts => parts,
        }
    }

    /// Adds these options to the cures, as [`CheckResult::name_paths`].
    pub(crate) fn name_paths(&mut self, options: &str) {
        self.result.name_paths(options);
        for part in &mut self.parts {
            part.name_paths(options);
        }
    }
}

impl CheckResult {
    /// Joins two results of one severity.
    fn join(self, other: Self) -> Self {
        let (more, other_cure) = other.texts();
        let what = |what: String| format!("{what}; {more}");
        let cures = |cure: String| match other_cure {
            Some(other) if other != cure => format!("{cure}; {other}"),
            _ => cure,
        };
        match self {
            Self::Passed(text) => Self::Passed(what(text)),
            Self::Remark(text) => Self::Remark(what(text)),
            Self::Skipped(text) => Self::Skipped(what(text)),
            Self::NotApplicable(text) => Self::NotApplicable(what(text)),
            Self::Warning { what: text, cure } => Self::Warning {
                what: what(text),
                cure: cures(cure),
            },
            Self::Failed { what: text, cure } => Self::Failed {
                what: what(text),
                cure: cures(cure),
            },
        }
    }
}

/// The results of all checks.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    ignored: &'a [CheckName],
    found: Vec<(CheckName, Finding)>,
}

impl<'a> Report<'a> {
    /// Creates an empty report; checks with these names cannot fail.
    pub(crate) fn new(ignored: &'a [CheckName]) -> Self {
        Self {
            ignored,
            found: Vec::new(),
        }
    }

    /// Adds the result of a check.
    pub(crate) fn add(&mut self, check: CheckName, finding: impl Into<Finding>) {
        self.found.push((check, finding.into()));
    }

    /// Returns the number of failed checks.
    pub(crate) fn failure_count(&self) -> usize {
        self.found
            .iter()
            .filter(|(check, finding)| self.fails(*check, &finding.result))
            .count()
    }

    /// Counts the checks by their results.
    pub(crate) fn counts(&self) -> Counts {
        self.count_with(|_| 1)
    }

    /// Counts the results that [`Self::text`] prints: a check may have several.
    pub(crate) fn printed_counts(&self) -> Counts {
        self.count_with(|finding| finding.results().len())
    }

    fn count_with(&self, number: impl Fn(&Finding) -> usize) -> Counts {
        let mut counts = Counts::default();
        for (_, finding) in &self.found {
            *match finding.result {
                CheckResult::Passed(_) => &mut counts.ok,
                CheckResult::Remark(_) => &mut counts.note,
                CheckResult::Warning { .. } => &mut counts.warning,
                CheckResult::Failed { .. } => &mut counts.error,
                CheckResult::Skipped(_) | CheckResult::NotApplicable(_) => &mut counts.skipped,
            } += number(finding);
        }
        counts
    }

    /// Returns the results for programs.
    pub(crate) fn lines(&self) -> Vec<CheckLine> {
        let line = |(check, finding): &(CheckName, Finding)| {
            let (what, fix) = finding.result.texts();
            CheckLine {
                id: check.name(),
                title: check.title(),
                result: match finding.result {
                    CheckResult::Passed(_) => "ok",
                    CheckResult::Remark(_) => "note",
                    CheckResult::Warning { .. } => "warning",
                    CheckResult::Failed { .. } => "error",
                    CheckResult::Skipped(_) | CheckResult::NotApplicable(_) => "skipped",
                },
                what: what.to_owned(),
                fix: fix.map(str::to_owned),
                details: finding.details.clone(),
            }
        };
        self.found.iter().map(line).collect()
    }

    fn fails(&self, check: CheckName, verdict: &CheckResult) -> bool {
        let is_ignored = self
            .ignored
            .iter()
            .any(|name| *name == check || *name == CheckName::All);
        matches!(verdict, CheckResult::Failed { .. }) && !is_ignored
    }
}

/// A result for programs.
#[derive(Debug, Serialize)]
pub(crate) struct CheckLine {
    /// The id of the check.
    id: String,
    /// Its title.
    title: String,
    /// `ok`, `note`, `warning`, `error` or `skipped`.
    result: &'static str,
    /// What was found.
    what: String,
    /// The remedy of a warning or an error.
    fix: Option<String>,
    /// The parts of the result.
    details: Vec<String>,
}

/// The number of results of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// Passed.
    pub(crate) ok: usize,
    /// Passed with a remark.
    pub(crate) note: usize,
    /// Warnings.
    pub(crate) warning: usize,
    /// Failed.
    pub(crate) error: usize,
    /// Not run.
    pub(crate) skipped: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ok,
            note,
            warning,
            error,
            skipped,
        } = *self;
        let (notes, warnings) = (count(note, "note"), count(warning, "warning"));
        let errors = count(error, "error");
        write!(
            f,
            "{ok} ok, {notes}, {warnings}, {errors}, {skipped} skipped"
        )
    }
}

/// The least width of the column of names.
const NAME_WIDTH: usize = 9;
/// The least width of the texts.
const LEAST_COLUMNS: usize = 40;

impl Report<'_> {
    /// Returns the lines for people. On a terminal of this width, long ones are broken and indented.
    pub(crate) fn text(&self, columns: Option<usize>) -> String {
        let names = self.found.iter().map(|(check, _)| check.name().len());
        let width = names.max().unwrap_or_default().max(NAME_WIDTH);
        let indent = format!("  {:<8} {:<width$} ", "", "");
        let columns = columns.map_or(usize::MAX, |columns| {
            columns.saturating_sub(indent.len()).max(LEAST_COLUMNS)
        });
        let mut text = String::new();
        let mut add = |begin: &str, words: &str, hanging: &str| {
            for (number, line) in wrap(words, columns - hanging.len()).iter().enumerate() {
                let begin = if number == 0 {
                    begin
                } else {
                    &format!("{indent}{hanging}")
                };
                text.push_str(&format!("{begin}{line}\n"));
            }
        };
        for (check, finding) in &self.found {
            let word = match &finding.result {
                CheckResult::Passed(_) => "ok",
                CheckResult::Remark(_) => "note",
                CheckResult::Warning { .. } => "warning",
                result @ CheckResult::Failed { .. } if self.fails(*check, result) => "FAILED",
                CheckResult::Failed { .. } => "ignored",
                CheckResult::Skipped(_) | CheckResult::NotApplicable(_) => "skipped",
            };
            for result in finding.results() {
                let (what, cure) = result.texts();
                add(&format!("  {word:<8} {:<width$} ", check.name()), what, "");
                if let Some(cure) = cure {
                    add(&format!("{indent}→ "), cure, "  ");
                }
            }
        }
        text
    }
}

/// Colours the words that begin the lines of a printed report.
pub(crate) fn color(report: &str) -> String {
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
        let text = report.text(None);
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

    #[test]
    fn lines_are_broken_at_the_width_of_the_terminal() {
        let mut report = Report::new(&[]);
        let what = "no route to 192.0.2.10 port 10000 within ten seconds";
        let cure = "open this TCP port in the firewall between this machine and the cloud";
        report.add(CheckName::Hub, CheckResult::bad(what, cure));
        let blank = " ".repeat(21);
        let expected = format!(
            "  FAILED   hub       no route to 192.0.2.10 port 10000 within\n\
             {blank}ten seconds\n\
             {blank}→ open this TCP port in the firewall\n\
             {blank}  between this machine and the cloud\n"
        );
        for columns in [61, 20] {
            assert_eq!(report.text(Some(columns)), expected, "{columns}");
        }
        assert_eq!(report.text(None).lines().count(), 2);
    }

    #[test]
    fn worst_parts_decide_and_all_are_details() {
        let passed = |what: &str| CheckResult::Passed(what.into());
        let bad = |what: &str, cure: &str| CheckResult::bad(what, cure);
        let none = || CheckResult::NotApplicable("nothing to check".into());
        assert_eq!(Finding::combine(vec![], none()), none().into());
        let one = Finding::combine(vec![passed("a")], none());
        assert_eq!(one, passed("a").into());
        let parts = vec![bad("a", "x"), passed("b"), bad("c", "x"), bad("d", "y")];
        let all = Finding::combine(parts, none());
        assert_eq!(all.result, bad("a; c; d", "x; y"));
        assert_eq!(all.details, ["a", "b", "c", "d"]);
        let mut report = Report::new(&[]);
        report.add(CheckName::Pods, all);
        let text = report.text(None);
        let printed: Vec<&str> = text.lines().map(str::trim).collect();
        let expected = [
            "FAILED   pods      a",
            "→ x",
            "FAILED   pods      c",
            "→ x",
            "FAILED   pods      d",
            "→ y",
        ];
        assert_eq!(printed, expected);
        let counts = (report.counts().error, report.printed_counts().error);
        assert_eq!(counts, (1, 3), "checks and printed results");
    }

    #[test]
    fn results_are_counted_and_named_for_programs() {
        let mut report = Report::new(&[]);
        report.add(CheckName::Root, CheckResult::Passed("yes".into()));
        report.add(CheckName::Disk, CheckResult::warning("full", "free space"));
        report.add(CheckName::Dns, CheckResult::bad("no address", "correct it"));
        report.add(CheckName::Hub, CheckResult::Skipped("needs dns".into()));
        let none = CheckResult::NotApplicable("disabled".into());
        report.add(CheckName::Quic, none);
        assert_eq!(
            report.counts().to_string(),
            "1 ok, 0 notes, 1 warning, 1 error, 2 skipped"
        );
        let lines = serde_json::to_value(report.lines()).unwrap();
        let results = lines.as_array().unwrap().iter().map(|line| &line["result"]);
        let expected = ["ok", "warning", "error", "skipped", "skipped"];
        assert!(results.eq(expected), "{lines}");
        assert_eq!(lines[1]["fix"], "free space");
        assert_eq!(lines[0]["fix"], serde_json::Value::Null);
    }
}
