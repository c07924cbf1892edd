//! The table of running sessions: a newer session of a node ends the older one, never the reverse.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock, atomic::Ordering},
};

use clock::HashMap;
use jiff::Timestamp;
use parking_lot::Mutex;
use record::Recorder;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use wire::instance::{Instance, TAKEN_OVER};

use super::{
    duplicate_agents::DuplicateAgents,
    metrics::{HubMetrics, RefusalReason},
    node_session::{NodeSession, Transport},
    reenrolled::Reenrolled,
    remote::{RemoteSession, RemoteSessions},
    session_request::{RequestSequence, SessionRefusal, SessionRequest},
    traffic::{Traffic, read},
};
use crate::{relay::Relays, streams::Tunnels};

/// A registered session.
#[derive(Debug)]
struct Entry {
    session_request: SessionRequest,
    since: Timestamp,
    token: CancellationToken,
    taken_over: Arc<OnceLock<String>>,
    traffic: Arc<Traffic>,
}

/// The sessions, and what else is known of their nodes.
#[derive(Debug, Default)]
struct SessionTable {
    last_sequence: u64,
    nodes: HashMap<String, Entry>,
    duplicate_agents: DuplicateAgents,
    /// Sessions at other replicas of the cloud.
    remote: RemoteSessions,
}

/// The table of sessions; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    table: Arc<Mutex<SessionTable>>,
    reenrolled: Reenrolled,
    metrics: HubMetrics,
    tunnels: Tunnels,
    relays: Relays,
    recorder: Recorder,
}

