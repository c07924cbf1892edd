//! Checks disruption budgets and role bindings.

use serde_json::Value;

use super::faults::{required, supported};
use crate::{
    cause::Cause,
    object::{items, text_or_empty},
};

/// Checks that a disruption budget sets at most one of its two limits.
pub(super) fn disruption_budget(object: &Value) -> Vec<Cause> {
    let there = |field| object.pointer(field).is_some_and(|value| !value.is_null());
    let both = there("/spec/minAvailable") && there("/spec/maxUnavailable");
    let why = "minAvailable and maxUnavailable cannot be both set";
    let spec = object.get("spec").cloned().unwrap_or_default();
    both.then(|| Cause::invalid("spec", &spec, why)).into_iter().collect()
}

/// Checks that a role binding keeps its role.
pub(super) fn update_binding(old: &Value, new: &Value) -> Vec<Cause> {
    let role = new.get("roleRef").cloned().unwrap_or_default();
    let changed = old.get("roleRef") != Some(&role);
    changed.then(|| Cause::invalid("roleRef", &role, "cannot change roleRef")).into_iter().collect()
}

/// Checks a role binding. Subjects of one in a namespace are of that namespace by default.
pub(super) fn binding(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let is_cluster_wide = text_or_empty(object, "/metadata/namespace").is_empty();
    let role = object.get("roleRef").unwrap_or(&Value::Null);
    causes.extend(supported(role, "roleRef", "kind", &["Role", "ClusterRole"]));
    causes.extend(required(role, "roleRef", "name"));
    for (index, subject) in items(object, "/subjects").iter().enumerate() {
        let path = format!("subjects[{index}]");
        causes.extend(required(subject, &path, "name"));
        causes.extend(supported(subject, &path, "kind", &["ServiceAccount", "User", "Group"]));
        if is_cluster_wide && text_or_empty(subject, "/kind") == "ServiceAccount" {
            causes.extend(required(subject, &path, "namespace"));
        }
    }
    causes
}
