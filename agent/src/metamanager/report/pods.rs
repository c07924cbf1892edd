//! Reports pods: their status, and their end.

use edged::hold;
use objectstore::Key;
use serde_json::{Value, json};
use tracing::debug;
use wire::Upstream;

use super::{ReportError, ReportOutcome, Reporter, outcome};
use crate::metamanager::{
    desired::{EntryChange, StoreChange, unchanged_revision},
    mirror,
    record::{Record, fingerprint},
};

impl Reporter {
    /// Reports the pod at `key`.
    pub(super) async fn pod(&self, key: &Key) -> Result<ReportOutcome, ReportError> {
        let entry = self.desired.entry(key).await?;
        let static_pod = entry.object.as_ref().filter(|pod| mirror::is_static(pod));
        let Some(record) = entry.record else {
            return match static_pod
                .filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_none())
            {
                Some(pod) => self.mirror(key, pod).await,
                None => Ok(ReportOutcome::Done),
            };
        };
        if record.terminated_here {
            match &record.last_status {
                // a confirmation is written into the record, and that change triggers the next report, which is the deletion
                Some(status) => {
                    let patch = patch(&record.uid, status, false);
                    self.status(key, &record, status, &patch).await?;
                }
                None => self.delete(key, &record.uid).await?,
            }
            return Ok(ReportOutcome::Done);
        }
        // another pod took the name between the two reads; that change triggers its own report
        let pod = entry
            .object
            .filter(|pod| pod["metadata"]["uid"] == record.uid.as_str() || mirror::is_static(pod));
        let status = pod.as_ref().and_then(|pod| pod.get("status"));
        // no kubelet has observed the pod yet: the status is the cloud's own
        let is_own = |status: &&Value| status.get("startTime").is_some() || is_of_held(status);
        let Some(status) = status.filter(is_own) else {
            return Ok(ReportOutcome::Done);
        };
        let is_stale = self.stale.lock().remove(key);
        if !is_stale && record.reported.as_deref() == Some(fingerprint(status).as_str()) {
            return Ok(ReportOutcome::Done);
        }
        let was_changed = pod.as_ref().is_some_and(was_changed);
        let patch = patch(&record.uid, status, was_changed);
        self.status(key, &record, status, &patch).await?;
        Ok(ReportOutcome::Done)
    }

    /// Sends the cloud `patch`, which is about `status`, and notes that the cloud has it.
    async fn status(
        &self,
        key: &Key,
        record: &Record,
        status: &Value,
        patch: &Value,
    ) -> Result<(), ReportError> {
        let report = Upstream::pod_patch(&key.namespace, &key.name, patch.to_string());
        let clouds = match outcome(self.request(report).await?.0) {
            Ok(object) => object,
            // deleted, or another pod by now: the message about its deletion is on its way
            Err(status) if matches!(status["code"].as_u64(), Some(404 | 409)) => {
                debug!(pod = %key.name, "pod no longer exists in the cloud");
                Value::Null
            }
            Err(status) => return Err(ReportError::Refused(status)),
        };
        let confirmed = fingerprint(status);
        let noted = self.desired.change(key, |entry| {
            let mut next = entry
                .record
                .as_ref()
                .and_then(|now| now.confirmed(record, &confirmed));
            if let Some(record) = &mut next
                && let Some(revision) = unchanged_revision(entry, &clouds)
            {
                record.revision = record.revision.max(revision);
            }
            EntryChange {
                object: StoreChange::Keep,
                record: next.map_or(StoreChange::Keep, StoreChange::Set),
            }
        });
        Ok(noted.await?)
    }
}

/// The conditions about a resize. A pod has them only while the node has a resize to make.
const RESIZE_CONDITIONS: [&str; 2] = ["PodResizePending", "PodResizeInProgress"];

/// Returns a strategic merge patch of the whole status. Lists whose items may vanish are replaced, not merged. Reason and
/// message that no longer hold are cleared, since a merge would keep them: a ready pod would still say why it was not ready.
/// So are conditions about a resize, which only a pod that `was_changed` may have had.
fn patch(uid: &str, status: &Value, was_changed: bool) -> Value {
    let mut status = status.clone();
    for list in ["podIPs", "hostIPs"] {
        if let Some(Value::Array(items)) = status.get_mut(list) {
            items.insert(0, json!({"$patch": "replace"}));
        }
    }
    clear_absent_texts(&mut status);
    // other components have conditions in this list: it is merged by type
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.iter_mut().for_each(clear_absent_texts);
        let is_absent = |kind: &&str| !conditions.iter().any(|known| known["type"] == **kind);
        let absent: Vec<_> = RESIZE_CONDITIONS.into_iter().filter(is_absent).collect();
        let deletions = absent
            .into_iter()
            .filter(|_| was_changed)
            .map(|kind| json!({"$patch": "delete", "type": kind}));
        conditions.extend(deletions);
    }
    json!({"metadata": {"uid": uid}, "status": status})
}

/// Reports whether the spec of the pod has changed since the pod was created.
fn was_changed(pod: &Value) -> bool {
    pod.pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .is_some_and(|generation| generation > 1)
}

/// Reports whether EdgeD holds the pod, or has held it: it has not started, but its status is this node's.
fn is_of_held(status: &Value) -> bool {
    let conditions = status["conditions"].as_array();
    let is_hold = |condition: &Value| condition["type"] == hold::CONDITION;
    conditions.into_iter().flatten().any(is_hold)
}

/// Sets absent reasons and messages to null, which deletes them.
fn clear_absent_texts(object: &mut Value) {
    if let Some(map) = object.as_object_mut() {
        for text in ["reason", "message"] {
            map.entry(text).or_insert(Value::Null);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_names_the_pod_replaces_addresses_and_takes_old_texts_back() {
        let status = json!({
            "phase": "Running", "reason": "Because", "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "False", "message": "no"}],
        });
        let expected = json!({
            "metadata": {"uid": "u1"},
            "status": {
                "phase": "Running", "reason": "Because", "message": null,
                "podIPs": [{"$patch": "replace"}, {"ip": "10.0.0.1"}],
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": null, "message": null},
                    {"type": "Initialized", "status": "False", "reason": null, "message": "no"},
                ],
            },
        });
        assert_eq!(patch("u1", &status, false), expected);
    }

    #[test]
    fn a_patch_of_a_changed_pod_takes_back_what_the_status_no_longer_says_about_a_resize() {
        let status = json!({"conditions": [{"type": "PodResizePending", "reason": "Deferred", "message": "m"}]});
        let pending = &status["conditions"][0];
        let deletion = json!({"$patch": "delete", "type": "PodResizeInProgress"});
        let conditions =
            |was_changed| patch("u1", &status, was_changed)["status"]["conditions"].take();
        assert_eq!(conditions(true), json!([pending, deletion]));
        assert_eq!(conditions(false), json!([pending]));
    }
}
