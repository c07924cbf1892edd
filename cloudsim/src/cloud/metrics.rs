//! The metrics of a whole cloud, as one source for its page `/metrics`.

use std::sync::{Arc, OnceLock};

use kubeapi::{MetricsSource, exposition::Text};

use crate::{
    metrics::{SchedulerMetrics, WorkQueues},
    sessions::Sessions,
};

/// All counters of a cloud. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    /// The sessions of nodes, which have what CloudHub, the stream tunnels and the relay count.
    pub(super) sessions: Arc<OnceLock<Sessions>>,
    /// The queues of controllers.
    pub(super) queues: WorkQueues,
    /// The scheduler.
    pub(super) scheduler: SchedulerMetrics,
}

impl Metrics {
    /// What the page is written by.
    pub(super) fn source(&self) -> MetricsSource {
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
