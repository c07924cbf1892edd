//! What is counted, for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::rt::Metric;

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Connections to Services that were taken.
    pub(super) accepted: AtomicU64,
    /// Connections and UDP clients for which there was no room.
    pub(super) refused: AtomicU64,
    /// Connections for which no endpoint was reached.
    pub(super) unreached: AtomicU64,
    /// UDP clients that got an endpoint.
    pub(super) flows: AtomicU64,
}

impl Figures {
    /// One more.
    pub(super) fn add(count: &AtomicU64) {
        count.fetch_add(1, Relaxed);
    }

    pub(super) fn metrics(&self) -> Vec<Metric> {
        let all = [
            ("edgemesh_connections_total", "Connections to Services that were taken.", &self.accepted),
            (
                "edgemesh_refused_total",
                "Connections and UDP clients that were refused, since there were too many.",
                &self.refused,
            ),
            ("edgemesh_unreached_total", "Connections for which no endpoint was reached.", &self.unreached),
            ("edgemesh_udp_flows_total", "UDP clients that got an endpoint.", &self.flows),
        ];
        all.map(|(name, help, count)| Metric::counter(name, help).of(count.load(Relaxed))).into()
    }
}
