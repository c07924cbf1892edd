//! The running sessions: a newer one of the same node ends the older, and never the other way round. One register for all
//! replicas of a hub.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// What carries a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Carrier {
    /// WebSocket over TLS.
    WebSocket,
    /// QUIC, RFC 9000.
    #[serde(rename = "QUIC")]
    Quic,
}

/// A node's session, as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSession {
    /// The node.
    pub node: String,
    /// Since when.
    pub since: Timestamp,
    /// From where.
    pub address: SocketAddr,
    /// Over what.
    pub transport: Carrier,
    /// Which replica of the hub serves it, from 1 on.
    pub replica: usize,
    /// Objects and messages that wait to go down.
    pub queue: u64,
    /// Messages and bytes of messages to the node.
    pub sent: Count,
    /// Messages and bytes of messages from the node.
    pub received: Count,
}

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// How many.
    pub messages: u64,
    /// Their sizes together.
    pub bytes: u64,
}

/// Counts of one session, kept while it runs.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    sent: [AtomicU64; 2],
    received: [AtomicU64; 2],
    queue: AtomicU64,
}

impl Traffic {
    /// A message went to the node.
    pub(super) fn sent(&self, bytes: usize) {
        add(&self.sent, bytes);
    }

    /// A message came from the node.
    pub(super) fn received(&self, bytes: usize) {
        add(&self.received, bytes);
    }

    /// So much waits to go down.
    pub(super) fn queue(&self, length: usize) {
        self.queue.store(length as u64, Ordering::Relaxed);
    }
}

fn add([messages, sum]: &[AtomicU64; 2], bytes: usize) {
    messages.fetch_add(1, Ordering::Relaxed);
    sum.fetch_add(bytes as u64, Ordering::Relaxed);
}

fn read([messages, bytes]: &[AtomicU64; 2]) -> Count {
    Count { messages: messages.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
}

/// When a node asked for its session, as a number: a later one is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Who comes, from where and over what.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) node: String,
    pub(super) ticket: Ticket,
    pub(super) address: SocketAddr,
    pub(super) transport: Carrier,
    pub(super) replica: usize,
}

/// Why there is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There are as many as are allowed.
    TooMany,
    /// The node has asked for another one since.
    Overtaken,
}

#[derive(Debug)]
struct Entry {
    arrival: Arrival,
    since: Timestamp,
    token: CancellationToken,
    traffic: Arc<Traffic>,
}

#[derive(Debug, Default)]
struct Register {
    tickets: u64,
    nodes: HashMap<String, Entry>,
}

/// The register; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Sessions(Arc<Mutex<Register>>);

impl Sessions {
    /// A node asks for a session now.
    pub(super) fn ticket(&self) -> Ticket {
        let mut register = self.0.lock();
        register.tickets += 1;
        Ticket(register.tickets)
    }

    /// Whether the node has a session.
    pub(super) fn has(&self, node: &str) -> bool {
        self.0.lock().nodes.contains_key(node)
    }

    /// Registers a session and ends the node's older one.
    pub(super) fn begin(
        &self,
        arrival: Arrival,
        limit: usize,
        parent: &CancellationToken,
    ) -> Result<Session, Refused> {
        let mut register = self.0.lock();
        let node = arrival.node.clone();
        match register.nodes.get(&node) {
            Some(other) if other.arrival.ticket > arrival.ticket => return Err(Refused::Overtaken),
            None if register.nodes.len() >= limit => return Err(Refused::TooMany),
            _ => {}
        }
        let (token, traffic) = (parent.child_token(), Arc::new(Traffic::default()));
        let session = Session {
            sessions: self.clone(),
            node: node.clone(),
            ticket: arrival.ticket,
            token: token.clone(),
            traffic: traffic.clone(),
        };
        let entry = Entry { arrival, since: Timestamp::now(), token, traffic };
        if let Some(older) = register.nodes.insert(node, entry) {
            older.token.cancel();
        }
        Ok(session)
    }

    /// Ends every session; nodes may come back.
    pub(super) fn end_all(&self) {
        self.0.lock().nodes.values().for_each(|entry| entry.token.cancel());
    }

