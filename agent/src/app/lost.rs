//! Tells the cluster, by an event of the node, that messages of rules were dropped while the cloud was away: the log of a node is read by
//! few.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    eventbus::Bus,
    rt::{Heart, Part, PartError},
};

/// Time between two looks, and so between two events.
const INTERVAL: Duration = Duration::from_secs(60);
/// Writing an event must not hold up the next look.
const WRITE: Duration = Duration::from_secs(10);
/// The reason by which programs and people know the event.
const REASON: &str = "MessagesDropped";

/// Looks at what was dropped.
pub(super) struct LostMessages {
    client: Client,
    node_name: String,
    bus: Bus,
    told: u64,
}

impl LostMessages {
    pub(super) fn new(client: Client, node_name: String, bus: Bus) -> Self {
        Self { client, node_name, bus, told: 0 }
    }

    /// Tells what was dropped since it was told last, if anything was.
    async fn tell(&mut self) {
        let lost = self.bus.lost_uploads();
        let new = lost.saturating_sub(self.told);
        if new == 0 {
            return;
        }
        let now = jiff::Timestamp::now();
        let event = json!({
            "metadata": {"name": format!("{}.{:x}", self.node_name, now.as_nanosecond()), "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": self.node_name, "uid": self.node_name},
            "type": "Warning", "reason": REASON, "count": 1,
            "message": format!("{new} messages of MQTT were dropped before the cloud had them: too many waited for it"),
            "source": {"component": "edge-agent", "host": self.node_name},
            "reportingComponent": "edge-agent", "reportingInstance": self.node_name,
            "firstTimestamp": seconds(now), "lastTimestamp": seconds(now),
        });
        let Ok(event) = serde_json::from_value::<Event>(event) else { return };
        let events = Api::<Event>::namespaced(self.client.clone(), "default");
        match tokio::time::timeout(WRITE, events.create(&PostParams::default(), &event)).await {
            Ok(Ok(_)) => self.told = lost,
            Ok(Err(error)) => warn!(error = &error as &dyn std::error::Error, "an event is not told yet"),
            Err(_) => {}
        }
    }
}

impl Part for LostMessages {
    async fn run(&mut self, heart: Heart, shutdown: CancellationToken) -> Result<(), PartError> {
        loop {
            let rest = heart.rest();
            tokio::select! {
                // cancel-safe, both: they hold no data
                () = shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(INTERVAL) => {}
            }
            drop(rest);
            self.tell().await;
        }
    }
}

fn seconds(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
