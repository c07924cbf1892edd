//! The running sessions: a newer one of the same node ends the older, and never the other way round. One register for all
//! replicas of a hub.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock, atomic::Ordering},
};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use wire::instance::{Instance, TAKEN_OVER};

pub(crate) use self::elsewhere::Elsewhere;
pub(super) use self::traffic::Traffic;
use self::{elsewhere::Others, rivals::Rivals, traffic::read};
pub use self::{rivals::Rival, traffic::Count};
use super::reenrolled::Reenrolled;
use crate::{
    metrics::{HubMetrics, Refusal},
    relay::Relays,
    streams::Tunnels,
};

mod elsewhere;
mod rivals;
mod traffic;

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
    /// When its agent started, as it says; EdgeCore does not.
    #[serde(default)]
    pub started: Option<String>,
    /// Another agent of the same name, that would have the session.
    #[serde(default)]
    pub rival: Option<Rival>,
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
    /// Which run of an agent it is, where it says so.
    pub(super) instance: Option<Instance>,
    /// The certificate that it was given for a token, where it has not come with it before.
    pub(super) begins: Option<Vec<u8>>,
    /// The certificate that it shows.
    pub(super) certificate: Option<Vec<u8>>,
}

impl Arrival {
    /// For people.
    fn place(&self) -> String {
        let started = self.instance.as_ref().map(|instance| format!(", started {}", instance.started()));
        format!("{}{}", self.address, started.unwrap_or_default())
    }
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
    taken_over: Arc<OnceLock<String>>,
    traffic: Arc<Traffic>,
}

#[derive(Debug, Default)]
struct Register {
    tickets: u64,
    nodes: HashMap<String, Entry>,
    rivals: Rivals,
    /// At other replicas of the cloud.
    elsewhere: Others,
}

/// The register; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Sessions(Arc<Mutex<Register>>, Reenrolled, HubMetrics, Tunnels, Relays);

impl Sessions {
    /// Nodes that begin anew.
    pub fn reenrolled(&self) -> &Reenrolled {
        &self.1
    }

    /// The stream tunnels of the same nodes.
    pub fn tunnels(&self) -> &Tunnels {
        &self.3
    }

    /// The connections of the same nodes to the relay.
    pub fn relays(&self) -> &Relays {
        &self.4
    }

    /// What is counted of them.
    pub(crate) fn metrics(&self) -> &HubMetrics {
        &self.2
    }

    /// What `node` begins anew with, if it does: the certificate that it shows.
    pub(super) fn begins(&self, node: &str, certificate: Option<&[u8]>) -> Option<Vec<u8>> {
        certificate.filter(|shown| self.1.is_one(node, shown)).map(<[u8]>::to_owned)
    }

    /// A node asks for a session now.
    pub(super) fn ticket(&self) -> Ticket {
        let mut register = self.0.lock();
        register.tickets += 1;
        Ticket(register.tickets)
    }

    /// Whether the node has a session.
    pub fn has(&self, node: &str) -> bool {
        self.0.lock().nodes.contains_key(node)
    }

    /// Whether this run of an agent may ask for the node's session. One that had it before, and comes back while another run has it,
    /// is a second agent of the same name: whoever has the session keeps it, or the two would take turns. The error is for people.
    pub(super) fn admit(
        &self,
        node: &str,
        instance: Option<&Instance>,
        address: SocketAddr,
    ) -> Result<(), String> {
        let mut register = self.0.lock();
        let Register { nodes, rivals, elsewhere, .. } = &mut *register;
        let Some(instance) = instance else { return Ok(()) };
        let taken = match nodes.get(node) {
            Some(entry) if entry.arrival.instance.as_ref() == Some(instance) => None,
            Some(entry) => Some(format!("from {}", entry.arrival.place())),
            None => elsewhere.has_another(node, instance).map(|replica| format!("to replica {replica}")),
        };
        let Some(taken) = taken.filter(|_| rivals.has_had(node, instance)) else { return Ok(()) };
        rivals.refused(node, instance, address, Timestamp::now());
        Err(format!("another agent of this name is connected, {taken}"))
    }

