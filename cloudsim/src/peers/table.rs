//! Which replica has a node. Pure.

use std::{collections::BTreeSet, net::SocketAddr};

use clock::HashMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A node's connection to a replica; its connections may be to different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// Its session with CloudHub.
    Session,
    /// Its stream tunnel.
    Tunnel,
    /// Its connection to the relay.
    Relay,
}

/// A stream tunnel or a connection to the relay, as a replica records it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct ConnectionRecord {
    /// The name of the node.
    pub(crate) node: String,
    /// When it began, by the replica's clock.
    pub(crate) since: Timestamp,
    /// The address that the node reports; empty if it reports none, or for the relay.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) address: String,
}

/// A replica and its nodes.
#[derive(Clone, Debug)]
pub(crate) struct PeerNodes {
    /// Where the replica is reached.
    pub(crate) replica: SocketAddr,
    /// Nodes with a session, and since when.
    pub(crate) sessions: Vec<(String, Timestamp)>,
    /// Nodes with a tunnel.
    pub(crate) tunnels: Vec<ConnectionRecord>,
    /// Where the replica's relay is reached by other replicas, if it has one.
    pub(crate) relay: Option<SocketAddr>,
    /// Nodes that are connected to it.
    pub(crate) relayed: Vec<ConnectionRecord>,
}

/// By node, since when it is connected, and to which replica.
type Replicas = HashMap<String, (Timestamp, SocketAddr)>;

/// The replicas by node: if two have a node, the one to which it connected last.
#[derive(Debug, Default)]
pub(super) struct Table {
    sessions: Replicas,
    tunnels: Replicas,
    relayed: Replicas,
    /// Nodes with a tunnel, by the address that they report.
    addresses: HashMap<String, BTreeSet<String>>,
}

impl Table {
    pub(super) fn new(replicas: Vec<PeerNodes>) -> Self {
        let mut table = Self::default();
        for PeerNodes {
            replica,
            sessions,
            tunnels,
            relay,
            relayed,
        } in replicas
        {
            if let Some(relay) = relay {
                for ConnectionRecord { node, since, .. } in relayed {
                    insert(&mut table.relayed, node, (since, relay));
                }
            }
            for (node, since) in sessions {
                insert(&mut table.sessions, node, (since, replica));
            }
            for ConnectionRecord {
                node,
                since,
                address,
            } in tunnels
            {
                if !address.is_empty() {
                    table
                        .addresses
                        .entry(address)
                        .or_default()
                        .insert(node.clone());
                }
                insert(&mut table.tunnels, node, (since, replica));
            }
        }
        table
    }

    /// Returns the address of the replica to which the node is connected: that of its relay for the relay.
    pub(super) fn replica(&self, connection: Connection, node: &str) -> Option<SocketAddr> {
        let all = match connection {
            Connection::Session => &self.sessions,
            Connection::Tunnel => &self.tunnels,
            Connection::Relay => &self.relayed,
        };
        all.get(node).map(|(_, replica)| *replica)
    }

    /// Returns the nodes with a tunnel that report this address.
    pub(super) fn nodes_at(&self, address: &str) -> BTreeSet<String> {
        self.addresses.get(address).cloned().unwrap_or_default()
    }
}

fn insert(replicas: &mut Replicas, node: String, new: (Timestamp, SocketAddr)) {
    let known = replicas.entry(node).or_insert(new);
    if known.0 < new.0 {
        *known = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_connection_of_a_node_counts() {
        let replica = |number: u16| SocketAddr::from(([192, 0, 2, 1], number));
        let at = |second| Timestamp::from_second(second).unwrap();
        let tunnel = |node: &str, second, address: &str| ConnectionRecord {
            node: node.to_owned(),
            since: at(second),
            address: address.to_owned(),
        };
        let all = [
            PeerNodes {
                replica: replica(1),
                sessions: vec![("a".to_owned(), at(5)), ("b".to_owned(), at(1))],
                tunnels: vec![tunnel("a", 1, "192.0.2.7"), tunnel("b", 2, "")],
                relay: Some(replica(11)),
                relayed: vec![tunnel("a", 9, "")],
            },
            PeerNodes {
                replica: replica(2),
                sessions: vec![("a".to_owned(), at(4))],
                tunnels: vec![tunnel("a", 3, "192.0.2.7"), tunnel("c", 2, "192.0.2.8")],
                relay: None,
                relayed: vec![tunnel("a", 10, "")],
            },
        ];
        for order in [all.to_vec(), all.iter().rev().cloned().collect()] {
            let table = Table::new(order);
            let session = |node| table.replica(Connection::Session, node);
            assert_eq!(
                ["a", "b", "c"].map(session),
                [Some(replica(1)), Some(replica(1)), None]
            );
            let tunnel = |node| table.replica(Connection::Tunnel, node);
            assert_eq!(
                ["a", "b", "c"].map(tunnel),
                [Some(replica(2)), Some(replica(1)), Some(replica(2))]
            );
            let relay = |node| table.replica(Connection::Relay, node);
            assert_eq!(["a", "b"].map(relay), [Some(replica(11)), None]);
            assert_eq!(table.nodes_at("192.0.2.7"), ["a".to_owned()].into());
            assert_eq!(table.nodes_at(""), BTreeSet::new());
        }
    }
}
