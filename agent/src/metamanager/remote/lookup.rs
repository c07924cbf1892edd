//! Objects that are fetched from the cloud when something on this node needs them, and stored. ConfigMaps and Secrets, whose
//! changes the cloud sends from then on, are served from the store first. Persistent volumes and claims, whose changes it does
//! not send, are served from the store only while the cloud cannot be reached.

use http::{Method, Response, StatusCode};
use kubeapi::{Body, store::Key};
use serde_json::Value;
use tracing::warn;
use wire::{Answer, Change, Message, ResourcePath, ResourceType, Upstream, lane::needs_ack};

use super::{Refusal, Remote, found, object};
use crate::metamanager::desired::{Placement, Put, StoreChange, resource};
use crate::rt::unix_millis;

impl Remote {
    /// Returns the object from the store, or else from the cloud.
    pub(super) async fn lookup(
        &self,
        kind: ResourceType,
        namespace: &str,
        name: &str,
    ) -> Result<Response<Body>, Refusal> {
        let key = Key::new(resource(&kind), namespace, name);
        if let Some(stored) = self.desired.get(&key).await? {
            return Ok(object(StatusCode::OK, &stored));
        }
        let value = self.ask_and_keep(&kind, &key).await?;
        Ok(found(&Method::GET, &value))
    }

    /// Returns the object from the cloud, or the stored one while the cloud cannot be reached.
    pub(super) async fn fresh(
        &self,
        kind: ResourceType,
        namespace: &str,
        name: &str,
    ) -> Result<Response<Body>, Refusal> {
        let key = Key::new(resource(&kind), namespace, name);
        match self.ask_and_keep(&kind, &key).await {
            Ok(value) => Ok(found(&Method::GET, &value)),
            Err(refusal) if refusal.is_unavailable() => match self.desired.get(&key).await? {
                Some(stored) => Ok(object(StatusCode::OK, &stored)),
                None => Err(refusal),
            },
            Err(refusal) => {
                if refusal.is_not_found() {
                    self.desired
                        .change(&key, |_| Placement {
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
    pub(super) async fn ask_and_keep(&self, kind: &ResourceType, key: &Key) -> Result<Value, Refusal> {
        let (namespace, name) = (&key.namespace, &key.name);
        let (answer, message) = match self.ask(Upstream::query(namespace, kind, name)).await {
            Ok(answered) => answered,
            Err(_) if !self.hub.is_up() => {
                let why = format!(
                    "{kind} {namespace}/{name} is not stored on this node, and the cloud is not connected; it is asked for \
                     again when the connection is back"
                );
                return Err(Refusal::unavailable(&why));
            }
            Err(refusal) => return Err(refusal),
        };
        let value = match answer {
            Answer::Found(value) => value,
            Answer::Failed(status) => return Err(Refusal::of(status)),
            Answer::Response(response) => response.into_result().map_err(Refusal::of)?,
            Answer::Done => return Err(Refusal::not_found(key.resource.as_str(), name)),
        };
        self.keep(&ResourcePath::object(namespace, kind, name), &value, &message).await?;
        Ok(value)
    }

    /// Stores and acknowledges the cloud's answer.
    pub(super) async fn keep(
        &self,
        path: &ResourcePath,
        value: &Value,
        message: &Message,
    ) -> Result<(), Refusal> {
        let put = Put::new(Change::Update, path, value.clone(), &message.header)
            .map_err(|error| Refusal::bad_gateway(&error.to_string()))?;
        match self.desired.apply(put).await {
            Ok(()) if needs_ack(message) => {
                let _ = self.hub.send(message.acknowledgement(unix_millis())).await;
            }
            Ok(()) => {}
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "an answer of the cloud was not stored")
            }
        }
        Ok(())
    }
}
