//! A step of an object on its way, and how a chain of steps is printed. Pure.

use agent::terminal::wrap;
use serde::Serialize;
use serde_json::{Value, json};
use wire::text::printable;

/// The width of the column with the names of steps.
const NAME: usize = 11;
/// The width of a text.
const TEXT: usize = 96;

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StepState {
    /// It has happened.
    Ok,
    /// It has not happened.
    Missing,
    /// It is unknown, since an earlier step is missing.
    Unknown,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Step {
    /// Its name, a word.
    pub(super) name: &'static str,
    /// Its state.
    pub(super) state: StepState,
    /// What is known of it.
    pub(super) text: String,
    /// What to do if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

/// What a step found: what has happened, or what is missing and what to do.
pub(super) type Finding = Result<String, (String, String)>;

/// Returns a missing step.
pub(super) fn missing(text: impl Into<String>, fix: impl Into<String>) -> Finding {
    Err((text.into(), fix.into()))
}

/// The steps of one object, in order.
#[derive(Debug, Default)]
pub(super) struct Chain(Vec<Step>);

impl Chain {
    /// Adds a step; it is evaluated only if none before it is missing.
    pub(super) fn step(&mut self, name: &'static str, find: impl FnOnce() -> Finding) {
        let (state, text, fix) = if self.missing().is_some() {
            (StepState::Unknown, String::new(), None)
        } else {
            match find() {
                Ok(text) => (StepState::Ok, text, None),
                Err((text, fix)) => (StepState::Missing, text, Some(fix)),
            }
        };
        // nodes write some of it: a line end would begin a step of theirs
        self.0.push(Step {
            name,
            state,
            text: printable(&text),
            fix: fix.as_deref().map(printable),
        });
    }

    /// Returns the first missing step.
    pub(super) fn missing(&self) -> Option<&Step> {
        self.0.iter().find(|step| step.state == StepState::Missing)
    }

    /// Returns the chain for programs.
    pub(super) fn document(&self, object: &str) -> Value {
        json!({"object": object, "steps": self.0, "missing": self.missing().map(|step| step.name)})
    }

    /// Returns the chain for people.
    pub(super) fn lines(&self, object: &str) -> Vec<String> {
        let mut lines = vec![format!("{object}:")];
        for step in &self.0 {
            let word = match step.state {
                StepState::Ok => "ok",
                StepState::Missing => "MISSING",
                // they are named in one line
                StepState::Unknown => continue,
            };
            let mut head = format!("  {word:<8} {:<NAME$} ", step.name);
            for line in wrap(&step.text, TEXT) {
                lines.push(format!("{head}{line}").trim_end().to_owned());
                head = " ".repeat(head.len());
            }
            if let Some(fix) = &step.fix {
                let mut arrow = "→ ";
                for line in wrap(fix, TEXT - 2) {
                    lines.push(format!("{head}{arrow}{line}"));
                    arrow = "  ";
                }
            }
        }
        let after = self
            .0
            .iter()
            .filter(|step| step.state == StepState::Unknown);
        let after: Vec<_> = after.map(|step| step.name).collect();
        if !after.is_empty() {
            lines.push(format!(
                "  {:<8} {:<NAME$} {}",
                "-",
                "after it",
                after.join(", ")
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_node_has_no_lines_of_its_own() {
        let mut chain = Chain::default();
        chain.step("ready", || missing("bad\n  ok       ready", "a\nb"));
        assert_eq!(chain.lines("node/edge-1").len(), 3);
    }

    #[test]
    fn nothing_after_the_first_missing_step_is_evaluated() {
        let mut chain = Chain::default();
        chain.step("created", || Ok("3m ago".to_owned()));
        chain.step("scheduled", || {
            missing("no node fits", "add a node that fits")
        });
        chain.step("node", || unreachable!());
        chain.step("image", || unreachable!());
        let expected = [
            "pod/hello:",
            "  ok       created     3m ago",
            "  MISSING  scheduled   no node fits",
            "                       → add a node that fits",
            "  -        after it    node, image",
        ];
        assert_eq!(chain.lines("pod/hello"), expected);
        assert_eq!(chain.document("pod/hello")["missing"], "scheduled");
        assert_eq!(
            chain.document("pod/hello")["steps"][2],
            json!({"name": "node", "state": "unknown", "text": ""})
        );
    }
}
