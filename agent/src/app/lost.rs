//! Tells the cluster, by an event of the node, that messages of rules were dropped while the cloud was away.

use std::time::Duration;

use kube::Client;
use tokio_util::sync::CancellationToken;

use super::node_events::record_until;
use crate::{
    edged::events::{EventType, Recorder},
    eventbus::Bus,
    rt::{Heart, Part, PartError},
};

/// Time between two looks, and so between two events.
const INTERVAL: Duration = Duration::from_secs(60);
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
    fn record(&mut self, recorder: &Recorder) {
        let lost = self.bus.lost_uploads();
        let new = lost.saturating_sub(self.told);
        if new > 0 {
            let message = format!(
                "{new} messages of MQTT were dropped before the cloud had them: too many waited for it"
            );
            recorder.node(&self.node_name, EventType::Warning, REASON, message);
            self.told = lost;
        }
    }
}

impl Part for LostMessages {
    async fn run(&mut self, heart: Heart, shutdown: CancellationToken) -> Result<(), PartError> {
        let (client, node_name) = (self.client.clone(), self.node_name.clone());
        let record = |recorder| async move {
            loop {
                let rest = heart.rest();
                tokio::time::sleep(INTERVAL).await;
                drop(rest);
                self.record(&recorder);
            }
        };
        record_until(client, node_name, shutdown, record).await;
        Ok(())
    }
}
