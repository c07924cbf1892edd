//! The conditions of a CustomResourceDefinition.

use serde_json::{Value, json};

use crate::object::{as_map, child, items, text};

/// Reports whether the condition of this type is `True`.
pub fn is_true(definition: &Value, type_: &str) -> bool {
    find(definition, type_).is_some_and(|condition| text(condition, "/status") == Some("True"))
}

fn find<'a>(definition: &'a Value, type_: &str) -> Option<&'a Value> {
    items(definition, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == Some(type_))
}

/// Sets a condition in `definition`; its transition time changes with its status only.
pub fn set(
    definition: &mut Value,
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: &str,
) {
    let status = if holds { "True" } else { "False" };
    let before =
        find(definition, type_).filter(|condition| text(condition, "/status") == Some(status));
    let since = before
        .and_then(|condition| text(condition, "/lastTransitionTime"))
        .unwrap_or(now)
        .to_owned();
    let condition = json!({
        "type": type_, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    let conditions = child(as_map(definition), "status")
        .entry("conditions")
        .or_insert_with(|| json!([]));
    let Value::Array(conditions) = conditions else {
        return *conditions = json!([condition]);
    };
    match conditions
        .iter_mut()
        .find(|condition| text(condition, "/type") == Some(type_))
    {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}
