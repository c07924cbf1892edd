//! Metrics of the relay between nodes.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kubeapi::describe::exposition::{Text, number};

/// The counters of all nodes together. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct RelayMetrics(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    joined: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
}

impl RelayMetrics {
    /// Counts a connection from one node to another.
    pub(crate) fn count_joined(&self) {
        self.0.joined.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a refused connection.
    pub(crate) fn count_refused(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes from one node to another.
    pub(crate) fn count_bytes(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Writes the metrics, with the present nodes and connections.
    pub(crate) fn write(&self, (nodes, open): (usize, u64), text: &mut Text) {
        let read = |count: &AtomicU64| number(count.load(Ordering::Relaxed));
        text.gauge("cloudsim_relay_nodes", "Nodes connected to the relay.")
            .sample(&[], number(nodes as u64));
        text.gauge(
            "cloudsim_relay_connections",
            "Open connections between nodes over the relay.",
        )
        .sample(&[], number(open));
        text.counter(
            "cloudsim_relay_connections_total",
            "Connections between nodes that the relay has opened.",
        )
        .sample(&[], read(&self.0.joined));
        text.counter(
            "cloudsim_relay_refused_total",
            "Connections that the relay has refused, usually because the other node was not connected.",
        )
        .sample(&[], read(&self.0.refused));
        text.counter(
            "cloudsim_relay_bytes_total",
            "Encrypted bytes that the relay forwarded between nodes.",
        )
        .sample(&[], read(&self.0.bytes));
    }
}
