//! The fields of a pod that this agent does not act on. `docs/pod-fields.md` lists every field of a pod's specification as
//! supported, refused or ignored, and the tests here hold that page against the published schema and against this code. Pure.
//!
//! What is refused waits, with the cure in its status and in an event, and is tried again: another agent, or another version
//! of this one, may take it. Nothing that already runs is stopped for it.

mod rules;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;

use self::rules::{RULES, Rule, When};

/// What a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A `PodSpec`, without its containers and volumes.
    Pod,
    /// A container of any kind.
    Container,
    /// A volume.
    Volume,
}

/// What a runtime may be able to do, and says in the answer to `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    /// Mounts that are read-only with all that is mounted below them.
    RecursiveReadOnly,
    /// Groups of a process without those that the image adds.
    StrictGroups,
}

/// A field that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Which, and the cure.
    pub(crate) message: String,
    /// What the runtime would have to be able to do; `None` where nothing helps.
    pub(crate) unless: Option<Ability>,
}

/// All that is refused in a specification of this scope.
pub(crate) fn refused<T: Serialize>(scope: Scope, specification: &T) -> Vec<Refused> {
    // Types of the API can all be written.
    let Ok(value) = serde_json::to_value(specification) else { return Vec::new() };
    let rules = RULES.iter().filter(|rule| rule.scope == scope);
    rules.filter_map(|rule| found(rule, &value)).collect()
}

fn found(rule: &Rule, value: &Value) -> Option<Refused> {
    let at = rule
        .path
        .split('.')
        .fold(vec![value], |all, step| all.into_iter().flat_map(|v| below(v, step)).collect());
    let text = at.into_iter().find_map(|value| offence(rule.when, value))?;
    let Rule { path, cure, unless, .. } = rule;
    Some(Refused { message: format!("{path}{text} is not supported on this node: {cure}"), unless: *unless })
}

/// The value of a field; of `field[]`, all items.
fn below<'a>(value: &'a Value, step: &str) -> Vec<&'a Value> {
    match step.strip_suffix("[]") {
        Some(list) => {
            value.get(list).and_then(Value::as_array).map(|all| all.iter().collect()).unwrap_or_default()
        }
        None => value.get(step).into_iter().collect(),
    }
}

/// The value as it is told, if it is refused.
fn offence(when: When, value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match when {
        When::Set if matches!(text.as_str(), "null" | "[]" | "{}") => None,
        When::Set => Some(String::new()),
        When::Is(refused) => (text == refused).then(|| format!(": {text}")),
        When::OtherThan(taken) => (!taken.contains(&text.as_str()))
            .then(|| format!(": {}", text.chars().take(64).collect::<String>())),
    }
}
