//! Defaults of role bindings.

use serde_json::{Map, Value};

use kubeapi::defaults::fields::{default_text, map_at, maps, text_at};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn binding(binding: &mut Map<String, Value>) {
    if let Some(role) = map_at(binding, "roleRef") {
        default_text(role, "apiGroup", GROUP);
    }
    for subject in maps(binding, "subjects") {
        // a service account is of the core group, which has no name
        if matches!(text_at(subject, "kind"), "User" | "Group") {
            default_text(subject, "apiGroup", GROUP);
        }
    }
}
