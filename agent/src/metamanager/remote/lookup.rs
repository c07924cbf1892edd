//! ConfigMaps and Secrets: what is stored is served at once, what is not is asked of the cloud and stored.

use http::{Method, Response, StatusCode};
use kubeapi::{Body, store::Key};
use tracing::warn;
use wire::{Answer, Change, ResourcePath, ResourceType, Upstream, lane::needs_ack};

use super::{Refusal, Remote, found, now_ms, object};
use crate::metamanager::desired::{Put, resource};

impl Remote {
    /// The object, from here or from the cloud.
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
        let (answer, message) = match self.ask(Upstream::query(namespace, &kind, name)).await {
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
        let path = ResourcePath::object(namespace, &kind, name);
        match Put::new(Change::Update, &path, value.clone(), &message.header) {
            Ok(put) => match self.desired.apply(put).await {
                Ok(()) if needs_ack(&message) => {
                    let _ = self.hub.send(message.acknowledgement(now_ms())).await;
                }
                Ok(()) => {}
                Err(error) => {
                    warn!(error = &error as &dyn std::error::Error, "an answer of the cloud was not stored")
                }
            },
            Err(error) => return Err(Refusal::bad_gateway(&error.to_string())),
        }
        Ok(found(&Method::GET, &value))
    }
}
