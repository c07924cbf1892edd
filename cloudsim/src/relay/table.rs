//! The nodes that are connected to the relay, and the traffic between them.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use clock::HashMap;
use jiff::Timestamp;
use limits::{ShareLimits, Shares};
use parking_lot::Mutex;
use quinn::{Connection, VarInt};
use serde::{Deserialize, Serialize};
use wire::relay::{MAX_STREAMS, Path};

use super::{metrics::RelayMetrics, replicas::ReplicaRelays};
use crate::peers::ConnectionRecord;

/// How many pairs of nodes are remembered; beyond that those without an open stream are forgotten.
const MAX_PAIRS: usize = 10_000;
/// One node gets at most a quarter of the streams that nodes may open to another one, so that three of them leave room for others.
const NODE_FRACTION: usize = 4;
/// The QUIC error code of a connection that this end closes.
pub(super) const ENDED: VarInt = VarInt::from_u32(0);
/// The QUIC error code of a connection of a node that may not connect.
pub(super) const REFUSED: VarInt = VarInt::from_u32(1);

/// A node that is connected to the relay, as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelayNode {
    /// The node's name.
    pub node: String,
    /// When it has connected.
    pub since: Timestamp,
    /// The address that it has connected from.
    pub address: SocketAddr,
    /// Its paths to other nodes, by its own report.
    pub paths: BTreeMap<String, Path>,
}

/// The traffic from one node to another over the relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelayPair {
    /// The node that opened the streams.
    pub from: String,
    /// The node that they lead to.
    pub to: String,
    /// The number of open streams.
    pub open: u64,
    /// The number of streams since the relay has started, the open ones included.
    pub connections: u64,
    /// Bytes from `from` to `to`, as they are encrypted.
    pub sent: u64,
    /// Bytes from `to` to `from`.
    pub received: u64,
}

/// The state of the relay, as the API shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayState {
    /// The nodes that are connected, by name.
    pub nodes: Vec<RelayNode>,
    /// The pairs of nodes that had streams, by the names of both.
    pub joined: Vec<RelayPair>,
}

/// The counters of one pair of nodes.
#[derive(Debug, Default)]
pub(super) struct Pair {
    open: AtomicU64,
    connections: AtomicU64,
    /// Bytes from the node that asked, and to it.
    bytes: [AtomicU64; 2],
}

/// Counts two joined streams, which are open until this is dropped.
#[derive(Debug)]
pub(super) struct JoinedStreams {
    pair: Arc<Pair>,
    metrics: RelayMetrics,
}

impl JoinedStreams {
    /// Counts bytes that were copied: `direction` 0 is from the node that asked, 1 is to it.
    pub(super) fn add(&self, direction: usize, bytes: usize) {
        self.pair.bytes[direction & 1].fetch_add(bytes as u64, Ordering::Relaxed);
        self.metrics.count_bytes(bytes);
    }
}

impl Drop for JoinedStreams {
    fn drop(&mut self) {
        self.pair.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The connection of a node, to which others open streams.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    number: u64,
    pub(super) connection: Connection,
    /// The streams that other nodes have opened to it, by the name of the other node.
    pub(super) stream_limit: Shares<Arc<str>>,
    since: Timestamp,
    paths: Arc<Mutex<BTreeMap<String, Path>>>,
}

#[derive(Debug, Default)]
struct Inner {
    numbers: AtomicU64,
    nodes: Mutex<HashMap<String, Peer>>,
    pairs: Mutex<HashMap<(String, String), Arc<Pair>>>,
    metrics: RelayMetrics,
    replicas: OnceLock<ReplicaRelays>,
}

/// The nodes and pairs; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Relays(Arc<Inner>);

/// The entry of a connected node, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct RelayEntry {
    node: String,
    number: u64,
    relays: Relays,
    paths: Arc<Mutex<BTreeMap<String, Path>>>,
}

impl RelayEntry {
    /// Keeps the paths that the node has reported.
    pub(super) fn set_paths(&self, paths: BTreeMap<String, Path>) {
        *self.paths.lock() = paths;
    }
}

impl Drop for RelayEntry {
    fn drop(&mut self) {
        let mut nodes = self.relays.0.nodes.lock();
        if nodes
            .get(&self.node)
            .is_some_and(|peer| peer.number == self.number)
        {
            nodes.remove(&self.node);
        }
    }
}