impl Sessions {
    /// Creates an empty table; connections of nodes are recorded.
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self {
            tunnels: Tunnels::new(recorder.clone()),
            recorder,
            ..Self::default()
        }
    }

    /// Returns the recorder of nodes' connections.
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Returns the nodes that have re-enrolled.
    pub fn reenrolled_nodes(&self) -> &Reenrolled {
        &self.reenrolled
    }

    /// Returns the stream tunnels of the nodes.
    pub fn tunnels(&self) -> &Tunnels {
        &self.tunnels
    }

    /// Returns the nodes' connections to the relay.
    pub fn relays(&self) -> &Relays {
        &self.relays
    }

    /// Returns the hub's metrics.
    pub(crate) fn metrics(&self) -> &HubMetrics {
        &self.metrics
    }

    /// Returns the certificate with which `node` connects for the first time after it has re-enrolled.
    pub(crate) fn new_certificate(
        &self,
        node: &str,
        certificate: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        certificate
            .filter(|shown| self.reenrolled.is_one(node, shown))
            .map(<[u8]>::to_owned)
    }

    /// Returns the sequence number of a request for a session that arrives now.
    pub(crate) fn next_sequence(&self) -> RequestSequence {
        let mut table = self.table.lock();
        table.last_sequence += 1;
        RequestSequence(table.last_sequence)
    }

    /// Reports whether the node has a session.
    pub fn has(&self, node: &str) -> bool {
        self.table.lock().nodes.contains_key(node)
    }

    /// Checks whether this run of an agent may ask for the node's session. A run that had it before and comes back while another run has
    /// it is a second agent of the same name: the other run keeps the session, or the two would alternate. The error is shown to users.
    pub(crate) fn admit(
        &self,
        node: &str,
        instance: Option<&Instance>,
        address: SocketAddr,
    ) -> Result<(), String> {
        let mut table = self.table.lock();
        let SessionTable {
            nodes,
            duplicate_agents,
            remote,
            ..
        } = &mut *table;
        let Some(instance) = instance else {
            return Ok(());
        };
        let taken = match nodes.get(node) {
            Some(entry) if entry.session_request.instance.as_ref() == Some(instance) => None,
            Some(entry) => Some(format!("from {}", entry.session_request.describe())),
            None => remote
                .has_another(node, instance)
                .map(|replica| format!("to replica {replica}")),
        };
        let Some(taken) = taken.filter(|_| duplicate_agents.had_session(node, instance)) else {
            return Ok(());
        };
        duplicate_agents.record_refused(node, instance, address, clock::now());
        Err(format!("another agent of this name is connected, {taken}"))
    }

    /// Reports whether the node's agent is `edge-agent`: it sends its run, or speaks standard QUIC (RFC 9000), which EdgeCore does not.
    pub fn is_own_agent(&self, node: &str) -> bool {
        self.table.lock().nodes.get(node).is_some_and(|entry| {
            entry.session_request.instance.is_some()
                || entry.session_request.transport == Transport::Quic
        })
    }

    /// Registers a session and ends the node's older one.
    pub(crate) fn begin(
        &self,
        session_request: SessionRequest,
        limit: usize,
        parent: &CancellationToken,
    ) -> Result<Session, SessionRefusal> {
        let mut table = self.table.lock();
        let node = session_request.node.clone();
        match table.nodes.get(&node) {
            Some(other) if other.session_request.sequence > session_request.sequence => {
                self.metrics.count_refused(RefusalReason::Superseded);
                return Err(SessionRefusal::Superseded);
            }
            None if table.nodes.len() >= limit => {
                self.metrics.count_refused(RefusalReason::TooMany);
                return Err(SessionRefusal::TooMany);
            }
            _ => {}
        }
        self.metrics.count_begun(session_request.transport);
        let traffic = Arc::new(Traffic {
            all: self.metrics.clone(),
            recorder: self.recorder.connect(
                session_request.transport.into(),
                &node,
                &session_request.address.to_string(),
                Default::default(),
            ),
            ..Traffic::default()
        });
        let token = parent.child_token();
        let taken_over = Arc::new(OnceLock::new());
        let session = Session {
            sessions: self.clone(),
            node: node.clone(),
            sequence: session_request.sequence,
            new_certificate: session_request.new_certificate.clone(),
            token: token.clone(),
            taken_over: taken_over.clone(),
            traffic: traffic.clone(),
        };
        if let Some(instance) = &session_request.instance {
            table.duplicate_agents.has_session(&node, instance);
        }
        let place = session_request.describe();
        let entry = Entry {
            session_request,
            since: clock::now(),
            token,
            taken_over,
            traffic,
        };
        let is_other = |older: &Entry, newer: &Option<Instance>| matches!((&older.session_request.instance, newer), (Some(older), Some(newer)) if older != newer);
        let newer = entry.session_request.instance.clone();
        if let Some(older) = table.nodes.insert(node, entry) {
            if is_other(&older, &newer) {
                let node = &older.session_request.node;
                warn!(
                    node,
                    older = older.session_request.describe(),
                    newer = place,
                    "session taken over by a newly started agent of the same name; if both run, rename one"
                );
                // set only here, when the entry is replaced
                let _ = older
                    .taken_over
                    .set(format!("an agent of this name at {place} has taken over"));
            }
            older.token.cancel();
        }
        Ok(session)
    }

    /// Ends the node's session, its stream tunnel and its relay connection; whether it may return is checked when it does.
    pub fn end(&self, node: &str) {
        let why = "the certificate of this node was revoked";
        self.tunnels.end(node, why);
        self.relays.end(node, why);
        if let Some(entry) = self.table.lock().nodes.get(node) {
            entry.token.cancel();
        }
    }

    /// Returns the certificate that the connected node shows, DER; `None` if it was authenticated elsewhere.
    pub fn certificate(&self, node: &str) -> Option<Vec<u8>> {
        self.table
            .lock()
            .nodes
            .get(node)?
            .session_request
            .certificate
            .clone()
    }

    /// Returns the address from which the node is connected.
    pub fn address(&self, node: &str) -> Option<IpAddr> {
        self.table
            .lock()
            .nodes
            .get(node)
            .map(|entry| entry.session_request.address.ip())
    }

    /// Reports whether another node is connected from this address.
    pub fn is_shared(&self, node: &str, address: IpAddr) -> bool {
        let table = self.table.lock();
        table
            .nodes
            .iter()
            .any(|(other, entry)| other != node && entry.session_request.address.ip() == address)
    }

    /// Ends every session; nodes may come back.
    pub(crate) fn end_all(&self) {
        self.table
            .lock()
            .nodes
            .values()
            .for_each(|entry| entry.token.cancel());
    }

    /// Returns the running sessions, sorted by node.
    pub fn list(&self) -> Vec<NodeSession> {
        let table = self.table.lock();
        let mut all: Vec<NodeSession> = table
            .nodes
            .values()
            .map(
                |Entry {
                     session_request,
                     since,
                     traffic,
                     ..
                 }| NodeSession {
                    started: session_request
                        .instance
                        .as_ref()
                        .map(|instance| instance.start_time().to_owned()),
                    rival: table
                        .duplicate_agents
                        .of(&session_request.node, clock::now()),
                    node: session_request.node.clone(),
                    since: *since,
                    address: session_request.address,
                    transport: session_request.transport,
                    replica: session_request.replica + 1,
                    queue: traffic.queue.load(Ordering::Relaxed),
                    sent: read(&traffic.sent),
                    received: read(&traffic.received),
                    tunnel: self.tunnels.since(&session_request.node),
                },
            )
            .collect();
        all.sort_by(|one, other| one.node.cmp(&other.node));
        all
    }

    /// Returns the run of the agent that has each node's session, in the form of [`Instance`].
    pub(crate) fn runs(&self) -> HashMap<String, String> {
        let table = self.table.lock();
        let run = |entry: &Entry| {
            entry
                .session_request
                .instance
                .as_ref()
                .map(ToString::to_string)
        };
        table
            .nodes
            .iter()
            .filter_map(|(node, entry)| Some((node.clone(), run(entry)?)))
            .collect()
    }

    /// Replaces the sessions that other replicas report. A session here ends if another replica has a newer one of the node.
    pub(crate) fn set_remote(&self, sessions: Vec<RemoteSession>) {
        let remote = RemoteSessions::new(sessions);
        let mut table = self.table.lock();
        for other in remote.iter() {
            let node = &other.node;
            if let Some(run) = &other.run {
                table.duplicate_agents.has_session(node, run);
            }
            let Some(entry) = table.nodes.get(node) else {
                continue;
            };
            if entry.since >= other.since {
                continue;
            }
            if let (Some(own), Some(run)) = (&entry.session_request.instance, &other.run)
                && own != run
            {
                warn!(
                    node,
                    older = entry.session_request.describe(),
                    replica = other.replica,
                    "session taken over by a same-named agent on another replica; if both run, rename one"
                );
                // set only once: the session then leaves the table
                let _ = entry.taken_over.set(format!(
                    "an agent of this name at replica {} has taken over",
                    other.replica
                ));
            }
            entry.token.cancel();
        }
        table.remote = remote;
    }
}

/// A registered session. Dropping it unregisters it, unless a newer one has replaced it.
#[derive(Debug)]
pub(crate) struct Session {
    sessions: Sessions,
    node: String,
    sequence: RequestSequence,
    /// See [`SessionRequest`].
    pub(crate) new_certificate: Option<Vec<u8>>,
    /// Cancelled when the session must end.
    pub(crate) token: CancellationToken,
    /// The message about another agent of the same name that has taken over.
    taken_over: Arc<OnceLock<String>>,
    /// Counts the traffic of the session.
    pub(crate) traffic: Arc<Traffic>,
}

impl Session {
    /// Returns the code and reason with which the connection is closed after the token was cancelled.
    pub(crate) fn close_reason(&self) -> (CloseCode, &str) {
        match self.taken_over.get() {
            Some(by) => (CloseCode::from(TAKEN_OVER), by),
            None => (
                CloseCode::Away,
                "the cloud stops, or this node has reconnected",
            ),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut table = self.sessions.table.lock();
        // a newer session of the node stays
        if table
            .nodes
            .get(&self.node)
            .is_some_and(|entry| entry.session_request.sequence == self.sequence)
        {
            table.nodes.remove(&self.node);
        }
    }
}
