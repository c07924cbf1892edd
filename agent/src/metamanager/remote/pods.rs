//! Reads and deletes pods. EdgeD deletes a pod when its containers have ended: it is removed here at once, and the cloud is
//! told until it has deleted it too. A pod that the store has lost is fetched from the cloud.

use http::{Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body as ClientBody;
use kubeapi::Body;
use objectstore::Key;
use serde_json::{Value, json};
use tower::Service;
use wire::{Answer, ResourcePath, ResourceType, Upstream};

use super::{ApiError, Remote, body, object_response, tokens};
use crate::metamanager::{
    desired::{DesiredEntry, EntryChange, StoreChange, resource},
    mirror,
    record::{Record, fingerprint},
};

/// A patch that changes nothing, whose answer is the pod: clouds have no query for pods.
const NO_CHANGE: &str = "{}";

impl Remote {
    /// Returns the pod; from the cloud where it is not stored and the store may have lost it.
    pub(super) async fn pod(
        &self,
        namespace: &str,
        name: &str,
        request: Request<ClientBody>,
    ) -> Result<Response<Body>, ApiError> {
        let key = Key::new(resource(&ResourceType::Pod), namespace, name);
        if !self.pods_complete.now() && self.desired.get(&key).await?.is_none() {
            self.fetch_pod(&key).await?;
        }
        let mut local = self.local.clone();
        // the local API answers its errors as responses
        Ok(local
            .call(request)
            .await
            .unwrap_or_else(|never| match never {}))
    }

    /// Fetches the pod from the cloud, and stores it. A mirror of a static pod is not stored: the pod comes from its file.
    pub(super) async fn fetch_pod(&self, key: &Key) -> Result<(), ApiError> {
        let (namespace, name) = (&key.namespace, &key.name);
        let (answer, message) = self
            .request(Upstream::pod_patch(namespace, name, NO_CHANGE.to_owned()))
            .await?;
        let mut pod = match answer {
            Answer::Response(response) => response.into_result().map_err(ApiError::of)?,
            Answer::Found(pod) => pod,
            Answer::Failed(status) => return Err(ApiError::of(status)),
            // the cloud has the pod, or did not look: whether it exists is not known
            Answer::Done => {
                return Err(ApiError::bad_gateway(
                    "the cloud answered a query for a pod without the pod",
                ));
            }
        };
        let place = pod.pointer("/spec/nodeName").and_then(Value::as_str);
        if place != Some(self.desired.node_name()) {
            return Err(ApiError::not_found("pods", name));
        }
        if mirror::is_from_file(&pod) && self.desired.is_damaged(key).await? {
            return Ok(());
        }
        if let Some(pod) = pod.as_object_mut() {
            // clouds leave kind and apiVersion out of these answers
            pod.insert("kind".to_owned(), "Pod".into());
            pod.insert("apiVersion".to_owned(), "v1".into());
        }
        self.store_answer(
            &ResourcePath::object(namespace, &ResourceType::Pod, name),
            &pod,
            &message,
        )
        .await
    }

    /// Deletes the pod here, or starts the deletion if it has a grace period. Preconditions hold as at an API server.
    pub(super) async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        request: Request<ClientBody>,
    ) -> Result<Response<Body>, ApiError> {
        let options = body(request).await?;
        let expected = options
            .pointer("/preconditions/uid")
            .and_then(Value::as_str);
        let key = Key::new(resource(&ResourceType::Pod), namespace, name);
        let entry = self.desired.entry(&key).await?;
        let Some(pod) = &entry.object else {
            return Err(ApiError::not_found("pods", name));
        };
        let uid = pod
            .pointer("/metadata/uid")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if let Some(expected) = expected.filter(|expected| *expected != uid) {
            let why = format!(
                "Operation cannot be fulfilled on pods \"{name}\": Precondition failed: UID in precondition: {expected}, UID \
                 in object meta: {uid}"
            );
            return Err(ApiError::conflict(&why));
        }
        let grace = options.get("gracePeriodSeconds").and_then(Value::as_i64);
        if let Some(grace) = grace.filter(|grace| *grace > 0 && !is_deleting(pod)) {
            self.desired
                .change(&key, |entry| {
                    begin_deletion(entry, &uid, grace, clock::now())
                })
                .await?;
            return Ok(object_response(StatusCode::OK, pod));
        }
        self.desired
            .change(&key, |entry| finish_deletion(entry, &uid))
            .await?;
        tokens::remove_tokens_of_pod(&self.desired, namespace, &uid).await?;
        Ok(object_response(StatusCode::OK, pod))
    }
}

fn is_deleting(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some()
}

/// Sets the deletion timestamp: the containers have `grace` seconds from now.
fn begin_deletion(entry: &DesiredEntry, uid: &str, grace: i64, now: Timestamp) -> EntryChange {
    let mut pod = match &entry.object {
        Some(pod) if pod["metadata"]["uid"] == uid && !is_deleting(pod) => pod.clone(),
        _ => return EntryChange::default(),
    };
    let end = now
        .checked_add(SignedDuration::from_secs(grace))
        .unwrap_or(Timestamp::MAX);
    pod["metadata"]["deletionTimestamp"] = end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
    pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
    EntryChange {
        object: StoreChange::Set(pod),
        record: StoreChange::Keep,
    }
}

fn finish_deletion(entry: &DesiredEntry, uid: &str) -> EntryChange {
    let Some(pod) = entry
        .object
        .as_ref()
        .filter(|pod| pod.pointer("/metadata/uid").and_then(Value::as_str) == Some(uid))
    else {
        return EntryChange::default();
    };
    let record = match &entry.record {
        // the cloud knows already
        Some(Record {
            deleted_in_cloud: true,
            ..
        })
        | None => StoreChange::Remove,
        Some(record) => {
            let status = pod.get("status").cloned().unwrap_or_else(|| json!({}));
            let is_reported = record.reported.as_deref() == Some(fingerprint(&status).as_str());
            StoreChange::Set(Record {
                terminated_here: true,
                last_status: (!is_reported).then_some(status),
                ..record.clone()
            })
        }
    };
    EntryChange {
        object: StoreChange::Remove,
        record,
    }
}
