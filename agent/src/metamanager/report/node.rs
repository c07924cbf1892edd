//! Reports of this node: that it is there, and its status.

use std::time::Duration;

use kubeapi::store::{Key, StoreError};
use serde_json::{Value, json};
use tracing::info;
use wire::{Upstream, lane::needs_ack};

use super::{Failed, Reporter, Told, outcome};
use crate::metamanager::{
    desired::{Next, Placement},
    now_ms,
    record::{Record, fingerprint},
};

/// How long after its deletion a node registers itself again. CloudCore clears its ClusterObjectSyncs of a deleted node one by
/// one, and stops at a node that is back: what is left then makes it disconnect the new node every five seconds, for ever.
const REGISTER_AGAIN: Duration = Duration::from_secs(10);

impl Reporter {
    /// Registers the node at `key` where the cloud does not know it, and tells its status.
    pub(super) async fn node(&self, key: &Key) -> Result<Told, Failed> {
        if key.name != self.node_name {
            return Ok(Told::Done);
        }
        let link = self.hub.link();
        let before = *link.borrow();
        let entry = self.desired.entry(key).await?;
        let Some(node) = entry.object else { return Ok(Told::Done) };
        let known = entry.record.as_ref().and_then(|record| record.reported.as_deref());
        let status = node.get("status").cloned().unwrap_or_else(|| json!({}));
        let fresh = fingerprint(&status);
        if known == Some(&fresh) {
            return Ok(Told::Done);
        }
        if entry.record.is_none() {
            self.register(key, &node).await?;
        }
        let report = Upstream::node_patch(&key.name, json!({"status": status}).to_string());
        match outcome(self.ask(report).await?.0) {
            Ok(_) => {}
            // the cloud has lost the node, or never had it
            Err(status) if status["code"] == 404 => {
                if entry.record.is_some() {
                    info!(node = %key.name, "the cloud does not know this node any more; it is registered again in {REGISTER_AGAIN:?}");
                    tokio::time::sleep(REGISTER_AGAIN).await;
                }
                self.register(key, &node).await?;
                return Ok(Told::Again);
            }
            Err(status) => return Err(Failed::Refused(status)),
        }
        let told = entry.record.unwrap_or_default();
        self.desired
            .change(key, |entry| {
                // behind a new connection the report is due again, whatever was confirmed over the old one
                if *link.borrow() != before {
                    return Placement::default();
                }
                let now = entry.record.clone().unwrap_or_default();
                // the first message of the cloud about this node brings its UID
                let told = if told.uid.is_empty() {
                    Record { uid: now.uid.clone(), ..told.clone() }
                } else {
                    told.clone()
                };
                let next = now.confirmed(&told, &fresh);
                Placement { object: Next::Keep, record: next.map_or(Next::Keep, Next::Set) }
            })
            .await?;
        Ok(Told::Done)
    }

    /// Creates the node in the cloud; one that exists is fine.
    async fn register(&self, key: &Key, node: &Value) -> Result<(), Failed> {
        let mut node = node.clone();
        if let Some(map) = node.as_object_mut() {
            map.shift_remove("kind");
            map.shift_remove("apiVersion");
        }
        if let Some(metadata) = node.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
                metadata.shift_remove(field);
            }
        }
        let (answer, message) = self.insert_node(key, node).await?;
        if needs_ack(&message) {
            let _ = self.hub.send(message.acknowledgement(now_ms())).await;
        }
        match outcome(answer) {
            Ok(_) => info!(node = %key.name, "registered with the cloud"),
            Err(status) if status["code"] == 409 => {}
            Err(status) => return Err(Failed::Refused(status)),
        }
        Ok(())
    }
}

impl Reporter {
    /// Makes the next report of the node due: behind a new connection there may be a cloud that thought it dead.
    pub(super) async fn node_is_due(&self, key: &Key) -> Result<(), StoreError> {
        self.desired
            .change(key, |entry| match &entry.record {
                Some(record) if record.reported.is_some() => Placement {
                    object: Next::Keep,
                    record: Next::Set(Record { reported: None, ..record.clone() }),
                },
                _ => Placement::default(),
            })
            .await
    }
}
