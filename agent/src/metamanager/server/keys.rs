//! The keys in the store of objects that requests name. Pure.

use objectstore::{Key, Resource};
use serde_json::Value;
use wire::application::Target;

/// Returns the target's collection.
pub(super) fn resource(target: &Target) -> Resource {
    Resource::new(&target.group, &target.plural)
}

/// Returns the key of an object of the target's collection.
pub(super) fn key_of(target: &Target, object: &Value) -> Key {
    Key::new(
        resource(target),
        text(object, "/metadata/namespace"),
        text(object, "/metadata/name"),
    )
}

/// Returns the key of the target's object.
pub(super) fn key(target: &Target) -> Key {
    Key::new(
        resource(target),
        target.namespace.as_str(),
        target.name.as_str(),
    )
}

/// Returns the string at `pointer`, empty if there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
