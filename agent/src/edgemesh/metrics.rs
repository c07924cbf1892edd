//! Counters for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use componentbase::Metric;

/// The counters.
#[derive(Debug, Default)]
pub(super) struct MeshMetrics {
    /// Connections to Services that were accepted.
    pub(super) accepted: AtomicU64,
    /// Connections and UDP flows that a limit refused.
    pub(super) refused: AtomicU64,
    /// Connections for which no endpoint was reached.
    pub(super) unreached: AtomicU64,
    /// UDP flows that began.
    pub(super) flows: AtomicU64,
    /// Connections to other nodes over the relay, and those that failed.
    pub(super) relay_dialled: AtomicU64,
    pub(super) relay_failed: AtomicU64,
    /// Connections of other nodes over the relay, and those that were refused.
    pub(super) relay_served: AtomicU64,
    pub(super) relay_refused: AtomicU64,
    /// Bytes over the relay.
    pub(super) relay_sent: AtomicU64,
    pub(super) relay_received: AtomicU64,
}

impl MeshMetrics {
    /// Adds one to a counter.
    pub(super) fn add(count: &AtomicU64) {
        count.fetch_add(1, Relaxed);
    }

    pub(super) fn metrics(&self) -> Vec<Metric> {
        let all = [
            (
                "edgemesh_connections_total",
                "Connections to Services that were accepted.",
                &self.accepted,
            ),
            (
                "edgemesh_refused_total",
                "Connections and UDP clients that were refused because there were too many.",
                &self.refused,
            ),
            (
                "edgemesh_unreached_total",
                "Connections for which no endpoint could be reached.",
                &self.unreached,
            ),
            (
                "edgemesh_udp_flows_total",
                "UDP clients for which an endpoint was selected.",
                &self.flows,
            ),
        ];
        let mut all: Vec<_> = all
            .map(|(name, help, count)| Metric::counter(name, help).of(count.load(Relaxed)))
            .into();
        let help = "Connections over the relay to other nodes (out) and from other nodes (in), by outcome: opened, failed.";
        let [out, failed, inward, refused] = [
            &self.relay_dialled,
            &self.relay_failed,
            &self.relay_served,
            &self.relay_refused,
        ]
        .map(|count| count.load(Relaxed));
        all.push(
            Metric::counter("edgemesh_relay_connections_total", help)
                .with(&[("direction", "out"), ("outcome", "opened")], out)
                .with(&[("direction", "out"), ("outcome", "failed")], failed)
                .with(&[("direction", "in"), ("outcome", "opened")], inward)
                .with(&[("direction", "in"), ("outcome", "failed")], refused),
        );
        all.push(
            Metric::counter(
                "edgemesh_relay_bytes_total",
                "Encrypted bytes that were sent and received over the relay.",
            )
            .with(&[("direction", "sent")], self.relay_sent.load(Relaxed))
            .with(
                &[("direction", "received")],
                self.relay_received.load(Relaxed),
            ),
        );
        all
    }
}
