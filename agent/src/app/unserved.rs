//! Records events of the node about Services that EdgeMesh cannot serve there.

use std::collections::BTreeSet;

use componentbase::{Heartbeat, Part, PartError};
use edged::events::{EventType, Recorder};
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::node_events::record_until;

/// The reason of the event.
const REASON: &str = "ServiceNotServed";
/// The most events at a time; the log has all of them.
const MAX_EVENTS_AT_ONCE: usize = 20;

/// Records an event for each new problem.
pub(super) struct UnservedServices {
    client: Client,
    node_name: String,
    unserved: watch::Receiver<BTreeSet<String>>,
    recorded: BTreeSet<String>,
}

impl UnservedServices {
    pub(super) fn new(
        client: Client,
        node_name: String,
        unserved: watch::Receiver<BTreeSet<String>>,
    ) -> Self {
        Self {
            client,
            node_name,
            unserved,
            recorded: BTreeSet::new(),
        }
    }

    fn record(&mut self, recorder: &Recorder) {
        let now = self.unserved.borrow_and_update().clone();
        for what in now.difference(&self.recorded).take(MAX_EVENTS_AT_ONCE) {
            recorder.node(&self.node_name, EventType::Warning, REASON, what.clone());
        }
        self.recorded = now;
    }
}

impl Part for UnservedServices {
    async fn run(
        &mut self,
        heartbeat: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        let (client, node_name) = (self.client.clone(), self.node_name.clone());
        let record = |recorder| async move {
            loop {
                self.record(&recorder);
                let rest = heartbeat.idle();
                if self.unserved.changed().await.is_err() {
                    // EdgeMesh has ended, and so does this program
                    std::future::pending().await
                }
                drop(rest);
            }
        };
        record_until(client, node_name, shutdown, record).await;
        Ok(())
    }
}
