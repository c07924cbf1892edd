//! Figures of CloudHub.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kubeapi::exposition::{Text, number};

use crate::sessions::{Carrier, NodeSession};

/// Why a node got no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// TLS, certificate or name were not as they must be, or another agent has the name.
    Connection,
    /// There are as many sessions as are allowed.
    TooMany,
    /// The node has asked for another one since.
    Overtaken,
}

impl Refusal {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Connection, "connection"), (Self::TooMany, "too_many"), (Self::Overtaken, "overtaken")];
}

/// The carriers, as labels.
const CARRIERS: [(Carrier, &str); 2] = [(Carrier::WebSocket, "websocket"), (Carrier::Quic, "quic")];
/// The directions, as labels.
const DIRECTIONS: [&str; 2] = ["down", "up"];

/// What CloudHub counts, over all of its replicas. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct HubMetrics(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    begun: [AtomicU64; CARRIERS.len()],
    refused: [AtomicU64; Refusal::ALL.len()],
    /// Of messages down and up, and of their bytes.
    messages: [AtomicU64; 2],
    bytes: [AtomicU64; 2],
}

impl HubMetrics {
    /// A session has begun.
    pub(crate) fn begun(&self, carrier: Carrier) {
        for ((one, _), count) in CARRIERS.iter().zip(&self.0.begun) {
            count.fetch_add(u64::from(*one == carrier), Ordering::Relaxed);
        }
    }

    /// A session was refused.
    pub(crate) fn refused(&self, why: Refusal) {
        for ((one, _), count) in Refusal::ALL.iter().zip(&self.0.refused) {
            count.fetch_add(u64::from(*one == why), Ordering::Relaxed);
        }
    }

    /// A message went to a node.
    pub(crate) fn sent(&self, bytes: usize) {
        self.message(0, bytes);
    }

    /// A message came from a node.
    pub(crate) fn received(&self, bytes: usize) {
        self.message(1, bytes);
    }

    fn message(&self, direction: usize, bytes: usize) {
        self.0.messages[direction].fetch_add(1, Ordering::Relaxed);
        self.0.bytes[direction].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Writes the families; `running`: the sessions that there are.
    pub(crate) fn write(&self, running: &[NodeSession], text: &mut Text) {
        let read = |count: &AtomicU64| number(count.load(Ordering::Relaxed));
        text.gauge("KubeEdge_CloudHub_connected_nodes", "Nodes that are connected to CloudHub.")
            .sample(&[], number(running.len() as u64));
        let mut sessions = text.gauge("cloudhub_sessions", "Sessions of nodes, by what carries them.");
        for (carrier, name) in CARRIERS {
            let of_carrier = running.iter().filter(|session| session.transport == carrier).count();
            sessions.sample(&[("transport", name)], number(of_carrier as u64));
        }
        let mut begun = text.counter("cloudhub_sessions_total", "Sessions that have begun.");
        for ((_, name), count) in CARRIERS.iter().zip(&self.0.begun) {
            begun.sample(&[("transport", name)], read(count));
        }
        let mut refused =
            text.counter("cloudhub_refused_total", "Connections and sessions that were refused, by why.");
        for ((_, name), count) in Refusal::ALL.iter().zip(&self.0.refused) {
            refused.sample(&[("reason", name)], read(count));
        }
        let mut messages =
            text.counter("cloudhub_messages_total", "Messages to nodes (down) and from them (up).");
        for (direction, count) in DIRECTIONS.into_iter().zip(&self.0.messages) {
            messages.sample(&[("direction", direction)], read(count));
        }
        let mut bytes =
            text.counter("cloudhub_message_bytes_total", "Their bytes as encoded, without TLS and framing.");
        for (direction, count) in DIRECTIONS.into_iter().zip(&self.0.bytes) {
            bytes.sample(&[("direction", direction)], read(count));
        }
        let queued = || running.iter().map(|session| session.queue);
        text.gauge("cloudhub_queue_depth", "Objects and messages that wait to go down, of all nodes.")
            .sample(&[], number(queued().sum()));
        text.gauge("cloudhub_queue_depth_max", "Those of the node for which most wait.")
            .sample(&[], number(queued().max().unwrap_or_default()));
        text.gauge("cloudhub_rivals", "Nodes of whose name a second agent was refused.")
            .sample(&[], number(running.iter().filter(|session| session.rival.is_some()).count() as u64));
    }
}
