//! A step of an object on its way, and the chain of its steps. Pure.

use serde::Serialize;
use serde_json::{Value, json};
use wire::text::printable;

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// It has happened.
    Ok,
    /// It has not happened.
    Missing,
    /// It is unknown, since an earlier step is missing.
    Unknown,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its name, a word.
    pub name: &'static str,
    /// Its state.
    pub state: StepState,
    /// What is known of it.
    pub text: String,
    /// What to do if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// What a step found: what has happened, or what is missing and what to do.
pub type Finding = Result<String, (String, String)>;

/// Returns a missing step.
pub(super) fn missing(text: impl Into<String>, fix: impl Into<String>) -> Finding {
    Err((text.into(), fix.into()))
}

/// The steps of one object, in order.
#[derive(Debug, Default)]
pub struct Chain(Vec<Step>);

impl Chain {
    /// Adds a step; it is evaluated only if none before it is missing.
    pub fn step(&mut self, name: &'static str, find: impl FnOnce() -> Finding) {
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

    /// Returns the steps.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Returns the first missing step.
    pub fn missing(&self) -> Option<&Step> {
        self.0.iter().find(|step| step.state == StepState::Missing)
    }

    /// Returns the chain for programs.
    pub fn document(&self, object: &str) -> Value {
        json!({"object": object, "steps": self.0, "missing": self.missing().map(|step| step.name)})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_node_has_no_lines_of_its_own() {
        let mut chain = Chain::default();
        chain.step("ready", || missing("bad\n  ok       ready", "a\nb"));
        let step = chain.missing().unwrap();
        assert!(!step.text.contains('\n') && !step.fix.as_ref().unwrap().contains('\n'));
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
        assert_eq!(chain.document("pod/hello")["missing"], "scheduled");
        assert_eq!(
            chain.document("pod/hello")["steps"][2],
            json!({"name": "node", "state": "unknown", "text": ""})
        );
    }
}
