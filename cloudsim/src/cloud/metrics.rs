//! The metrics of a whole cloud, as one source for `/metrics`. Each part holds its own counters, in its file `metrics.rs`. They are
//! described in `docs/metrics-cloudsim.md`. Names are Kubernetes' and KubeEdge's where they have one.
//!
//! No label has a node's or an object's name, so the number of series does not grow with the number of nodes.

use std::sync::{Arc, OnceLock};

use kubeapi::{MetricsSource, describe::exposition::Text};

use crate::{
    controllers::{informers::WorkQueues, scheduler::SchedulerMetrics},
    sessions::Sessions,
};

/// All counters of a cloud. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    /// The sessions of nodes, with the metrics of CloudHub, stream tunnels and the relay.
    pub(super) sessions: Arc<OnceLock<Sessions>>,
    /// The metrics of controllers' queues.
    pub(super) queues: WorkQueues,
    /// The metrics of the scheduler.
    pub(super) scheduler: SchedulerMetrics,
}

impl Metrics {
    /// Returns the source that writes the metrics.
    pub(super) fn source(&self) -> MetricsSource {
        let counted = self.clone();
        Arc::new(move |text| counted.write(text))
    }

    fn write(&self, text: &mut Text) {
        if let Some(sessions) = self.sessions.get() {
            sessions.metrics().write(&sessions.list(), text);
            sessions
                .tunnels()
                .metrics()
                .write(sessions.tunnels().count(), text);
            sessions
                .relays()
                .metrics()
                .write(sessions.relays().count(), text);
        }
        self.queues.write(text);
        self.scheduler.write(text);
    }
}
