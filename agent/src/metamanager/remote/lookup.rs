//! Objects that are fetched from the cloud when something on this node needs them, and stored. ConfigMaps and Secrets, whose
//! changes the cloud sends from then on, are served from the store first. Persistent volumes and claims, whose changes it does
//! not send, are served from the store only while the cloud cannot be reached.

use http::{Method, Response, StatusCode};
use kubeapi::Body;
use objectstore::Key;
use serde_json::Value;
use tracing::warn;
use wire::{Answer, Change, Message, ResourcePath, ResourceType, Upstream, lane::needs_ack};

use super::{ApiError, Remote, object_response, success};
use crate::metamanager::desired::{CloudChange, EntryChange, StoreChange, resource};

impl Remote {
    /// Returns the object from the store, or else from the cloud.
    pub(super) async fn store_first(
        &self,
        kind: ResourceType,
        namespace: &str,
        name: &str,
    ) -> Result<Response<Body>, ApiError> {
        let key = Key::new(resource(&kind), namespace, name);
        if let Some(stored) = self.desired.get(&key).await? {
            return Ok(object_response(StatusCode::OK, &stored));
        }
        let value = self.fetch_and_store(&kind, &key).await?;
        Ok(success(&Method::GET, &value))
    }

    /// Returns the object from the cloud, or the stored one while the cloud cannot be reached.
    pub(super) async fn cloud_first(
        &self,
        kind: ResourceType,
        namespace: &str,
        name: &str,
    ) -> Result<Response<Body>, ApiError> {
        let key = Key::new(resource(&kind), namespace, name);
        match self.fetch_and_store(&kind, &key).await {
            Ok(value) => Ok(success(&Method::GET, &value)),
            Err(refusal) if refusal.is_unavailable() => match self.desired.get(&key).await? {
                Some(stored) => Ok(object_response(StatusCode::OK, &stored)),
                None => Err(refusal),
            },
            Err(refusal) => {
                if refusal.is_not_found() {
                    self.desired
                        .change(&key, |_| EntryChange {
                            object: StoreChange::Remove,
                            record: StoreChange::Remove,
                        })
                        .await?;
                }
                Err(refusal)
            }
        }
    }

    /// Fetches an object from the cloud, stores it and acknowledges the answer.
    pub(super) async fn fetch_and_store(
        &self,
        kind: &ResourceType,
        key: &Key,
    ) -> Result<Value, ApiError> {
        let (namespace, name) = (&key.namespace, &key.name);
        let (answer, message) = match self.request(Upstream::query(namespace, kind, name)).await {
            Ok(answered) => answered,
            Err(_) if !self.hub.is_up() => {
                let why = format!(
                    "{kind} {namespace}/{name} is not stored on this node, and the cloud is not connected; it is requested when the connection is restored"
                );
                return Err(ApiError::unavailable(&why));
            }
            Err(refusal) => return Err(refusal),
        };
        let value = match answer {
            Answer::Found(value) => value,
            Answer::Failed(status) => return Err(ApiError::of(status)),
            Answer::Response(response) => response.into_result().map_err(ApiError::of)?,
            Answer::Done => return Err(ApiError::not_found(key.resource.as_str(), name)),
        };
        self.store_answer(
            &ResourcePath::object(namespace, kind, name),
            &value,
            &message,
        )
        .await?;
        Ok(value)
    }

    /// Stores and acknowledges the cloud's answer.
    pub(super) async fn store_answer(
        &self,
        path: &ResourcePath,
        value: &Value,
        message: &Message,
    ) -> Result<(), ApiError> {
        let put = CloudChange::new(Change::Update, path, value.clone(), &message.header)
            .map_err(|error| ApiError::bad_gateway(&error.to_string()))?;
        match self.desired.apply(put).await {
            Ok(()) if needs_ack(message) => {
                let _ = self
                    .hub
                    .send(message.acknowledgement(clock::unix_millis()))
                    .await;
            }
            Ok(()) => {}
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to store an answer from the cloud"
                )
            }
        }
        Ok(())
    }
}
