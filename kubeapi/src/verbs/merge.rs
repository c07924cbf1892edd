//! Merges a write into the stored object, as far as the endpoint may change it. Pure.

use serde_json::Value;

use crate::{
    object::{as_map, assign, child, items, metadata, text_or_empty},
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
            return part_merged(old, &new, "spec", "ephemeralContainers");
        }
        Some(Subresource::Resize) => return resize_merged(old, new),
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
    new
}

/// Reports whether `…/status` also writes metadata: kubelets write labels and annotations with the status. For defined kinds, and some
/// others, the API server takes the status alone.
pub(super) fn status_has_metadata(kind: &Kind) -> bool {
    use Builtin as B;
    kind.builtin.is_some_and(|builtin| {
        !matches!(
            builtin,
            B::CustomResourceDefinition
                | B::ServiceCidr
                | B::VolumeAttachment
                | B::ValidatingAdmissionPolicy
        )
    })
}

/// Returns the old object with the new one's status.
fn status_merged(kind: &Kind, old: &Value, new: &Value) -> Value {
    let mut merged = old.clone();
    assign(as_map(&mut merged), "status", new.get("status").cloned());
    if status_has_metadata(kind) {
        take_metadata(&mut merged, new);
    }
    if kind.is(Builtin::Deployment) {
        let labels = old.pointer("/metadata/labels").cloned();
        assign(metadata(&mut merged), "labels", labels);
    }
    if kind.is(Builtin::Pod)
        && let Some(class) = old.pointer("/status/qosClass").cloned()
    {
        // it follows from the spec
        child(as_map(&mut merged), "status").insert("qosClass".into(), class);
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

/// Returns the old pod with the resources of the new one's containers. If the containers are others, the new pod is returned, which is
/// refused for that.
fn resize_merged(old: &Value, new: Value) -> Value {
    const LISTS: [&str; 2] = ["/spec/containers", "/spec/initContainers"];
    let names = |pod: &Value, list: &str| {
        let names = items(pod, list).iter();
        names
            .map(|container| text_or_empty(container, "/name").to_owned())
            .collect::<Vec<_>>()
    };
    if LISTS
        .iter()
        .any(|list| names(old, list) != names(&new, list))
    {
        return new;
    }
    let mut merged = old.clone();
    for list in LISTS {
        let containers = merged.pointer_mut(list).and_then(Value::as_array_mut);
        for (container, wanted) in containers.into_iter().flatten().zip(items(&new, list)) {
            for field in ["resources", "resizePolicy"] {
                assign(as_map(container), field, wanted.get(field).cloned());
            }
        }
    }
    let of_pod = new.pointer("/spec/resources").cloned();
    assign(child(as_map(&mut merged), "spec"), "resources", of_pod);
    assign(
        metadata(&mut merged),
        "managedFields",
        new.pointer("/metadata/managedFields").cloned(),
    );
    merged
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
