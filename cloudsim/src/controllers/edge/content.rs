//! Checks that the object in a request is the one that the request's path names: it is sent to the API at that path. Pure.

use serde_json::Value;
use wire::{ResourceType, text::printable_short};

use super::request::Request;

/// Returns why `object`, the content of `request`, is not the object that the path names. What the object does not say, the API adds.
pub(super) fn mismatch(request: &Request<'_>, object: &Value) -> Option<String> {
    let (api_version, kind) = match request.kind {
        ResourceType::Node => ("v1", "Node"),
        ResourceType::Pod => ("v1", "Pod"),
        ResourceType::Event => ("v1", "Event"),
        ResourceType::Lease => ("coordination.k8s.io/v1", "Lease"),
        _ => return None,
    };
    let metadata = &object["metadata"];
    let fields = [
        ("apiVersion", &object["apiVersion"], api_version),
        ("kind", &object["kind"], kind),
        (
            "metadata.namespace",
            &metadata["namespace"],
            request.namespace,
        ),
        ("metadata.name", &metadata["name"], request.name),
    ];
    let (field, said, expected) = fields
        .into_iter()
        .find(|(_, said, expected)| !is(said, expected))?;
    Some(format!(
        "its {field} is {}, but its message is about {expected:?}",
        printable_short(said)
    ))
}

/// Reports whether the field is absent, or is this text.
fn is(field: &Value, expected: &str) -> bool {
    match field {
        Value::Null => true,
        Value::String(text) => text.is_empty() || text == expected,
        _ => false,
    }
}
