//! Events: sent to the cloud, which never confirms one. While it is not connected they wait on disk, see [`crate::outbox`].

use http::{Method, Response};
use kubeapi::Body;
use serde_json::{Value, json};
use wire::{Change, ResourcePath, ResourceType, Upstream};

use super::{ApiError, Remote, success};
use crate::outbox::{Item, Limits};

/// The most events that are queued for the outbox; further senders wait.
pub(in crate::metamanager) const MAX_QUEUED_EVENTS: usize = 64;
/// The most events that wait on disk while the cloud is not connected: the last hours of a node in trouble.
pub(in crate::metamanager) const EVENT_OUTBOX_LIMITS: Limits = Limits {
    messages: 1_000,
    bytes: 2 << 20,
};

impl Remote {
    /// Sends a new event to the cloud; there is no answer.
    pub(super) async fn send_event(
        &self,
        namespace: &str,
        event: Value,
    ) -> Result<Response<Body>, ApiError> {
        let name = event
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if name.is_empty() {
            return Err(ApiError::bad_request("an event needs metadata.name"));
        }
        let put = Upstream::put(
            Change::Insert,
            namespace,
            &ResourceType::Event,
            &name,
            event.clone(),
        );
        self.queue_event(put, None).await?;
        Ok(success(&Method::POST, &event))
    }

    /// Sends the cloud a change of an event that it has. The patch has to be the whole event: the cloud must see which object
    /// it is about, and this node does not keep events.
    pub(super) async fn send_event_patch(
        &self,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Response<Body>, ApiError> {
        let content = json!({"event": patch, "patchData": patch.to_string()});
        let path = ResourcePath::object(namespace, &ResourceType::Event, name);
        let key = path.as_str().to_owned();
        self.queue_event(
            Upstream::Patch {
                path,
                patch: content,
            },
            Some(key),
        )
        .await?;
        Ok(success(&Method::PATCH, &patch))
    }

    /// Queues a message for the outbox, and waits for space. A newer message of the same key replaces an older one.
    async fn queue_event(&self, event: Upstream, key: Option<String>) -> Result<(), ApiError> {
        // boxed, as a channel reserves space for many
        let item = Box::new(Item {
            message: event.into_message(clock::unix_millis()),
            key,
            on_stored: None,
            is_awaited: false,
        });
        self.config
            .events
            .send(item)
            .await
            .map_err(|_| ApiError::unavailable("the agent ends"))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use kubeapi::Api;
    use objectstore::{MemoryStore, Store};
    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        edgehub::fake_cloud::fake_cloud,
        metamanager::{desired::Desired, pods_complete::CompletenessTracker, remote::Config},
        outbox,
    };

    /// EdgeCore's default.
    const TIMEOUT: Duration = Duration::from_secs(60);
    /// Three events for each of a hundred pods.
    const EVENTS: usize = 300;

    #[tokio::test]
    async fn events_wait_for_the_cloud_and_come_in_order() {
        let store: Arc<dyn Store> = MemoryStore::new();
        let api = Api::builder(store.clone()).build();
        let desired = Desired::new(store.clone(), "edge-1".into());
        let (hub, _inbound, mut line) = fake_cloud();
        let (_, pods_complete) = CompletenessTracker::new(desired.clone(), hub.link());
        let (events, items) = mpsc::channel(MAX_QUEUED_EVENTS);
        let config = outbox::Config {
            what: "events",
            limits: EVENT_OUTBOX_LIMITS,
            store,
            hub: hub.clone(),
            deliver: outbox::Delivery::written(hub.clone()),
            max_concurrent: 1,
            dropped: Arc::default(),
        };
        let mut outbox = outbox::new(config, items);
        let remote = Remote::new(
            api.service(),
            desired,
            hub,
            pods_complete,
            Config {
                events,
                timeout: TIMEOUT,
            },
        );
        let event = async {
            for index in 0..EVENTS {
                remote
                    .send_event(
                        "shop",
                        json!({"metadata": {"name": format!("web.{index}")}}),
                    )
                    .await?;
            }
            line.up();
            for index in 0..EVENTS {
                let message = line.next().await;
                assert_eq!(message.content["metadata"]["name"], format!("web.{index}"));
            }
            Ok::<_, ApiError>(())
        };
        clock::select! {
            event = event => assert!(event.is_ok(), "none is lost"),
            () = outbox.run() => panic!("the outbox has ended"),
        }
    }
}
