//! Mirrors of static pods: created in the cloud as soon as it knows this node.

use std::time::Duration;

use objectstore::Key;
use serde_json::Value;
use tracing::{info, warn};
use wire::{Answer, Change, ResourceType, Upstream, lane::needs_ack};

use super::{ReportError, ReportOutcome, Reporter};
use crate::metamanager::{
    desired::{EntryChange, StoreChange, resource},
    mirror,
    record::Record,
};

/// The wait while the cloud has not sent the node's UID.
const NODE_UID_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The wait after the cloud has refused a mirror: the pod runs without one.
const MIRROR_RETRY_DELAY: Duration = Duration::from_secs(30);

impl Reporter {
    /// Creates a mirror of `pod`; the pod's status is reported after that.
    pub(super) async fn mirror(
        &self,
        key: &Key,
        pod: &Value,
    ) -> Result<ReportOutcome, ReportError> {
        let node = Key::new(resource(&ResourceType::Node), "", self.node_name.as_str());
        let node_uid = self
            .desired
            .entry(&node)
            .await?
            .record
            .map(|record| record.uid)
            .unwrap_or_default();
        if node_uid.is_empty() {
            return Ok(ReportOutcome::RetryAfter(NODE_UID_RETRY_DELAY));
        }
        let mirror = mirror::build(pod, &self.node_name, &node_uid);
        let insert = Upstream::put(
            Change::Insert,
            &key.namespace,
            &ResourceType::Pod,
            &key.name,
            mirror,
        );
        let (answer, message) = self.request(insert).await?;
        if needs_ack(&message) {
            // disconnected by now: the cloud does not wait for the acknowledgement
            let _ = self
                .hub
                .send(message.acknowledgement(clock::unix_millis()))
                .await;
        }
        let made = match answer {
            Answer::Response(response) => response.into_result(),
            Answer::Failed(status) => Err(status),
            Answer::Found(pod) => Ok(pod),
            Answer::Done => return Err(ReportError::Answer),
        };
        match made {
            Ok(made) => {
                info!(pod = %key.name, namespace = %key.namespace, "mirror pod of a static pod created");
                self.record_mirror(key, &made).await
            }
            // the existing pod comes in a message of the cloud, and is deleted first if it is no mirror of this pod
            Err(status) if status["code"] == 409 => {
                Ok(ReportOutcome::RetryAfter(NODE_UID_RETRY_DELAY))
            }
            Err(status) => {
                let why = status["message"].as_str().unwrap_or_default();
                warn!(
                    pod = %key.name,
                    namespace = %key.namespace,
                    error = why,
                    "failed to create the mirror pod of a static pod; retrying"
                );
                Ok(ReportOutcome::RetryAfter(MIRROR_RETRY_DELAY))
            }
        }
    }

    /// Records which pod of the cloud is the mirror, unless the cloud has sent that by itself meanwhile.
    async fn record_mirror(&self, key: &Key, made: &Value) -> Result<ReportOutcome, ReportError> {
        let uid = made
            .pointer("/metadata/uid")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let noted = self.desired.change(key, |entry| match &entry.record {
            None if !uid.is_empty() => EntryChange {
                object: StoreChange::Keep,
                record: StoreChange::Set(Record::of(uid, 0)),
            },
            _ => EntryChange::default(),
        });
        noted.await?;
        Ok(ReportOutcome::Done)
    }
}
