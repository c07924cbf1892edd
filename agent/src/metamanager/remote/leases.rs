//! Leases: not stored on this node, because a lease that the cloud does not have is of no use.
//!
//! A node's lease is owned by the node, by the UID that the cloud has given it, and is collected with it. The owner is set
//! here, because EdgeD has a node before the cloud does and does not know its UID.

use http::{Method, Response};
use kubeapi::Body;
use objectstore::Key;
use serde_json::{Value, json};
use wire::{Answer, Change, ResourceType, Upstream};

use super::{ApiError, Remote, success};
use crate::metamanager::desired::resource;

const NAMESPACE: &str = "kube-node-lease";

impl Remote {
    /// Reads, creates or replaces a lease in the cloud. While the cloud does not know the node, no lease is written: it would
    /// have no owner, or a deleted one, and be collected at once.
    pub(super) async fn lease(
        &self,
        method: &Method,
        name: &str,
        mut lease: Value,
    ) -> Result<Response<Body>, ApiError> {
        let given = lease
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or(name)
            .to_owned();
        if let Some(map) = lease.as_object_mut() {
            // EdgeCore sends neither kind nor apiVersion
            map.shift_remove("kind");
            map.shift_remove("apiVersion");
        }
        let owner = self.owner_reference().await?;
        if let Some(metadata) = lease.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("ownerReferences".into(), json!([owner]));
        }
        let kind = ResourceType::Lease;
        let request = match *method {
            Method::POST => Upstream::put(Change::Insert, NAMESPACE, &kind, &given, lease),
            Method::PUT => Upstream::put(Change::Update, NAMESPACE, &kind, &given, lease),
            _ => Upstream::query(NAMESPACE, &kind, &given),
        };
        let mut lease = match self.request_once(request).await?.0 {
            Answer::Response(response) => response.into_result().map_err(ApiError::of)?,
            Answer::Failed(status) => return Err(ApiError::of(status)),
            Answer::Found(lease) => lease,
            Answer::Done => {
                return Err(ApiError::bad_gateway(
                    "the cloud answered a lease request without a lease",
                ));
            }
        };
        if let Some(map) = lease.as_object_mut() {
            map.insert("kind".into(), json!("Lease"));
            map.insert("apiVersion".into(), json!("coordination.k8s.io/v1"));
        }
        Ok(success(method, &lease))
    }

    /// Returns an owner reference to this node as the cloud has it.
    async fn owner_reference(&self) -> Result<Value, ApiError> {
        let name = self.desired.node_name();
        let key = Key::new(resource(&ResourceType::Node), "", name);
        let uid = self
            .desired
            .entry(&key)
            .await?
            .record
            .map(|record| record.uid)
            .unwrap_or_default();
        if uid.is_empty() {
            let why =
                "the cloud has no Node for this node; its Lease is written after registration";
            return Err(ApiError::unavailable(why));
        }
        Ok(json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use http_body_util::BodyExt;
    use kubeapi::Api;
    use objectstore::MemoryStore;
    use wire::{Downstream, ObjectResp};

    use super::*;
    use crate::{
        edgehub::fake_cloud::{FakeCloud, fake_cloud},
        metamanager::{
            desired::{Desired, EntryChange, StoreChange},
            pods_complete::CompletenessTracker,
            record::Record,
            remote::Config,
        },
    };

    /// EdgeCore's default.
    const TIMEOUT: Duration = Duration::from_secs(60);

    fn remote() -> (Remote, Desired, FakeCloud) {
        let api = Api::builder(MemoryStore::new()).build();
        let desired = Desired::new(MemoryStore::new(), "edge-1".into());
        let (hub, _, mut line) = fake_cloud();
        let (_, pods_complete) = CompletenessTracker::new(desired.clone(), hub.link());
        line.up();
        let config = Config {
            events: tokio::sync::mpsc::channel(1).0,
            timeout: TIMEOUT,
        };
        (
            Remote::new(api.service(), desired.clone(), hub, pods_complete, config),
            desired,
            line,
        )
    }

    async fn know_node(desired: &Desired, uid: &str) {
        let key = Key::new(resource(&ResourceType::Node), "", "edge-1");
        let record = Record::of(uid, 1);
        let known = |_: &_| EntryChange {
            object: StoreChange::Keep,
            record: StoreChange::Set(record.clone()),
        };
        desired.change(&key, known).await.unwrap();
    }

    /// Returns a lease of a node that was deleted.
    fn lease() -> Value {
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "edge-1", "uid": "gone"});
        json!({"metadata": {"name": "edge-1", "ownerReferences": [owner]}, "spec": {}})
    }

    #[tokio::test]
    async fn a_lease_belongs_to_the_node_that_the_cloud_has_now() {
        let (remote, desired, line) = remote();
        for uid in ["first", "second"] {
            know_node(&desired, uid).await;
            for method in [Method::POST, Method::PUT] {
                let asked = remote.lease(&method, "edge-1", lease());
                let answered = async {
                    let message = line.next().await;
                    let lease = message.content_json().unwrap();
                    let path = message.route.resource.clone();
                    let answer = Answer::Response(ObjectResp::ok(lease));
                    let answer =
                        Downstream::Answer { path, answer }.into_message(clock::unix_millis());
                    line.say(answer.answering(&message.header.msg_id)).await;
                };
                let (answer, ()) = tokio::join!(asked, answered);
                let body = answer
                    .unwrap()
                    .into_body()
                    .collect()
                    .await
                    .unwrap()
                    .to_bytes();
                let lease: Value = serde_json::from_slice(&body).unwrap();
                let owner =
                    json!({"apiVersion": "v1", "kind": "Node", "name": "edge-1", "uid": uid});
                assert_eq!(
                    lease["metadata"]["ownerReferences"],
                    json!([owner]),
                    "{method}"
                );
            }
        }
    }

    #[tokio::test]
    async fn there_is_no_lease_without_a_node() {
        let (remote, desired, line) = remote();
        for is_forgotten in [false, true] {
            if is_forgotten {
                know_node(&desired, "").await;
            }
            for method in [Method::GET, Method::POST, Method::PUT] {
                let refusal = remote.lease(&method, "edge-1", lease()).await.unwrap_err();
                assert!(refusal.is_unavailable(), "{refusal:?}");
            }
        }
        assert!(
            line.next().now_or_never().is_none(),
            "the cloud is asked for nothing"
        );
    }
}