    /// The sessions that run, by their nodes' names.
    pub fn list(&self) -> Vec<NodeSession> {
        let register = self.0.lock();
        let mut all: Vec<NodeSession> = register
            .nodes
            .values()
            .map(|Entry { arrival, since, traffic, .. }| NodeSession {
                node: arrival.node.clone(),
                since: *since,
                address: arrival.address,
                transport: arrival.transport,
                replica: arrival.replica + 1,
                queue: traffic.queue.load(Ordering::Relaxed),
                sent: read(&traffic.sent),
                received: read(&traffic.received),
            })
            .collect();
        all.sort_by(|one, other| one.node.cmp(&other.node));
        all
    }
}

/// A registered session; it is registered until this is dropped, or until a newer one takes its place.
#[derive(Debug)]
pub(super) struct Session {
    sessions: Sessions,
    node: String,
    ticket: Ticket,
    /// Cancelled when it should end.
    pub(super) token: CancellationToken,
    pub(super) traffic: Arc<Traffic>,
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut register = self.sessions.0.lock();
        // a newer one of the same node stays
        if register.nodes.get(&self.node).is_some_and(|entry| entry.arrival.ticket == self.ticket) {
            register.nodes.remove(&self.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(sessions: &Sessions, node: &str, replica: usize) -> Arrival {
        Arrival {
            node: node.to_owned(),
            ticket: sessions.ticket(),
            address: ([127, 0, 0, 1], 1).into(),
            transport: Carrier::WebSocket,
            replica,
        }
    }

    /// Every order in which two sessions of a node can begin and end: whichever was asked for last stays.
    #[test]
    fn the_session_asked_for_last_stays_in_whatever_order_they_begin_and_end() {
        #[derive(Clone, Copy, PartialEq)]
        enum Step {
            Begin(usize),
            End(usize),
        }
        use Step::{Begin, End};
        let orders: [&[Step]; 6] = [
            &[Begin(0), Begin(1), End(0)],
            &[Begin(1), Begin(0), End(0)],
            &[Begin(0), End(0), Begin(1)],
            &[Begin(1), Begin(0)],
            &[Begin(0), Begin(1)],
            &[Begin(1), End(0), Begin(0), End(0)],
        ];
        for (number, order) in orders.into_iter().enumerate() {
            let (sessions, parent) = (Sessions::default(), CancellationToken::new());
            // the two ask one after the other, at different replicas
            let asked = [0, 1].map(|replica| arrival(&sessions, "edge-1", replica));
            let mut running: [Option<Session>; 2] = [None, None];
            for step in order {
                match *step {
                    Begin(which) => running[which] = sessions.begin(asked[which].clone(), 1, &parent).ok(),
                    End(which) => running[which] = None,
                }
            }
            let newer = running[1].as_ref().expect("the newer one was never refused");
            assert!(!newer.token.is_cancelled(), "order {number}");
            assert!(running[0].as_ref().is_none_or(|older| older.token.is_cancelled()), "order {number}");
            let listed: Vec<usize> = sessions.list().iter().map(|session| session.replica).collect();
            assert_eq!(listed, [2], "order {number}");
        }
    }

    #[test]
    fn an_older_session_that_comes_late_is_refused() {
        let (sessions, parent) = (Sessions::default(), CancellationToken::new());
        let (older, newer) = (arrival(&sessions, "edge-1", 0), arrival(&sessions, "edge-1", 0));
        let newer = sessions.begin(newer, 9, &parent).unwrap();
        assert_eq!(sessions.begin(older, 9, &parent).map(drop), Err(Refused::Overtaken));
        assert!(!newer.token.is_cancelled());
    }

    #[test]
    fn a_full_hub_takes_the_nodes_that_it_has() {
        let (sessions, parent) = (Sessions::default(), CancellationToken::new());
        let first = sessions.begin(arrival(&sessions, "edge-1", 0), 1, &parent).unwrap();
        let full = sessions.begin(arrival(&sessions, "edge-2", 0), 1, &parent);
        assert_eq!(full.map(drop), Err(Refused::TooMany));
        let again = sessions.begin(arrival(&sessions, "edge-1", 0), 1, &parent).unwrap();
        assert!(first.token.is_cancelled());
        drop(again);
        assert!(!sessions.has("edge-1"));
        assert!(sessions.begin(arrival(&sessions, "edge-2", 0), 1, &parent).is_ok());
    }
}
