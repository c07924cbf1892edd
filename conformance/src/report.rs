//! The report of a run, in the form of Gateway API's `ConformanceReport`, and as text.
//!
//! Source: <https://gateway-api.sigs.k8s.io/concepts/conformance/>.

use std::{fmt::Write, time::Duration};

use serde::Serialize;

use crate::{CaseInfo, Profile};

/// What was tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Implementation {
    /// The project, such as `kubeedge`.
    pub project: String,
    /// Its version.
    pub version: String,
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does what is expected.
    Passed,
    /// It does something else: what.
    Failed(String),
    /// The case was not run: why.
    Skipped(String),
}

/// A case and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseResult {
    /// The case.
    pub case: CaseInfo,
    /// Its outcome.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

/// The outcomes of all cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// `cloud` or `edge`.
    pub side: &'static str,
    /// What was tested.
    pub implementation: Implementation,
    /// The transport of the session.
    pub transport: &'static str,
    /// The outcomes, in the order of the table.
    pub results: Vec<CaseResult>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    date: String,
    implementation: &'a Implementation,
    side: &'static str,
    transport: &'static str,
    profiles: Vec<ProfileDocument<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProfileDocument<'a> {
    name: Profile,
    result: &'static str,
    statistics: Statistics,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed_tests: Vec<TestDocument<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped_tests: Vec<TestDocument<'a>>,
}

#[derive(Default, Serialize)]
struct Statistics {
    passed: usize,
    failed: usize,
    skipped: usize,
}

#[derive(Serialize)]
struct TestDocument<'a> {
    id: &'static str,
    title: &'static str,
    reason: &'a str,
    source: &'static str,
}

impl Report {
    /// Reports whether no case failed.
    pub fn is_success(&self) -> bool {
        !self
            .results
            .iter()
            .any(|result| matches!(result.verdict, Verdict::Failed(_)))
    }

    /// Writes the report as YAML; `date` is in RFC 3339.
    ///
    /// # Errors
    /// It cannot be written as YAML.
    pub fn to_yaml(&self, date: &str) -> Result<String, String> {
        let document = Document {
            api_version: "outrigger.dev/v1alpha1",
            kind: "ConformanceReport",
            date: date.to_owned(),
            implementation: &self.implementation,
            side: self.side,
            transport: self.transport,
            profiles: [Profile::Core, Profile::Extended]
                .into_iter()
                .filter(|profile| self.results.iter().any(|one| one.case.profile == *profile))
                .map(|profile| self.profile(profile))
                .collect(),
        };
        serde_saphyr::to_string(&document).map_err(|error| error.to_string())
    }

    fn profile(&self, name: Profile) -> ProfileDocument<'_> {
        let mut statistics = Statistics::default();
        let (mut failed_tests, mut skipped_tests) = (Vec::new(), Vec::new());
        for result in self.results.iter().filter(|one| one.case.profile == name) {
            let test = |reason| TestDocument {
                id: result.case.id,
                title: result.case.title,
                reason,
                source: result.case.source,
            };
            match &result.verdict {
                Verdict::Passed => statistics.passed += 1,
                Verdict::Failed(reason) => {
                    statistics.failed += 1;
                    failed_tests.push(test(reason));
                }
                Verdict::Skipped(reason) => {
                    statistics.skipped += 1;
                    skipped_tests.push(test(reason));
                }
            }
        }
        // The words of Gateway API.
        let result = match (statistics.failed, statistics.skipped) {
            (0, 0) => "success",
            (0, _) => "partial",
            _ => "failure",
        };
        ProfileDocument {
            name,
            result,
            statistics,
            failed_tests,
            skipped_tests,
        }
    }

    /// Writes one line for each profile: how many cases passed.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let count = |profile, wanted: fn(&Verdict) -> bool| {
            self.results
                .iter()
                .filter(|one| one.case.profile == profile && wanted(&one.verdict))
                .count()
        };
        for (name, profile) in [("core", Profile::Core), ("extended", Profile::Extended)] {
            // Writing to a `String` does not fail.
            let _ = writeln!(
                text,
                "{name}: {} passed, {} failed, {} skipped",
                count(profile, |one| *one == Verdict::Passed),
                count(profile, |one| matches!(one, Verdict::Failed(_))),
                count(profile, |one| matches!(one, Verdict::Skipped(_))),
            );
        }
        text
    }
}

impl std::fmt::Display for CaseResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CaseInfo { id, title, .. } = self.case;
        match &self.verdict {
            Verdict::Passed => write!(f, "PASS  {id:<28} {title}"),
            Verdict::Failed(why) => write!(f, "FAIL  {id:<28} {title}\n      {why}"),
            Verdict::Skipped(why) => write!(f, "SKIP  {id:<28} {title}\n      {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let case = |id, profile| CaseInfo {
            id,
            profile,
            title: "It works.",
            source: "a file",
        };
        let result = |id, profile, verdict| CaseResult {
            case: case(id, profile),
            verdict,
            took: Duration::ZERO,
        };
        Report {
            side: "cloud",
            implementation: Implementation {
                project: "kubeedge".into(),
                version: "v1.22.0".into(),
            },
            transport: "websocket",
            results: vec![
                result("a.good", Profile::Core, Verdict::Passed),
                result("a.bad", Profile::Core, Verdict::Failed("no answer".into())),
                result("b.off", Profile::Extended, Verdict::Skipped("off".into())),
            ],
        }
    }

    #[test]
    fn yaml_has_the_form_of_gateway_api() {
        let yaml = report().to_yaml("2026-01-02T03:04:05Z").unwrap();
        let value: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(value["kind"], "ConformanceReport");
        assert_eq!(value["implementation"]["project"], "kubeedge");
        let (core, extended) = (&value["profiles"][0], &value["profiles"][1]);
        assert_eq!(
            (&core["name"], &core["result"]),
            (&"core".into(), &"failure".into())
        );
        assert_eq!(core["statistics"]["passed"], 1);
        assert_eq!(core["failedTests"][0]["reason"], "no answer");
        assert_eq!(extended["result"], "partial");
        assert_eq!(extended["skippedTests"][0]["id"], "b.off");
    }

    #[test]
    fn text_has_one_line_a_case_and_the_reasons() {
        let report = report();
        let lines = report.results.iter().map(ToString::to_string);
        let text = lines.collect::<String>() + &report.summary();
        assert!(text.contains("FAIL  a.bad"), "{text}");
        assert!(text.contains("no answer"), "{text}");
        assert!(
            text.contains("core: 1 passed, 1 failed, 0 skipped"),
            "{text}"
        );
        assert!(!report.is_success());
    }
}
