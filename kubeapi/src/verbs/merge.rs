//! Merges a write into the stored object, as far as the endpoint may change it. Pure.

use serde_json::{Map, Value};

use crate::{
    object::{as_map, assign, child, metadata, next_generation},
    registry::{Builtin, Kind},
    request::subresource::Subresource,
};

/// The metadata that only the server writes.
const SERVERS: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
];

/// Returns `new` in place of `old`, written through the main resource or a subresource: each keeps what the other one writes, and both
/// keep what only the server writes.
pub(super) fn merge(kind: &Kind, part: Option<Subresource>, old: &Value, mut new: Value) -> Value {
    match part {
        Some(Subresource::Status) => return status_merged(kind, old, &new),
        Some(Subresource::Approval) => {
            let mut merged = part_merged(old, &new, "status", "conditions");
            take_metadata(&mut merged, &new);
            return merged;
        }
        Some(Subresource::Finalize) => return part_merged(old, &new, "spec", "finalizers"),
        Some(Subresource::EphemeralContainers) => {
            let mut merged = part_merged(old, &new, "spec", "ephemeralContainers");
            if spec_fields(kind, old) != spec_fields(kind, &merged) {
                next_generation(&mut merged);
            }
            return merged;
        }
        _ => {}
    }
    if kind.is(Builtin::Namespace) {
        let finalizers = old.pointer("/spec/finalizers").cloned();
        assign(child(as_map(&mut new), "spec"), "finalizers", finalizers);
    }
    if kind.is(Builtin::CertificateSigningRequest) {
        // who asks, and for what, stays as it was created
        assign(as_map(&mut new), "spec", old.get("spec").cloned());
    }
    if kind.status {
        assign(as_map(&mut new), "status", old.get("status").cloned());
    }
    keep_servers_metadata(old, &mut new);
    if kind.counts_generations() && spec_fields(kind, old) != spec_fields(kind, &new) {
        next_generation(&mut new);
    }
    new
}

/// Reports whether `…/status` also writes metadata: kubelets write labels and annotations with the status. For defined kinds, and
/// definitions themselves, the API server takes the status alone.
pub(super) fn status_has_metadata(kind: &Kind) -> bool {
    kind.builtin
        .is_some_and(|builtin| builtin != Builtin::CustomResourceDefinition)
}

/// Returns the old object with the new one's status.
fn status_merged(kind: &Kind, old: &Value, new: &Value) -> Value {
    let mut merged = old.clone();
    assign(as_map(&mut merged), "status", new.get("status").cloned());
    if status_has_metadata(kind) {
        take_metadata(&mut merged, new);
    }
    assign(
        metadata(&mut merged),
        "managedFields",
        new.pointer("/metadata/managedFields").cloned(),
    );
    merged
}

/// Takes over the metadata that a subresource may write.
fn take_metadata(merged: &mut Value, new: &Value) {
    for key in ["labels", "annotations", "finalizers"] {
        let value = new
            .pointer("/metadata")
            .and_then(|metadata| metadata.get(key))
            .cloned();
        assign(metadata(merged), key, value);
    }
}

/// Returns the old object with one field of the new one's spec or status.
fn part_merged(old: &Value, new: &Value, half: &str, field: &str) -> Value {
    let mut merged = old.clone();
    let value = new.get(half).and_then(|half| half.get(field)).cloned();
    assign(child(as_map(&mut merged), half), field, value);
    assign(
        metadata(&mut merged),
        "managedFields",
        new.pointer("/metadata/managedFields").cloned(),
    );
    merged
}

fn keep_servers_metadata(old: &Value, new: &mut Value) {
    let metadata = metadata(new);
    for key in SERVERS {
        assign(
            metadata,
            key,
            old.pointer("/metadata")
                .and_then(|metadata| metadata.get(key))
                .cloned(),
        );
    }
    assign(
        metadata,
        "resourceVersion",
        old.pointer("/metadata/resourceVersion").cloned(),
    );
}

/// Returns the fields whose change increments the generation: all but the metadata, and the status where it is a subresource.
fn spec_fields(kind: &Kind, object: &Value) -> Map<String, Value> {
    let mut wanted = object.as_object().cloned().unwrap_or_default();
    for key in ["metadata", "apiVersion", "kind"] {
        wanted.shift_remove(key);
    }
    if kind.status {
        wanted.shift_remove("status");
    }
    wanted
}
