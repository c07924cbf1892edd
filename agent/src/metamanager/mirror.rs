//! Static pods and their mirrors. Pure.
//!
//! A static pod comes from a file of this node; it is stored like any other pod and marked by an annotation. In the cloud a
//! mirror of it stands under the same name, with a UID of its own, which is the one in the record. What happens to the mirror
//! never changes the pod: a mirror that is deleted, or is one of an older file, goes, and another is made.
//!
//! Source: Kubernetes, "Create static Pods"; the kubelet's mirror client.

use serde_json::{Value, json};
use wire::Change;

use super::{
    desired::{
        agree::agrees,
        entry::Entry,
        place::{CloudVersion, Placement, StoreChange},
    },
    record::Record,
};

/// Annotation: where a pod comes from; `file` makes it a static pod.
pub(crate) const SOURCE: &str = "kubernetes.io/config.source";
/// Annotation: what a static pod was made from.
pub(crate) const HASH: &str = "kubernetes.io/config.hash";
/// Annotation: the hash of the static pod that a pod in the cloud mirrors.
const MIRROR: &str = "kubernetes.io/config.mirror";

fn annotation<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    pod.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

/// Whether the pod comes from a file of this node. A mirror brings its pod's annotations, and its own.
pub(super) fn is_static(pod: &Value) -> bool {
    annotation(pod, SOURCE) == Some("file") && annotation(pod, MIRROR).is_none()
}

/// Whether the pod comes from a file of a node, or mirrors one that does.
pub(super) fn is_of_file(pod: &Value) -> bool {
    annotation(pod, SOURCE) == Some("file") || annotation(pod, MIRROR).is_some()
}

/// The mirror to make of a static pod; it goes with the node, by its UID.
pub(super) fn of(pod: &Value, node_name: &str, node_uid: &str) -> Value {
    let meta = |field: &str| pod.pointer(&format!("/metadata/{field}")).cloned().unwrap_or_default();
    let mut annotations = meta("annotations");
    if let Some(map) = annotations.as_object_mut() {
        let hash = map.get(HASH).cloned().unwrap_or_default();
        map.insert(MIRROR.to_owned(), hash);
    }
    let owner =
        json!({"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid, "controller": true});
    let mut metadata = json!({
        "name": meta("name"), "namespace": meta("namespace"), "annotations": annotations, "ownerReferences": [owner],
    });
    if let Some(labels) = pod.pointer("/metadata/labels") {
        metadata["labels"] = labels.clone();
    }
    json!({"metadata": metadata, "spec": pod.get("spec")})
}

/// What a message of the cloud about a pod makes of what is stored, where a static pod or a mirror is concerned.
pub(super) fn place(
    change: Change,
    pod: &Value,
    version: CloudVersion<'_>,
    entry: &Entry,
) -> Option<Placement> {
    let CloudVersion { uid, revision } = version;
    let ours = entry.object.as_ref().filter(|object| is_static(object));
    let hash = annotation(pod, MIRROR);
    let record = entry.record.as_ref().filter(|record| record.uid == uid);
    match (change, ours, hash) {
        (_, None, None) | (Change::Delete, None, _) => None,
        (Change::Delete, Some(_), _) => {
            let another = entry.record.as_ref().is_some_and(|record| !uid.is_empty() && record.uid != uid);
            let record =
                if another || entry.record.is_none() { StoreChange::Keep } else { StoreChange::Remove };
            Some(Placement { object: StoreChange::Keep, record })
        }
        // another pod that has the name of one of ours: the one from the file goes before
        (_, Some(_), None) => Some(Placement::default()),
        (_, _, Some(_)) if record.is_some_and(|record| record.revision >= revision) => {
            Some(Placement::default())
        }
        (_, Some(ours), Some(hash)) => {
            let mut record =
                Record { revision, ..record.cloned().unwrap_or_else(|| Record::of(uid, revision)) };
            let status = |pod: &Value| pod.get("status").cloned().unwrap_or_default();
            if !agrees(&status(ours), &status(pod)) {
                record.reported = None;
                record.disagreements += 1;
            }
            let deleted = pod.pointer("/metadata/deletionTimestamp").is_some();
            record.finished |= deleted || annotation(ours, HASH) != Some(hash);
            Some(Placement { object: StoreChange::Keep, record: StoreChange::Set(record) })
        }
        // its file is gone
        (_, None, Some(_)) => {
            let record = record.cloned().unwrap_or_else(|| Record::of(uid, revision));
            let record = Record { revision, finished: true, ..record };
            Some(Placement { object: StoreChange::Remove, record: StoreChange::Set(record) })
        }
    }
}

#[cfg(test)]
#[path = "mirror/tests.rs"]
mod tests;
