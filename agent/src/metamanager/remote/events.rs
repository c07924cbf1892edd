//! Events: told to the cloud while it is connected, and not kept.

use http::{Method, Response};
use kubeapi::Body;
use serde_json::{Value, json};
use wire::{Change, ResourcePath, ResourceType, Upstream};

use super::{Refusal, Remote, found, now_ms};

impl Remote {
    /// Tells the cloud; there is no answer.
    pub(super) async fn event(&self, namespace: &str, event: Value) -> Result<Response<Body>, Refusal> {
        let name = event.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(Refusal::bad_request("an event needs metadata.name"));
        }
        self.tell(Upstream::put(Change::Insert, namespace, &ResourceType::Event, &name, event.clone()))
            .await?;
        Ok(found(&Method::POST, &event))
    }

    /// Tells the cloud of an event that it was told before. The patch has to be the whole event: the cloud must see whose it
    /// is, and nothing of it is kept here.
    pub(super) async fn event_again(
        &self,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Response<Body>, Refusal> {
        let content = json!({"event": patch, "patchData": patch.to_string()});
        let path = ResourcePath::object(namespace, &ResourceType::Event, name);
        self.tell(Upstream::Patch { path, patch: content }).await?;
        Ok(found(&Method::PATCH, &patch))
    }

    /// Waits for its turn.
    async fn tell(&self, told: Upstream) -> Result<(), Refusal> {
        let sent = self.hub.send(told.into_message(now_ms())).await;
        sent.map_err(|error| Refusal::unavailable(&error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::Duration};

    use futures::FutureExt;
    use kubeapi::{Api, Rules, store::MemoryStore};

    use super::*;
    use crate::{
        edgehub::line::line,
        metamanager::{desired::Desired, whole::Judge},
    };

    /// As EdgeCore's.
    const TIMEOUT: Duration = Duration::from_secs(60);
    /// Three of each of a hundred pods.
    const EVENTS: usize = 300;

    #[tokio::test]
    async fn more_events_than_fit_wait_for_their_turn() {
        let api = Api::builder(MemoryStore::new()).rules(Rules::Relay).build();
        let desired = Desired::new(MemoryStore::new(), "edge-1".into());
        let (hub, _inbound, mut line) = line();
        let (_, pods_whole) = Judge::new(desired.clone(), hub.link());
        let remote = Remote::new(api.service(), desired, hub, pods_whole, TIMEOUT);
        line.up();

        let mut tell = pin!(async {
            for index in 0..EVENTS {
                remote.event("shop", json!({"metadata": {"name": format!("web.{index}")}})).await?;
            }
            Ok::<_, Refusal>(())
        });
        assert!(tell.as_mut().now_or_never().is_none(), "they do not all fit");
        let read = async {
            for index in 0..EVENTS {
                let message = line.next().await;
                assert_eq!(message.content["metadata"]["name"], format!("web.{index}"));
            }
        };
        let (told, ()) = tokio::join!(tell, read);
        assert!(told.is_ok(), "none is lost");
    }
}
