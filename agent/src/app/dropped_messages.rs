//! Records an event of the node when messages of rules were dropped while the cloud was away.

use std::time::Duration;

use componentbase::{Heartbeat, Part, PartError};
use edged::events::{EventType, Recorder};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::node_events::record_until;
use crate::eventbus::Bus;

/// The time between two checks, and so between two events.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The reason of the event.
const REASON: &str = "MessagesDropped";

/// Watches the number of dropped messages.
pub(super) struct DroppedMessages {
    client: Client,
    node_name: String,
    bus: Bus,
    recorded: u64,
}

impl DroppedMessages {
    pub(super) fn new(client: Client, node_name: String, bus: Bus) -> Self {
        Self {
            client,
            node_name,
            bus,
            recorded: 0,
        }
    }

    /// Records an event if messages were dropped since the last one.
    fn record(&mut self, recorder: &Recorder) {
        let lost = self.bus.dropped_uploads();
        let new = lost.saturating_sub(self.recorded);
        if new > 0 {
            let message = format!(
                "{new} MQTT messages were dropped before they reached the cloud: the queue was full"
            );
            recorder.node(&self.node_name, EventType::Warning, REASON, message);
            self.recorded = lost;
        }
    }
}

impl Part for DroppedMessages {
    async fn run(
        &mut self,
        heartbeat: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        let (client, node_name) = (self.client.clone(), self.node_name.clone());
        let record = |recorder| async move {
            loop {
                let rest = heartbeat.idle();
                tokio::time::sleep(CHECK_INTERVAL).await;
                drop(rest);
                self.record(&recorder);
            }
        };
        record_until(client, node_name, shutdown, record).await;
        Ok(())
    }
}
