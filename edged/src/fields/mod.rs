//! Finds the fields of a pod that this agent does not support. `docs/pod-fields.md` lists every field of a pod's specification as
//! supported, refused or ignored, and the tests here compare that page with the published schema and with this code. Pure.
//!
//! A pod with a refused field waits, with the cure in its status and in an event, and is tried again: another agent, or another
//! version of this one, may support the field. Nothing that already runs is stopped for it.

mod rules;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::Value;

use self::rules::{RULES, RefusedValues, Rule};

/// The kind of specification to which a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A `PodSpec`, without its containers and volumes.
    Pod,
    /// A container of any kind.
    Container,
    /// A volume.
    Volume,
}

/// An optional feature of a container runtime, as reported by `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuntimeFeature {
    /// Recursive read-only mounts: read-only with all mounts below them.
    RecursiveReadOnly,
    /// Strict supplemental groups: without those that the image's `/etc/group` adds.
    StrictGroups,
}

/// A field that the pod sets and this node refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedField {
    /// Names the field and the cure.
    pub(crate) message: String,
    /// The runtime's feature that would permit the field; `None` if no feature does.
    pub(crate) required_feature: Option<RuntimeFeature>,
}

/// Returns all refused fields that are set in a specification of this scope.
pub(crate) fn refused_fields<T: Serialize>(scope: Scope, specification: &T) -> Vec<RefusedField> {
    // API types can always be serialised.
    let Ok(value) = serde_json::to_value(specification) else {
        return Vec::new();
    };
    let rules = RULES.iter().filter(|rule| rule.scope == scope);
    rules.filter_map(|rule| check(rule, &value)).collect()
}

fn check(rule: &Rule, value: &Value) -> Option<RefusedField> {
    let at = rule.path.split('.').fold(vec![value], |all, step| {
        all.into_iter().flat_map(|v| children(v, step)).collect()
    });
    let text = at
        .into_iter()
        .find_map(|value| refused_value(rule.when, value))?;
    let Rule {
        path,
        cure,
        required_feature,
        ..
    } = rule;
    Some(RefusedField {
        message: format!("{path}{text} is not supported on this node: {cure}"),
        required_feature: *required_feature,
    })
}

/// Returns the value of a field, or for `field[]` all items of a list.
fn children<'a>(value: &'a Value, step: &str) -> Vec<&'a Value> {
    match step.strip_suffix("[]") {
        Some(list) => value
            .get(list)
            .and_then(Value::as_array)
            .map(|all| all.iter().collect())
            .unwrap_or_default(),
        None => value.get(step).into_iter().collect(),
    }
}

/// Returns the value as text for the message, if it is refused.
fn refused_value(when: RefusedValues, value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match when {
        RefusedValues::Any if matches!(text.as_str(), "null" | "[]" | "{}") => None,
        RefusedValues::Any => Some(String::new()),
        RefusedValues::Exactly(refused) => (text == refused).then(|| format!(": {text}")),
        RefusedValues::AllExcept(taken) => (!taken.contains(&text.as_str()))
            .then(|| format!(": {}", text.chars().take(64).collect::<String>())),
    }
}
