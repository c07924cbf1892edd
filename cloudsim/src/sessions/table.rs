//! The table of running sessions: a newer one of the same node ends the older, and never the other way round.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock, atomic::Ordering},
};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use wire::instance::{Instance, TAKEN_OVER};

use super::{
    arrival::{Arrival, Refused, Ticket},
    node_session::{Carrier, NodeSession},
    reenrolled::Reenrolled,
    remote::{RemoteSession, RemoteSessions},
    rivals::Rivals,
    traffic::{Traffic, read},
};
use crate::{
    metrics::{HubMetrics, Refusal},
    relay::Relays,
    streams::Tunnels,
};

/// One row of the table.
#[derive(Debug)]
struct Entry {
    arrival: Arrival,
    since: Timestamp,
    token: CancellationToken,
    taken_over: Arc<OnceLock<String>>,
    traffic: Arc<Traffic>,
}

/// The rows, and what is known of the same nodes beside them.
#[derive(Debug, Default)]
struct Register {
    tickets: u64,
    nodes: HashMap<String, Entry>,
    rivals: Rivals,
    /// At other replicas of the cloud.
    remote: RemoteSessions,
}

/// The table; cheap to clone.
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
    pub(crate) fn begins(&self, node: &str, certificate: Option<&[u8]>) -> Option<Vec<u8>> {
        certificate.filter(|shown| self.1.is_one(node, shown)).map(<[u8]>::to_owned)
    }

    /// A node asks for a session now.
    pub(crate) fn ticket(&self) -> Ticket {
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
    pub(crate) fn admit(
        &self,
        node: &str,
        instance: Option<&Instance>,
        address: SocketAddr,
    ) -> Result<(), String> {
        let mut register = self.0.lock();
        let Register { nodes, rivals, remote, .. } = &mut *register;
        let Some(instance) = instance else { return Ok(()) };
        let taken = match nodes.get(node) {
            Some(entry) if entry.arrival.instance.as_ref() == Some(instance) => None,
            Some(entry) => Some(format!("from {}", entry.arrival.place())),
            None => remote.has_another(node, instance).map(|replica| format!("to replica {replica}")),
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
    pub(crate) fn begin(
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
    pub(crate) fn end_all(&self) {
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

    /// Which run of an agent has which node's session, as [`Instance`] writes it.
    pub(crate) fn runs(&self) -> HashMap<String, String> {
        let register = self.0.lock();
        let run = |entry: &Entry| entry.arrival.instance.as_ref().map(ToString::to_string);
        register.nodes.iter().filter_map(|(node, entry)| Some((node.clone(), run(entry)?))).collect()
    }

    /// Takes over what other replicas say of all their sessions: one here that began before another one of the same node ends.
    pub(crate) fn set_remote(&self, sessions: Vec<RemoteSession>) {
        let remote = RemoteSessions::new(sessions);
        let mut register = self.0.lock();
        for other in remote.iter() {
            let node = &other.node;
            if let Some(run) = &other.run {
                register.rivals.has_session(node, run);
            }
            let Some(entry) = register.nodes.get(node) else { continue };
            if entry.since >= other.since {
                continue;
            }
            if let (Some(own), Some(run)) = (&entry.arrival.instance, &other.run)
                && own != run
            {
                warn!(
                    node,
                    older = entry.arrival.place(),
                    replica = other.replica,
                    "an agent of the same name has connected to another replica and takes the session over; if both run, give one of them \
                     another name"
                );
                // nobody sets it again: a session that has ended leaves
                let _ = entry
                    .taken_over
                    .set(format!("an agent of this name at replica {} has taken over", other.replica));
            }
            entry.token.cancel();
        }
        register.remote = remote;
    }
}

/// A registered session; it is registered until this is dropped, or until a newer one takes its place.
#[derive(Debug)]
pub(crate) struct Session {
    sessions: Sessions,
    node: String,
    ticket: Ticket,
    /// As in [`Arrival`].
    pub(crate) begins: Option<Vec<u8>>,
    /// Cancelled when it should end.
    pub(crate) token: CancellationToken,
    /// By whom, where another agent of the same name has ended it.
    taken_over: Arc<OnceLock<String>>,
    /// What goes through it.
    pub(crate) traffic: Arc<Traffic>,
}

impl Session {
    /// The code and the words with which the node is told that its token was cancelled.
    pub(crate) fn close_reason(&self) -> (CloseCode, &str) {
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
