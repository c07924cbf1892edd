//! What a cloud counts beside its API: CloudHub, stream tunnels, the relay, the queues of its controllers, its scheduler. It stands on the API's `/metrics`, and
//! in `docs/metrics-cloudsim.md`. Names are Kubernetes' and KubeEdge's where they have one.
//!
//! No label has a node's or an object's name: there are as many series with a thousand nodes as with one.

mod hub;
mod relay;
mod scheduler;
mod streams;
mod workqueue;

use std::sync::{Arc, OnceLock};

use kubeapi::{MetricsSource, exposition::Text};

pub(crate) use self::{
    hub::{HubMetrics, Refusal},
    relay::RelayMetrics,
    scheduler::{Attempt, SchedulerMetrics},
    streams::StreamMetrics,
    workqueue::{WorkQueue, WorkQueues},
};

use crate::hub::Sessions;

/// All of it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    /// The sessions of nodes, which have what CloudHub counts.
    pub(crate) sessions: Arc<OnceLock<Sessions>>,
    pub(crate) queues: WorkQueues,
    pub(crate) scheduler: SchedulerMetrics,
}

impl Metrics {
    /// What the API has stand on its page.
    pub(crate) fn source(&self) -> MetricsSource {
        let counted = self.clone();
        Arc::new(move |text| counted.write(text))
    }

    fn write(&self, text: &mut Text) {
        if let Some(sessions) = self.sessions.get() {
            sessions.metrics().write(&sessions.list(), text);
            sessions.tunnels().metrics().write(sessions.tunnels().count(), text);
            sessions.relays().metrics().write(sessions.relays().count(), text);
        }
        self.queues.write(text);
        self.scheduler.write(text);
    }
}
