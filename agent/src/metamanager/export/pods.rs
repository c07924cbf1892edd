//! Pods as EdgeCore stores them. Pure.
//!
//! EdgeCore runs the pods that it finds and ends whatever else the runtime has, so a pod that the cloud has deleted is left
//! out. It reports the difference between a pod's status and the one that it finds: of a status that the cloud has not
//! confirmed, the fields that EdgeCore observes by itself are left out.

use std::collections::BTreeMap;

use objectstore::{Key, Resource};
use serde_json::Value;

use super::rows::{Rows, set_revision, with_cloud_revision};
use crate::metamanager::{
    mirror,
    record::{Record, fingerprint},
};

/// The status fields that EdgeCore's kubelet makes from the containers that it observes.
const OBSERVED_FIELDS: [&str; 4] = [
    "conditions",
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];

/// Adds the rows of the pod at `key`.
pub(super) fn rows(
    rows: &mut Rows,
    all: &BTreeMap<Key, Value>,
    node_name: &str,
    key: &Key,
    pod: &Value,
    record: Option<Record>,
) {
    if mirror::is_static(pod) {
        // EdgeCore reads the file itself; the mirror is already in the cloud
        if let Some(record) =
            record.filter(|record| !record.terminated_here && !record.uid.is_empty())
        {
            let node = all.get(&Key::new(Resource::new("", "nodes"), "", node_name));
            let node_uid = node
                .and_then(|node| node.pointer("/metadata/uid"))
                .and_then(Value::as_str);
            rows.push_cloud_object(
                "pod",
                "Pod",
                key,
                mirror_pod(pod, node_name, node_uid.unwrap_or_default(), &record),
            );
        }
        return;
    }
    if record
        .as_ref()
        .is_some_and(|record| record.deleted_in_cloud)
    {
        return;
    }
    let mut object = with_cloud_revision(pod, record.as_ref());
    if !is_confirmed(pod, record.as_ref()) {
        let is_over = matches!(
            pod["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        );
        if is_over {
            rows.skip(
                "final statuses of pods that the cloud has not received",
                qualified_name(key),
            );
        } else if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
            OBSERVED_FIELDS
                .iter()
                .for_each(|field| drop(status.shift_remove(*field)));
        }
    }
    rows.push_cloud_object("pod", "Pod", key, object);
}

/// Notes a pod that is no longer stored and whose end the cloud does not know yet.
pub(super) fn skip_ended_pod(rows: &mut Rows, key: &Key, record: &Value) {
    if Record::read(record.clone()).terminated_here {
        rows.skip(
            "terminated pods that the cloud has not deleted yet; start edge-agent with the cloud connected, and export again",
            qualified_name(key),
        );
    }
}

/// Reports whether the cloud has confirmed the pod's status. A status that no kubelet has written is the cloud's own.
fn is_confirmed(pod: &Value, record: Option<&Record>) -> bool {
    let Some(status) = pod
        .get("status")
        .filter(|status| status.get("startTime").is_some())
    else {
        return true;
    };
    record.and_then(|record| record.reported.as_deref()) == Some(fingerprint(status).as_str())
}

fn mirror_pod(pod: &Value, node_name: &str, node_uid: &str, record: &Record) -> Value {
    let mut mirror = mirror::build(pod, node_name, node_uid);
    if let Some(metadata) = mirror.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".into(), record.uid.as_str().into());
        set_revision(metadata, record.revision);
    }
    if let Some(status) = pod
        .get("status")
        .filter(|_| is_confirmed(pod, Some(record)))
    {
        mirror["status"] = status.clone();
    }
    mirror
}

fn qualified_name(key: &Key) -> String {
    format!("{}/{}", key.namespace, key.name)
}
