//! The nodes that are connected to the relay, and what went between whom.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use parking_lot::Mutex;
use quinn::{Connection, VarInt};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use wire::relay::{MAX_STREAMS, Path};

use crate::metrics::RelayMetrics;

/// Pairs of nodes that are remembered; beyond them those that are not joined now are forgotten.
const PAIRS: usize = 10_000;
/// Why a connection is ended here, as numbers of QUIC.
pub(super) const ENDED: VarInt = VarInt::from_u32(0);
pub(super) const REFUSED: VarInt = VarInt::from_u32(1);

/// A node at the relay, as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelayNode {
    /// The node.
    pub node: String,
    /// Since when.
    pub since: Timestamp,
    /// From where.
    pub address: SocketAddr,
    /// Its ways to other nodes, as it says.
    pub paths: BTreeMap<String, Path>,
}

/// What went from one node to another over the relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Joined {
    /// Who asked.
    pub from: String,
    /// For whom.
    pub to: String,
    /// Connections that are under way.
    pub open: u64,
    /// Connections that there were.
    pub connections: u64,
    /// Bytes from the one to the other, encrypted as they are.
    pub sent: u64,
    /// Bytes back.
    pub received: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayState {
    /// By their names.
    pub nodes: Vec<RelayNode>,
    /// By the names of both.
    pub joined: Vec<Joined>,
}

/// Of one pair of nodes.
#[derive(Debug, Default)]
pub(super) struct Pair {
    open: AtomicU64,
    connections: AtomicU64,
    /// Bytes from the one that asked, and back.
    bytes: [AtomicU64; 2],
}

/// One connection of a pair, as long as it is there.
#[derive(Debug)]
pub(super) struct Counted {
    pair: Arc<Pair>,
    metrics: RelayMetrics,
}

impl Counted {
    /// Bytes have gone; `way` 0 from the one that asked, 1 back.
    pub(super) fn add(&self, way: usize, bytes: usize) {
        self.pair.bytes[way & 1].fetch_add(bytes as u64, Ordering::Relaxed);
        self.metrics.carried(bytes);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.pair.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A node's connection, as those see it who open streams to it.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    number: u64,
    pub(super) connection: Connection,
    /// Streams that others may open to it.
    pub(super) places: Arc<Semaphore>,
    since: Timestamp,
    paths: Arc<Mutex<BTreeMap<String, Path>>>,
}

#[derive(Debug, Default)]
struct Inner {
    numbers: AtomicU64,
    nodes: Mutex<HashMap<String, Peer>>,
    pairs: Mutex<HashMap<(String, String), Arc<Pair>>>,
    metrics: RelayMetrics,
}

/// The table; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Relays(Arc<Inner>);

/// A connection's own end of its entry, which goes with it.
#[derive(Debug)]
pub(super) struct Entry {
    node: String,
    number: u64,
    relays: Relays,
    paths: Arc<Mutex<BTreeMap<String, Path>>>,
}

impl Entry {
    /// The node has said what its ways to others are.
    pub(super) fn reported(&self, paths: BTreeMap<String, Path>) {
        *self.paths.lock() = paths;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut nodes = self.relays.0.nodes.lock();
        if nodes.get(&self.node).is_some_and(|peer| peer.number == self.number) {
            nodes.remove(&self.node);
        }
    }
}

impl Relays {
    /// The node is connected, and its connection before this one ends; `None`: so many nodes are already.
    pub(super) fn begin(&self, node: &str, connection: &Connection, limit: usize) -> Option<Entry> {
        let number = self.0.numbers.fetch_add(1, Ordering::Relaxed);
        let paths = Arc::default();
        let peer = Peer {
            number,
            connection: connection.clone(),
            places: Arc::new(Semaphore::new(MAX_STREAMS as usize)),
            since: Timestamp::now(),
            paths: Arc::clone(&paths),
        };
        let mut nodes = self.0.nodes.lock();
        if nodes.len() >= limit && !nodes.contains_key(node) {
            return None;
        }
        if let Some(older) = nodes.insert(node.to_owned(), peer) {
            older.connection.close(ENDED, b"the node has a newer connection");
        }
        Some(Entry { node: node.to_owned(), number, relays: self.clone(), paths })
    }

    /// The connection of a node that is connected.
    pub(super) fn peer(&self, node: &str) -> Option<Peer> {
        self.0.nodes.lock().get(node).cloned()
    }

    /// A connection from one node to another begins.
    pub(super) fn join(&self, from: &str, to: &str) -> Counted {
        let mut pairs = self.0.pairs.lock();
        if pairs.len() >= PAIRS {
            pairs.retain(|_, pair| pair.open.load(Ordering::Relaxed) > 0);
        }
        let pair = Arc::clone(pairs.entry((from.to_owned(), to.to_owned())).or_default());
        pair.open.fetch_add(1, Ordering::Relaxed);
        pair.connections.fetch_add(1, Ordering::Relaxed);
        self.0.metrics.joined();
        Counted { pair, metrics: self.0.metrics.clone() }
    }

    /// Ends the node's connection, for this reason; whether it may come back is looked at when it does.
    pub fn end(&self, node: &str, why: &str) {
        if let Some(peer) = self.peer(node) {
            peer.connection.close(REFUSED, why.as_bytes());
        }
    }

    /// Ends every connection; nodes may come back.
    pub(super) fn end_all(&self, why: &str) {
        self.0.nodes.lock().values().for_each(|peer| peer.connection.close(ENDED, why.as_bytes()));
    }

    /// Whether the node is connected.
    pub fn has(&self, node: &str) -> bool {
        self.0.nodes.lock().contains_key(node)
    }

    /// Nodes that are connected, and connections between nodes.
    pub(crate) fn count(&self) -> (usize, u64) {
        let open = self.0.pairs.lock().values().map(|pair| pair.open.load(Ordering::Relaxed)).sum();
        (self.0.nodes.lock().len(), open)
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> &RelayMetrics {
        &self.0.metrics
    }

    /// All of it, for people.
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
        let pair = |((from, to), pair): (&(String, String), &Arc<Pair>)| Joined {
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
