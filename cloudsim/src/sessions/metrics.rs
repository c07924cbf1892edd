//! Metrics of CloudHub.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kubeapi::describe::exposition::{Text, number};

use super::node_session::{NodeSession, Transport};

/// The reason why a node got no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// TLS, the certificate or the name is invalid, or another agent has the name.
    Connection,
    /// The hub has its maximum of sessions.
    TooMany,
    /// The node has asked for another session since.
    Superseded,
}

impl RefusalReason {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Connection, "connection"),
        (Self::TooMany, "too_many"),
        (Self::Superseded, "overtaken"),
    ];
}

/// The transports and their labels.
const TRANSPORTS: [(Transport, &str); 2] = [
    (Transport::WebSocket, "websocket"),
    (Transport::Quic, "quic"),
];
/// The labels of directions.
const DIRECTIONS: [&str; 2] = ["down", "up"];

/// The metrics of CloudHub, over all replicas. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct HubMetrics(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    begun: [AtomicU64; TRANSPORTS.len()],
    refused: [AtomicU64; RefusalReason::ALL.len()],
    /// For each direction, the number of messages and of their bytes.
    messages: [AtomicU64; 2],
    bytes: [AtomicU64; 2],
}

impl HubMetrics {
    /// Counts a session that has begun.
    pub(crate) fn count_begun(&self, transport: Transport) {
        for ((one, _), count) in TRANSPORTS.iter().zip(&self.0.begun) {
            count.fetch_add(u64::from(*one == transport), Ordering::Relaxed);
        }
    }

    /// Counts a refused session.
    pub(crate) fn count_refused(&self, why: RefusalReason) {
        for ((one, _), count) in RefusalReason::ALL.iter().zip(&self.0.refused) {
            count.fetch_add(u64::from(*one == why), Ordering::Relaxed);
        }
    }

    /// Counts a message to a node.
    pub(crate) fn count_sent(&self, bytes: usize) {
        self.message(0, bytes);
    }

    /// Counts a message from a node.
    pub(crate) fn count_received(&self, bytes: usize) {
        self.message(1, bytes);
    }

    fn message(&self, direction: usize, bytes: usize) {
        self.0.messages[direction].fetch_add(1, Ordering::Relaxed);
        self.0.bytes[direction].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Writes the metrics; `running` has the present sessions.
    pub(crate) fn write(&self, running: &[NodeSession], text: &mut Text) {
        let read = |count: &AtomicU64| number(count.load(Ordering::Relaxed));
        text.gauge(
            "KubeEdge_CloudHub_connected_nodes",
            "Nodes connected to CloudHub.",
        )
        .sample(&[], number(running.len() as u64));
        let mut sessions = text.gauge(
            "cloudhub_sessions",
            "Nodes connected to CloudHub, by transport: websocket, quic.",
        );
        for (transport, name) in TRANSPORTS {
            let of_carrier = running
                .iter()
                .filter(|session| session.transport == transport)
                .count();
            sessions.sample(&[("transport", name)], number(of_carrier as u64));
        }
        let mut begun = text.counter(
            "cloudhub_sessions_total",
            "Sessions of nodes started; all except the first of a node are reconnects.",
        );
        for ((_, name), count) in TRANSPORTS.iter().zip(&self.0.begun) {
            begun.sample(&[("transport", name)], read(count));
        }
        let mut refused = text.counter(
            "cloudhub_refused_total",
            "Refused nodes, by reason: wrong certificate, name or handshake (connection), too many sessions (too_many), replaced by a newer session (overtaken).",
        );
        for ((_, name), count) in RefusalReason::ALL.iter().zip(&self.0.refused) {
            refused.sample(&[("reason", name)], read(count));
        }
        let mut messages = text.counter(
            "cloudhub_messages_total",
            "Messages to nodes (down) and from them (up).",
        );
        for (direction, count) in DIRECTIONS.into_iter().zip(&self.0.messages) {
            messages.sample(&[("direction", direction)], read(count));
        }
        let mut bytes = text.counter(
            "cloudhub_message_bytes_total",
            "Bytes of messages to nodes (down) and from them (up) as encoded, without TLS and framing.",
        );
        for (direction, count) in DIRECTIONS.into_iter().zip(&self.0.bytes) {
            bytes.sample(&[("direction", direction)], read(count));
        }
        let queued = || running.iter().map(|session| session.queue);
        text.gauge(
            "cloudhub_queue_depth",
            "Objects and messages that wait to be sent to nodes.",
        )
        .sample(&[], number(queued().sum()));
        text.gauge(
            "cloudhub_queue_depth_max",
            "Objects and messages that wait to be sent to the node with the longest queue.",
        )
        .sample(&[], number(queued().max().unwrap_or_default()));
        text.gauge(
            "cloudhub_rivals",
            "Nodes whose name a second agent tried to use.",
        )
        .sample(
            &[],
            number(
                running
                    .iter()
                    .filter(|session| session.rival.is_some())
                    .count() as u64,
            ),
        );
    }
}
