//! Tells the cluster, by events of the node, what of Services EdgeMesh cannot serve there.

use std::collections::BTreeSet;

use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::node_events::record_until;
use crate::{
    edged::events::{EventType, Recorder},
    rt::{Heart, Part, PartError},
};

/// The reason by which programs and people know the event.
const REASON: &str = "ServiceNotServed";
/// So many are told at a time; the log has all of them.
const AT_ONCE: usize = 20;

/// Tells what is new among what cannot be served.
pub(super) struct UnservedServices {
    client: Client,
    node_name: String,
    unserved: watch::Receiver<BTreeSet<String>>,
    told: BTreeSet<String>,
}

impl UnservedServices {
    pub(super) fn new(
        client: Client,
        node_name: String,
        unserved: watch::Receiver<BTreeSet<String>>,
    ) -> Self {
        Self { client, node_name, unserved, told: BTreeSet::new() }
    }

    fn record(&mut self, recorder: &Recorder) {
        let now = self.unserved.borrow_and_update().clone();
        for what in now.difference(&self.told).take(AT_ONCE) {
            recorder.node(&self.node_name, EventType::Warning, REASON, what.clone());
        }
        self.told = now;
    }
}

impl Part for UnservedServices {
    async fn run(&mut self, heart: Heart, shutdown: CancellationToken) -> Result<(), PartError> {
        let (client, node_name) = (self.client.clone(), self.node_name.clone());
        let record = |recorder| async move {
            loop {
                self.record(&recorder);
                let rest = heart.rest();
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