impl Relays {
    /// Adds a node that has connected, and ends an earlier connection of it; `None` where `limit` nodes are connected already.
    pub(super) fn begin(
        &self,
        node: &str,
        connection: &Connection,
        limit: usize,
    ) -> Option<RelayEntry> {
        let number = self.0.numbers.fetch_add(1, Ordering::Relaxed);
        let (paths, all) = (Arc::default(), MAX_STREAMS as usize);
        let peer = Peer {
            number,
            connection: connection.clone(),
            stream_limit: Shares::new(ShareLimits {
                all,
                each: all / NODE_FRACTION,
            }),
            since: clock::now(),
            paths: Arc::clone(&paths),
        };
        let mut nodes = self.0.nodes.lock();
        if nodes.len() >= limit && !nodes.contains_key(node) {
            return None;
        }
        if let Some(older) = nodes.insert(node.to_owned(), peer) {
            older
                .connection
                .close(ENDED, b"the node has a newer connection");
        }
        Some(RelayEntry {
            node: node.to_owned(),
            number,
            relays: self.clone(),
            paths,
        })
    }

    /// Returns the connection of a node, if it is connected.
    pub(super) fn peer(&self, node: &str) -> Option<Peer> {
        self.0.nodes.lock().get(node).cloned()
    }

    /// Joins it to the relays of other replicas; once.
    pub(super) fn forward_to(&self, replicas: ReplicaRelays) {
        // a second one would be another socket of the same replica
        let _ = self.0.replicas.set(replicas);
    }

    /// Returns the relays of other replicas.
    pub(super) fn replicas(&self) -> Option<&ReplicaRelays> {
        self.0.replicas.get()
    }

    /// Returns the connected nodes, as this replica records them.
    pub(crate) fn connections(&self) -> Vec<ConnectionRecord> {
        let record = |(node, peer): (&String, &Peer)| ConnectionRecord {
            node: node.clone(),
            since: peer.since,
            address: String::new(),
        };
        self.0.nodes.lock().iter().map(record).collect()
    }

    /// Counts a stream of one node that is joined to one of another.
    pub(super) fn join(&self, from: &str, to: &str) -> JoinedStreams {
        let mut pairs = self.0.pairs.lock();
        if pairs.len() >= MAX_PAIRS {
            pairs.retain(|_, pair| pair.open.load(Ordering::Relaxed) > 0);
        }
        let pair = Arc::clone(pairs.entry((from.to_owned(), to.to_owned())).or_default());
        pair.open.fetch_add(1, Ordering::Relaxed);
        pair.connections.fetch_add(1, Ordering::Relaxed);
        self.0.metrics.count_joined();
        JoinedStreams {
            pair,
            metrics: self.0.metrics.clone(),
        }
    }

    /// Ends the node's connection, for this reason; whether it may connect again is checked when it does.
    pub fn end(&self, node: &str, why: &str) {
        if let Some(peer) = self.peer(node) {
            peer.connection.close(REFUSED, why.as_bytes());
        }
    }

    /// Ends every connection; the nodes may connect again.
    pub(super) fn end_all(&self, why: &str) {
        self.0
            .nodes
            .lock()
            .values()
            .for_each(|peer| peer.connection.close(ENDED, why.as_bytes()));
    }

    /// Reports whether the node is connected.
    pub fn has(&self, node: &str) -> bool {
        self.0.nodes.lock().contains_key(node)
    }

    /// Returns the numbers of connected nodes and of open streams.
    pub(crate) fn count(&self) -> (usize, u64) {
        let open = self
            .0
            .pairs
            .lock()
            .values()
            .map(|pair| pair.open.load(Ordering::Relaxed))
            .sum();
        (self.0.nodes.lock().len(), open)
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> &RelayMetrics {
        &self.0.metrics
    }

    /// Returns the state, as the API shows it.
    pub fn state(&self) -> RelayState {
        let node = |(name, peer): (&String, &Peer)| RelayNode {
            node: name.clone(),
            since: peer.since,
            address: peer.connection.remote_address(),
            paths: peer.paths.lock().clone(),
        };
        let mut nodes: Vec<_> = self.0.nodes.lock().iter().map(node).collect();
        nodes.sort_by(|one, other| one.node.cmp(&other.node));
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let pair = |((from, to), pair): (&(String, String), &Arc<Pair>)| RelayPair {
            from: from.clone(),
            to: to.clone(),
            open: read(&pair.open),
            connections: read(&pair.connections),
            sent: read(&pair.bytes[0]),
            received: read(&pair.bytes[1]),
        };
        let mut joined: Vec<_> = self.0.pairs.lock().iter().map(pair).collect();
        joined.sort_by(|one, other| (&one.from, &one.to).cmp(&(&other.from, &other.to)));
        RelayState { nodes, joined }
    }
}