    /// Whether the node's agent is one of ours: it says which run it is, or speaks QUIC, which EdgeCore's is none of (RFC 9000).
    pub fn is_own_agent(&self, node: &str) -> bool {
        self.0
            .lock()
            .nodes
            .get(node)
            .is_some_and(|entry| entry.arrival.instance.is_some() || entry.arrival.transport == Carrier::Quic)
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
            Some(other) if other.arrival.ticket > arrival.ticket => {
                self.2.refused(Refusal::Overtaken);
                return Err(Refused::Overtaken);
            }
            None if register.nodes.len() >= limit => {
                self.2.refused(Refusal::TooMany);
                return Err(Refused::TooMany);
            }
            _ => {}
        }
        self.2.begun(arrival.transport);
        let traffic = Arc::new(Traffic { all: self.2.clone(), ..Traffic::default() });
        let token = parent.child_token();
        let taken_over = Arc::new(OnceLock::new());
        let session = Session {
            sessions: self.clone(),
            node: node.clone(),
            ticket: arrival.ticket,
            begins: arrival.begins.clone(),
            token: token.clone(),
            taken_over: taken_over.clone(),
            traffic: traffic.clone(),
        };
        if let Some(instance) = &arrival.instance {
            register.rivals.has_session(&node, instance);
        }
        let place = arrival.place();
        let entry = Entry { arrival, since: Timestamp::now(), token, taken_over, traffic };
        let is_other = |older: &Entry, newer: &Option<Instance>| matches!((&older.arrival.instance, newer), (Some(older), Some(newer)) if older != newer);
        let newer = entry.arrival.instance.clone();
        if let Some(older) = register.nodes.insert(node, entry) {
            if is_other(&older, &newer) {
                let node = &older.arrival.node;
                warn!(
                    node,
                    older = older.arrival.place(),
                    newer = place,
                    "an agent that was started anew takes the session over from one that did not say goodbye; if both run, give one \
                     of them another name"
                );
                // nobody has set it: this is done once, where the entry goes
                let _ = older.taken_over.set(format!("an agent of this name at {place} has taken over"));
            }
            older.token.cancel();
        }
        Ok(session)
    }

    /// Ends the node's session and its stream tunnel; whether it may come back is looked at when it does.
    pub fn end(&self, node: &str) {
        let why = "the certificate of this node was taken back";
        self.3.end(node, why);
        self.4.end(node, why);
        if let Some(entry) = self.0.lock().nodes.get(node) {
            entry.token.cancel();
        }
    }

    /// The certificate that the connected node shows, DER; none where it has shown who it is elsewhere.
    pub fn certificate(&self, node: &str) -> Option<Vec<u8>> {
        self.0.lock().nodes.get(node)?.arrival.certificate.clone()
    }

    /// From where the node is connected.
    pub fn address(&self, node: &str) -> Option<IpAddr> {
        self.0.lock().nodes.get(node).map(|entry| entry.arrival.address.ip())
    }

    /// Whether another node is connected from there.
    pub fn is_shared(&self, node: &str, address: IpAddr) -> bool {
        let register = self.0.lock();
        register.nodes.iter().any(|(other, entry)| other != node && entry.arrival.address.ip() == address)
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
                started: arrival.instance.as_ref().map(|instance| instance.started().to_owned()),
                rival: register.rivals.of(&arrival.node, Timestamp::now()),
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
    /// As in [`Arrival`].
    pub(super) begins: Option<Vec<u8>>,
    /// Cancelled when it should end.
    pub(super) token: CancellationToken,
    /// By whom, where another agent of the same name has ended it.
    taken_over: Arc<OnceLock<String>>,
    pub(super) traffic: Arc<Traffic>,
}

impl Session {
    /// The code and the words with which the node is told that its token was cancelled.
    pub(super) fn farewell(&self) -> (CloseCode, &str) {
        match self.taken_over.get() {
            Some(by) => (CloseCode::from(TAKEN_OVER), by),
            None => (CloseCode::Away, "the cloud stops, or this node has connected anew"),
        }
    }
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
            instance: None,
            begins: None,
            certificate: None,
        }
    }

    /// Two agents of one name: the one that started later has the session, and the other one learns from whom, and does not get it
    /// back as long as that one is there.
    #[test]
    fn two_agents_of_one_name_do_not_take_turns() {
        let (sessions, parent) = (Sessions::default(), CancellationToken::new());
        let run = |id: &str| Instance::new(id, "2026-11-26T16:00:00Z");
        let from = |id: &str, port| Arrival {
            instance: run(id),
            address: ([10, 0, 0, 7], port).into(),
            ..arrival(&sessions, "edge-1", 0)
        };
        let admit =
            |id: &str, port: u16| sessions.admit("edge-1", run(id).as_ref(), ([10, 0, 0, 7], port).into());
        admit("a", 1).unwrap();
        let first = sessions.begin(from("a", 1), 9, &parent).unwrap();
        admit("a", 1).unwrap();
        admit("b", 2).unwrap();
        let second = sessions.begin(from("b", 2), 9, &parent).unwrap();
        assert!(first.token.is_cancelled());
        let (code, words) = first.farewell();
        assert_eq!(u16::from(code), TAKEN_OVER);
        assert!(words.contains("10.0.0.7:2, started 2026-11-26T16:00:00Z") && words.len() < 120, "{words}");
        for _ in 0..2 {
            let refused = admit("a", 3).unwrap_err();
            assert!(refused.contains("10.0.0.7:2, started 2026-11-26T16:00:00Z"), "{refused}");
        }
        assert!(!second.token.is_cancelled());
        let listed = sessions.list();
        let rival = listed[0].rival.as_ref().unwrap();
        assert_eq!((rival.address.port(), rival.refused), (3, 2));
        assert_eq!(listed[0].started.as_deref(), Some("2026-11-26T16:00:00Z"));
        // a second one that has gone is in nobody's way
        drop((first, second));
        admit("a", 3).unwrap();
        let again = sessions.begin(from("a", 3), 9, &parent).unwrap();
        assert!(sessions.list()[0].rival.is_none());
        // EdgeCore does not say which run it is
        sessions.admit("edge-1", None, ([10, 0, 0, 7], 4).into()).unwrap();
        drop(again);
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
