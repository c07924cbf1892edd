//! Static pods and their mirror pods. Pure.
//!
//! A static pod comes from a file of this node; it is stored like any other pod and marked by an annotation. The cloud has a
//! mirror pod of the same name with a UID of its own, which is the one in the record. Changes of the mirror never change the
//! pod: a mirror that is deleted or belongs to an older file is removed, and a new one is created.
//!
//! Source: Kubernetes, "Create static Pods"; the kubelet's mirror client.

use componentbase::static_pods::{
    CONFIG_HASH_ANNOTATION, CONFIG_MIRROR_ANNOTATION, CONFIG_SOURCE_ANNOTATION,
};
use serde_json::{Value, json};
use wire::Change;

use super::{
    desired::{
        entry::DesiredEntry,
        merge::{CloudVersion, EntryChange, StoreChange},
        status_match::status_agrees,
    },
    record::Record,
};

fn annotation<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    pod.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

/// Reports whether the pod comes from a file of this node. A mirror has its pod's annotations, and its own.
pub(super) fn is_static(pod: &Value) -> bool {
    annotation(pod, CONFIG_SOURCE_ANNOTATION) == Some("file")
        && annotation(pod, CONFIG_MIRROR_ANNOTATION).is_none()
}

/// Reports whether the pod comes from a file of a node, or mirrors one that does.
pub(super) fn is_from_file(pod: &Value) -> bool {
    annotation(pod, CONFIG_SOURCE_ANNOTATION) == Some("file")
        || annotation(pod, CONFIG_MIRROR_ANNOTATION).is_some()
}

/// Builds the mirror pod of a static pod. Its owner is the node, by its UID, so it is collected with the node.
pub(super) fn build(pod: &Value, node_name: &str, node_uid: &str) -> Value {
    let meta = |field: &str| {
        pod.pointer(&format!("/metadata/{field}"))
            .cloned()
            .unwrap_or_default()
    };
    let mut annotations = meta("annotations");
    if let Some(map) = annotations.as_object_mut() {
        let hash = map.get(CONFIG_HASH_ANNOTATION).cloned().unwrap_or_default();
        map.insert(CONFIG_MIRROR_ANNOTATION.to_owned(), hash);
    }
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid, "controller": true});
    let mut metadata = json!({
        "name": meta("name"), "namespace": meta("namespace"), "annotations": annotations, "ownerReferences": [owner],
    });
    if let Some(labels) = pod.pointer("/metadata/labels") {
        metadata["labels"] = labels.clone();
    }
    json!({"metadata": metadata, "spec": pod.get("spec")})
}

/// Merges a message of the cloud about a static pod or a mirror into what is stored; `None` for all other pods.
pub(super) fn merge(
    change: Change,
    pod: &Value,
    version: CloudVersion<'_>,
    entry: &DesiredEntry,
) -> Option<EntryChange> {
    let CloudVersion { uid, revision } = version;
    let ours = entry.object.as_ref().filter(|object| is_static(object));
    let hash = annotation(pod, CONFIG_MIRROR_ANNOTATION);
    let record = entry.record.as_ref().filter(|record| record.uid == uid);
    match (change, ours, hash) {
        (_, None, None) | (Change::Delete, None, _) => None,
        (Change::Delete, Some(_), _) => {
            let another = entry
                .record
                .as_ref()
                .is_some_and(|record| !uid.is_empty() && record.uid != uid);
            let record = if another || entry.record.is_none() {
                StoreChange::Keep
            } else {
                StoreChange::Remove
            };
            Some(EntryChange {
                object: StoreChange::Keep,
                record,
            })
        }
        // another pod has the name of a static pod: the static pod has priority
        (_, Some(_), None) => Some(EntryChange::default()),
        (_, _, Some(_)) if record.is_some_and(|record| record.revision >= revision) => {
            Some(EntryChange::default())
        }
        (_, Some(ours), Some(hash)) => {
            let mut record = Record {
                revision,
                ..record.cloned().unwrap_or_else(|| Record::of(uid, revision))
            };
            let status = |pod: &Value| pod.get("status").cloned().unwrap_or_default();
            if !status_agrees(&status(ours), &status(pod)) {
                record.reported = None;
                record.conflicting_statuses += 1;
            }
            let deleted = pod.pointer("/metadata/deletionTimestamp").is_some();
            record.terminated_here |=
                deleted || annotation(ours, CONFIG_HASH_ANNOTATION) != Some(hash);
            Some(EntryChange {
                object: StoreChange::Keep,
                record: StoreChange::Set(record),
            })
        }
        // the file is gone
        (_, None, Some(_)) => {
            let record = record.cloned().unwrap_or_else(|| Record::of(uid, revision));
            let record = Record {
                revision,
                terminated_here: true,
                ..record
            };
            Some(EntryChange {
                object: StoreChange::Remove,
                record: StoreChange::Set(record),
            })
        }
    }
}

#[cfg(test)]
mod tests;
