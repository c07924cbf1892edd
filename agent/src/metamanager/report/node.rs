//! Reports this node: its registration and its status.

use std::time::Duration;

use objectstore::Key;
use serde_json::{Value, json};
use tracing::info;
use wire::{Upstream, lane::needs_ack};

use super::{ReportError, ReportOutcome, Reporter, outcome};
use crate::metamanager::{
    desired::{EntryChange, StoreChange},
    record::{Record, fingerprint},
};

/// How long after its deletion a node registers itself again. CloudCore clears the ClusterObjectSyncs of a deleted node one by
/// one, and stops when the node is back: those that are left then make it disconnect the new node every five seconds, for ever.
const REREGISTER_DELAY: Duration = Duration::from_secs(10);

impl Reporter {
    /// Registers the node at `key` if the cloud does not know it, and reports its status.
    pub(super) async fn node(&self, key: &Key) -> Result<ReportOutcome, ReportError> {
        if key.name != self.node_name {
            return Ok(ReportOutcome::Done);
        }
        let link = *self.hub.link().borrow();
        let entry = self.desired.entry(key).await?;
        let Some(node) = entry.object else {
            return Ok(ReportOutcome::Done);
        };
        let known = entry
            .record
            .as_ref()
            .and_then(|record| record.reported.as_deref());
        let status = node.get("status").cloned().unwrap_or_else(|| json!({}));
        let fresh = fingerprint(&status);
        // the cloud behind a new connection may have thought this node dead, whatever it had confirmed before
        if known == Some(&fresh) && *self.node_confirmed_over.borrow() == Some(link) {
            return Ok(ReportOutcome::Done);
        }
        if entry.record.is_none() {
            self.register(key, &node).await?;
        }
        let report = Upstream::node_patch(&key.name, json!({"status": status}).to_string());
        let response = match outcome(self.request(report).await?.0) {
            Ok(response) => response,
            // the cloud has lost the node, or never had it
            Err(status) if status["code"] == 404 => {
                if let Some(known) = &entry.record {
                    self.forget_uid(key, &known.uid).await?;
                    info!(node = %key.name, "Node no longer exists in the cloud; registering it again in {REREGISTER_DELAY:?}");
                    tokio::time::sleep(REREGISTER_DELAY).await;
                }
                self.register(key, &node).await?;
                return Ok(ReportOutcome::Retry);
            }
            Err(status) => return Err(ReportError::Refused(status)),
        };
        // a status that the cloud has shown is disregarded if it is from before this report
        let revision = response
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str);
        let revision: Option<u64> = revision.and_then(|revision| revision.parse().ok());
        let uid = response
            .pointer("/metadata/uid")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let at_report = entry.record.unwrap_or_default();
        self.desired
            .change(key, |entry| {
                let now = entry.record.clone().unwrap_or_default();
                let is_newest = revision.is_some_and(|revision| revision >= now.revision);
                let conflicting_statuses = if is_newest {
                    now.conflicting_statuses
                } else {
                    at_report.conflicting_statuses
                };
                let at_report = Record {
                    conflicting_statuses,
                    ..at_report.clone()
                };
                // the first message of the cloud about this node brings its UID
                let at_report = if at_report.uid.is_empty() {
                    Record {
                        uid: now.uid.clone(),
                        ..at_report
                    }
                } else {
                    at_report
                };
                match entry
                    .object
                    .as_ref()
                    .filter(|_| is_newest && !uid.is_empty() && now.uid != uid)
                {
                    Some(node) => with_cloud_identity(node, uid, now.conflicting_statuses, &fresh),
                    None => {
                        let next = now.confirmed(&at_report, &fresh);
                        EntryChange {
                            object: StoreChange::Keep,
                            record: next.map_or(StoreChange::Keep, StoreChange::Set),
                        }
                    }
                }
            })
            .await?;
        self.node_confirmed_over.send_replace(Some(link));
        Ok(ReportOutcome::Done)
    }

    /// Forgets the UID of a node that the cloud does not have any more, unless the cloud has sent another one meanwhile.
    async fn forget_uid(&self, key: &Key, uid: &str) -> Result<(), ReportError> {
        let forgotten = self.desired.change(key, |entry| match &entry.record {
            Some(record) if record.uid == uid => {
                let record = Record {
                    conflicting_statuses: record.conflicting_statuses,
                    ..Record::default()
                };
                EntryChange {
                    object: StoreChange::Keep,
                    record: StoreChange::Set(record),
                }
            }
            _ => EntryChange::default(),
        });
        Ok(forgotten.await?)
    }

    /// Creates the node in the cloud; a node that exists already is no error.
    async fn register(&self, key: &Key, node: &Value) -> Result<(), ReportError> {
        let mut node = node.clone();
        if let Some(map) = node.as_object_mut() {
            map.shift_remove("kind");
            map.shift_remove("apiVersion");
        }
        if let Some(metadata) = node.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "generation",
                "managedFields",
            ] {
                metadata.shift_remove(field);
            }
        }
        let (answer, message) = self.insert_node(key, node).await?;
        if needs_ack(&message) {
            let _ = self
                .hub
                .send(message.acknowledgement(clock::unix_millis()))
                .await;
        }
        match outcome(answer) {
            Ok(_) => info!(node = %key.name, "registered with the cloud"),
            Err(status) if status["code"] == 409 => {}
            Err(status) => return Err(ReportError::Refused(status)),
        }
        Ok(())
    }
}

/// Records the UID of a node whose status the cloud has confirmed. The revision stays unset, because the rest of the node is
/// still to come.
fn with_cloud_identity(
    node: &Value,
    uid: &str,
    conflicting_statuses: u64,
    fingerprint: &str,
) -> EntryChange {
    let mut node = node.clone();
    if let Some(metadata) = node.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".into(), uid.into());
    }
    let record = Record {
        conflicting_statuses,
        reported: Some(fingerprint.to_owned()),
        ..Record::of(uid, 0)
    };
    EntryChange {
        object: StoreChange::Set(node),
        record: StoreChange::Set(record),
    }
}
