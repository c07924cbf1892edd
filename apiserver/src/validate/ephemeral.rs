//! Checks changes of ephemeral containers: they are added to a running pod and never change.

use std::collections::HashMap;

use serde_json::Value;

use kubeapi::{
    cause::Cause,
    object::{MIRROR, items, text_or_empty},
};

const LIST: &str = "/spec/ephemeralContainers";
const FIELD: &str = "spec.ephemeralContainers";

/// Returns the faults of the change from `old` to `new`.
pub(super) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let name = |container: &Value| text_or_empty(container, "/name").to_owned();
    let (before, after) = (items(old, LIST), items(new, LIST));
    let is_static = new
        .pointer("/metadata/annotations")
        .is_some_and(|all| all.get(MIRROR).is_some());
    if is_static {
        return vec![Cause::forbidden(
            "",
            "static pods do not support ephemeral containers",
        )];
    }
    let by_name: HashMap<_, _> = after
        .iter()
        .map(|container| (name(container), container))
        .collect();
    let mut causes = Vec::new();
    for container in before {
        let own = name(container);
        let what = match by_name.get(&own) {
            Some(other) if *other == container => continue,
            Some(_) => "changed",
            None => "removed",
        };
        let why = format!("existing ephemeral containers {own:?} may not be {what}\n");
        causes.push(Cause::forbidden(FIELD, &why));
    }
    causes
}
