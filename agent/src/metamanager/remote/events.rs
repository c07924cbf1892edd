//! Events: told to the cloud while it is connected, and not kept.

use http::{Method, Response};
use kubeapi::Body;
use serde_json::Value;
use wire::{Change, ResourceType, Upstream};

use super::{Refusal, Remote, found, now_ms};

impl Remote {
    /// Tells the cloud; there is no answer.
    pub(super) async fn event(&self, namespace: &str, event: Value) -> Result<Response<Body>, Refusal> {
        let name = event.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(Refusal::bad_request("an event needs metadata.name"));
        }
        let told = Upstream::put(Change::Insert, namespace, &ResourceType::Event, &name, event.clone());
        self.hub
            .send(told.into_message(now_ms()))
            .await
            .map_err(|error| Refusal::unavailable(&error.to_string()))?;
        Ok(found(&Method::POST, &event))
    }
}
