//! Checks metadata by the rules that all kinds share.

use std::collections::HashSet;

use serde_json::Value;

use super::faults::{faults, required};
use crate::{
    cause::Cause,
    names,
    object::{is_deleting, items, text_or_empty},
    registry::{Builtin, Kind},
};

/// The most bytes of all annotations together.
const ANNOTATIONS_BYTES: usize = 256 * 1024;

pub(super) fn create(kind: &Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    match text_or_empty(object, "/metadata/name") {
        "" => causes.push(Cause::required("metadata.name", "name or generateName is required")),
        name => causes.extend(object_name(kind, name)),
    }
    match kind.builtin {
        Some(Builtin::Event) => causes.extend(involved_namespace(object, "/involvedObject/namespace")),
        Some(Builtin::NewEvent) => causes.extend(involved_namespace(object, "/regarding/namespace")),
        _ => {}
    }
    causes.extend(content(object));
    causes
}

/// Checks that an event is in the namespace of its object, or in `default` for a cluster-scoped object.
fn involved_namespace(event: &Value, pointer: &str) -> Option<Cause> {
    let own = text_or_empty(event, "/metadata/namespace");
    let involved = text_or_empty(event, pointer);
    let fits = own.is_empty() || own == involved || (involved.is_empty() && own == "default");
    let field = "involvedObject.namespace";
    (!fits).then(|| Cause::invalid(field, &involved.into(), "does not match event.namespace"))
}

pub(super) fn update(_kind: &Kind, old: &Value, new: &Value) -> Vec<Cause> {
    const FIXED: [&str; 6] =
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
    let mut causes = Vec::new();
    for name in FIXED {
        let pointer = format!("/metadata/{name}");
        if let Some(value) = new.pointer(&pointer).filter(|value| old.pointer(&pointer) != Some(value)) {
            causes.push(Cause::invalid(format!("metadata.{name}"), value, "field is immutable"));
        }
    }
    let before: HashSet<_> = items(old, "/metadata/finalizers").iter().filter_map(Value::as_str).collect();
    let is_new = |item: &&Value| item.as_str().is_none_or(|name| !before.contains(name));
    let added: Vec<_> = items(new, "/metadata/finalizers").iter().filter(is_new).collect();
    if is_deleting(old) && !added.is_empty() {
        let added: Vec<_> = added.iter().map(ToString::to_string).collect();
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        causes.push(Cause::forbidden("metadata.finalizers", &why));
    }
    causes.extend(content(new));
    causes
}

fn content(object: &Value) -> Vec<Cause> {
    let mut causes = labels(object.pointer("/metadata/labels"), "metadata.labels");
    causes.extend(annotations(object));
    for finalizer in items(object, "/metadata/finalizers").iter().filter_map(Value::as_str) {
        causes.extend(faults("metadata.finalizers", finalizer, names::qualified_name(finalizer)));
    }
    causes.extend(owners(object));
    causes
}

/// Checks labels, or a selector that consists of labels.
pub(super) fn labels(labels: Option<&Value>, field: &str) -> Vec<Cause> {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    labels
        .flat_map(|(key, value)| {
            let value = value.as_str().unwrap_or_default();
            faults(field, key, names::qualified_name(key)).chain(faults(
                field,
                value,
                names::label_value(value),
            ))
        })
        .collect()
}

fn annotations(object: &Value) -> Vec<Cause> {
    const FIELD: &str = "metadata.annotations";
    let annotations =
        || object.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    let keys =
        annotations().flat_map(|(key, _)| faults(FIELD, key, names::qualified_name(&key.to_lowercase())));
    let size: usize = annotations().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    keys.chain((size > ANNOTATIONS_BYTES).then(|| Cause::too_long(FIELD, ANNOTATIONS_BYTES))).collect()
}

fn owners(object: &Value) -> Vec<Cause> {
    let owners = items(object, "/metadata/ownerReferences");
    let mut causes = Vec::new();
    for (index, owner) in owners.iter().enumerate() {
        let path = format!("metadata.ownerReferences[{index}]");
        for key in ["apiVersion", "kind", "name", "uid"] {
            if required(owner, &path, key).is_some() {
                causes.push(Cause::invalid(format!("{path}.{key}"), &"".into(), "must not be empty"));
            }
        }
    }
    let is_controller = |owner: &&Value| owner.get("controller").and_then(Value::as_bool).unwrap_or(false);
    let controllers: Vec<_> =
        owners.iter().filter(is_controller).map(|owner| text_or_empty(owner, "/name")).collect();
    if let [first, second, ..] = controllers.as_slice() {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        causes.push(Cause::invalid("metadata.ownerReferences", &"".into(), &why));
    }
    causes
}

/// Returns the fault of an object's name.
pub(super) fn object_name(kind: &Kind, name: &str) -> Option<Cause> {
    let faults = match kind.builtin {
        Some(Builtin::Namespace) => names::dns_label(name),
        Some(Builtin::Service) => names::dns_1035_label(name),
        // These kinds allow any name that fits into a path.
        Some(
            Builtin::Role
            | Builtin::RoleBinding
            | Builtin::ClusterRole
            | Builtin::ClusterRoleBinding
            | Builtin::ApiService,
        ) => names::path_segment(name),
        Some(Builtin::IpAddress) => names::ip_address(name),
        _ => names::dns_subdomain(name),
    };
    fault("metadata.name", name, faults)
}

fn fault(field: &str, value: &str, faults: Vec<String>) -> Option<Cause> {
    (!faults.is_empty()).then(|| Cause::invalid(field, &value.into(), &faults.join("; ")))
}
