//! What the API server adds to an object.

use serde_json::{Map, Value, json};

use crate::{
    object::{as_map, child, default_to, metadata},
    registry::{Builtin, Kind},
};

mod container;
mod network;
mod pod;
mod qos;
mod secret;

/// Fills in the defaults, at creation and at every change; a second time changes nothing.
pub(crate) fn fill(kind: &Kind, object: &mut Value) {
    match kind.builtin {
        None => kind.schema().fill_defaults(object),
        Some(Builtin::Pod) => pod::fill(child(as_map(object), "spec")),
        Some(Builtin::Secret) => secret::fill(as_map(object)),
        Some(Builtin::Service) => network::service(child(as_map(object), "spec")),
        Some(Builtin::Endpoints) => network::endpoints(as_map(object)),
        Some(Builtin::EndpointSlice) => network::slice(as_map(object)),
        Some(Builtin::CustomResourceDefinition) => definition(child(as_map(object), "spec")),
        Some(Builtin::Node) => node(as_map(object)),
        Some(
            Builtin::Namespace
            | Builtin::ConfigMap
            | Builtin::ServiceAccount
            | Builtin::Event
            | Builtin::Lease,
        ) => {}
    }
}

/// Sets what a new object begins with, once its defaults are filled in; what only the server may say goes.
pub(crate) fn begin(kind: &Kind, object: &mut Value) {
    if kind.counts_generations() {
        metadata(object).insert("generation".into(), 1.into());
    }
    if !kind.keeps_status_on_create() {
        as_map(object).shift_remove("status");
    }
    let status = match kind.builtin {
        Some(Builtin::Pod) => pod::status(object),
        Some(Builtin::Namespace) => json!({"phase": "Active"}),
        Some(Builtin::Service) => json!({"loadBalancer": {}}),
        _ => return,
    };
    as_map(object).insert("status".into(), status);
}

/// A node that does not say how much of it is for pods gives all.
fn node(node: &mut Map<String, Value>) {
    let Some(Value::Object(status)) = node.get_mut("status") else { return };
    if let Some(capacity) = status.get("capacity").cloned() {
        default_to(status, "allocatable", capacity);
    }
}

fn definition(spec: &mut Map<String, Value>) {
    default_to(child(spec, "conversion"), "strategy", "None");
    let names = child(spec, "names");
    if let Some(kind) = names.get("kind").and_then(Value::as_str).map(str::to_owned) {
        default_to(names, "listKind", format!("{kind}List"));
        default_to(names, "singular", kind.to_lowercase());
    }
}

/// The maps in the list under `key`.
fn maps<'a>(map: &'a mut Map<String, Value>, key: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The map under `key`, where there is one.
fn map_at<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(key).and_then(Value::as_object_mut)
}

/// The text under `key`, nothing as an empty one.
fn text_at<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Sets `key` unless there is a text already; Go cannot tell an empty one from none.
fn default_text(map: &mut Map<String, Value>, key: &str, value: &str) {
    if text_at(map, key).is_empty() {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets `key` unless there is a number other than 0.
fn default_number(map: &mut Map<String, Value>, key: &str, value: i64) {
    if map.get(key).and_then(Value::as_i64).unwrap_or_default() == 0 {
        map.insert(key.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests;
