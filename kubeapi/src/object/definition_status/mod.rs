//! The status of a CustomResourceDefinition that the server maintains: the stored versions, and the deletion.

use serde_json::{Value, json};

pub mod conditions;

use self::conditions::set;
use crate::object::{as_map, child, default_to, items, text};

/// The finalizer that delays the deletion of a definition until its objects are deleted.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Sets the status of a new definition.
pub fn begin(definition: &mut Value) {
    let names = json!({"kind": "", "plural": ""});
    child(as_map(definition), "status").insert("acceptedNames".into(), names);
    follow(definition);
}

/// Adds the storage version to `storedVersions`.
pub fn follow(definition: &mut Value) {
    let is_storage = |version: &&Value| {
        version
            .get("storage")
            .and_then(Value::as_bool)
            .unwrap_or(false)
    };
    let storage = items(definition, "/spec/versions").iter().find(is_storage);
    let Some(name) = storage
        .and_then(|version| text(version, "/name"))
        .map(str::to_owned)
    else {
        return;
    };
    let status = child(as_map(definition), "status");
    default_to(status, "storedVersions", json!([]));
    if let Some(Value::Array(stored)) = status.get_mut("storedVersions")
        && !stored.iter().any(|stored| stored == &name)
    {
        stored.push(name.into());
    }
}

/// Sets the condition `Terminating`.
pub fn terminate(definition: &mut Value, now: &str) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will be initiated soon";
    set(
        definition,
        "Terminating",
        true,
        "InstanceDeletionPending",
        message,
        now,
    );
}
