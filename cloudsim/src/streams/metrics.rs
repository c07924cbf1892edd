//! Metrics of stream tunnels.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kubeapi::describe::exposition::{Text, number};

/// The labels of directions.
const DIRECTIONS: [&str; 2] = ["down", "up"];

/// The counters of all tunnels. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamMetrics(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    tunnels: AtomicU64,
    streams: AtomicU64,
    /// The bytes of streams in each direction.
    bytes: [AtomicU64; 2],
}

impl StreamMetrics {
    /// Counts a tunnel that has begun.
    pub(crate) fn count_begun(&self) {
        self.0.tunnels.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an opened stream.
    pub(crate) fn count_opened(&self) {
        self.0.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes of a stream to a node.
    pub(crate) fn count_sent(&self, bytes: usize) {
        self.0.bytes[0].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes of a stream from a node.
    pub(crate) fn count_received(&self, bytes: usize) {
        self.0.bytes[1].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Writes the metrics, with the present tunnels and streams.
    pub(crate) fn write(&self, (tunnels, streams): (usize, usize), text: &mut Text) {
        let read = |count: &AtomicU64| number(count.load(Ordering::Relaxed));
        text.gauge("cloudsim_stream_tunnels", "Nodes with a stream tunnel.")
            .sample(&[], number(tunnels as u64));
        text.counter(
            "cloudsim_stream_tunnels_total",
            "Stream tunnels opened; all except the first of a node are reconnects.",
        )
        .sample(&[], read(&self.0.tunnels));
        text.gauge(
            "cloudsim_streams",
            "Open streams in tunnels: logs, commands, ports and pages.",
        )
        .sample(&[], number(streams as u64));
        text.counter("cloudsim_streams_total", "Streams opened in tunnels.")
            .sample(&[], read(&self.0.streams));
        let mut bytes = text.counter(
            "cloudsim_stream_bytes_total",
            "Bytes of streams to nodes (down) and from them (up), without framing and TLS.",
        );
        for (direction, count) in DIRECTIONS.into_iter().zip(&self.0.bytes) {
            bytes.sample(&[("direction", direction)], read(count));
        }
    }
}
