//! Events: told to the cloud while it is connected, and not kept.

use http::{Method, Response};
use kubeapi::Body;
use serde_json::{Value, json};
use wire::{Change, ResourcePath, ResourceType, Upstream};

use super::{Refusal, Remote, found, now_ms};

impl Remote {
    /// Tells the cloud; there is no answer.
    pub(super) fn event(&self, namespace: &str, event: Value) -> Result<Response<Body>, Refusal> {
        let name = event.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(Refusal::bad_request("an event needs metadata.name"));
        }
        self.tell(Upstream::put(Change::Insert, namespace, &ResourceType::Event, &name, event.clone()))?;
        Ok(found(&Method::POST, &event))
    }

    /// Tells the cloud of an event that it was told before. The patch has to be the whole event: the cloud must see whose it
    /// is, and nothing of it is kept here.
    pub(super) fn event_again(
        &self,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Response<Body>, Refusal> {
        let content = json!({"event": patch, "patchData": patch.to_string()});
        let path = ResourcePath::object(namespace, &ResourceType::Event, name);
        self.tell(Upstream::Patch { path, patch: content })?;
        Ok(found(&Method::PATCH, &patch))
    }

    fn tell(&self, told: Upstream) -> Result<(), Refusal> {
        let sent = self.hub.send_in_background(told.into_message(now_ms()));
        sent.map_err(|error| Refusal::unavailable(&error.to_string()))
    }
}
