//! What the server notes in a definition at its writes: the versions in which objects may be stored, and its deletion.

use serde_json::{Value, json};

use super::conditions::set;
use crate::object::{as_map, child, default_to, items, text};

/// What keeps a definition under deletion until its objects are gone.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The status of a new definition.
pub(crate) fn begin(definition: &mut Value) {
    let names = json!({"kind": "", "plural": ""});
    child(as_map(definition), "status").insert("acceptedNames".into(), names);
    follow(definition);
}

/// Notes the version in which objects are stored from now on.
pub(crate) fn follow(definition: &mut Value) {
    let is_storage = |version: &&Value| version.get("storage").and_then(Value::as_bool).unwrap_or(false);
    let storage = items(definition, "/spec/versions").iter().find(is_storage);
    let Some(name) = storage.and_then(|version| text(version, "/name")).map(str::to_owned) else { return };
    let status = child(as_map(definition), "status");
    default_to(status, "storedVersions", json!([]));
    if let Some(Value::Array(stored)) = status.get_mut("storedVersions")
        && !stored.iter().any(|stored| stored == &name)
    {
        stored.push(name.into());
    }
}

/// Says that the objects of a definition are going to be deleted, and it after them.
pub(crate) fn terminate(definition: &mut Value, now: &str) {
    let message =
        "CustomResourceDefinition marked for deletion; CustomResource deletion will be initiated soon";
    set(definition, "Terminating", true, "InstanceDeletionPending", message, now);
}
