//! Writes outcomes as JUnit XML, which CI systems show. Pure.
//!
//! Written by hand, since messages must be preserved exactly: quick-junit writes a newline in an attribute as it is, which a reader
//! turns into a space, loses text after an escape character, and lets U+FFFE through, which is not valid XML.

use std::fmt::Write;

use super::{Outcome, StepOutcome, Verdict};

/// Returns one test suite for each scenario, with one test case for each step.
pub fn junit(outcomes: &[Outcome]) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for outcome in outcomes {
        let count = |wanted: fn(&Verdict) -> bool| {
            outcome
                .steps
                .iter()
                .filter(|step| wanted(&step.verdict))
                .count()
        };
        let failures = count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let skipped = count(|verdict| *verdict == Verdict::Skipped);
        let time: f64 = outcome
            .steps
            .iter()
            .map(|step| step.took.as_secs_f64())
            .sum();
        // Writing to a `String` does not fail.
        let _ = writeln!(
            text,
            "  <testsuite name=\"{}\" file=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{time:.3}\">",
            escape(&outcome.name),
            escape(&outcome.file),
            outcome.steps.len(),
        );
        outcome
            .steps
            .iter()
            .for_each(|step| case(&mut text, outcome, step));
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn case(text: &mut String, outcome: &Outcome, step: &StepOutcome) {
    let _ = write!(
        text,
        "    <testcase classname=\"{}\" name=\"{}\" file=\"{}\" line=\"{}\" time=\"{:.3}\"",
        escape(&outcome.name),
        escape(&step.title),
        escape(&outcome.file),
        step.line,
        step.took.as_secs_f64(),
    );
    let _ = match &step.verdict {
        Verdict::Passed => writeln!(text, "/>"),
        Verdict::Skipped => writeln!(text, "><skipped/></testcase>"),
        Verdict::Failed(why) => {
            writeln!(text, "><failure message=\"{}\"/></testcase>", escape(why))
        }
    };
}

/// Escapes a text for XML; characters that XML cannot contain become question marks.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn outcomes_are_suites_and_steps_are_cases() {
        let step = |title: &str, line, verdict| StepOutcome {
            title: title.to_owned(),
            line,
            took: Duration::from_millis(1500),
            verdict,
        };
        let outcome = Outcome {
            name: "a <cut> & more".to_owned(),
            file: "cut.yaml".to_owned(),
            steps: vec![
                step("cut edge-1", 7, Verdict::Passed),
                step(
                    "expect \"x\"",
                    8,
                    Verdict::Failed("it's\u{1b} <gone>\nby now".to_owned()),
                ),
                step("restore edge-1", 9, Verdict::Skipped),
            ],
        };
        insta::assert_snapshot!(junit(&[outcome]));
    }
}
