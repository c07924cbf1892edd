//! Where objects that requests name stand in the store. Pure.

use kubeapi::store::{Key, Resource};
use serde_json::Value;
use wire::application::Target;

/// The target's collection.
pub(super) fn resource(target: &Target) -> Resource {
    Resource::new(&target.group, &target.plural)
}

/// Where an object of the target's collection stands.
pub(super) fn key_of(target: &Target, object: &Value) -> Key {
    Key::new(resource(target), text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

/// Where the target's object stands.
pub(super) fn key(target: &Target) -> Key {
    Key::new(resource(target), target.namespace.as_str(), target.name.as_str())
}

/// The string at `pointer`, empty where there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
