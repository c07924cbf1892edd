//! CloudHub: accepts nodes over WebSocket with mutual TLS, or over QUIC, and runs one session with an acknowledged lane for each node.
//!
//! The certificate determines which node it is; the `Node_id` header must have the same name.

mod accept;
mod acceptor;
mod ack_lane;
mod end_reason;
mod handlers;
mod link;
mod listener;
mod muted_peers;
mod oversized;
mod pending_acks;
mod quic;
mod session;
mod transport;
mod upgrade;
mod work_queue;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use limits::ConnectionLimits;

pub use self::{
    acceptor::Acceptor,
    listener::{BindError, Hub},
    quic::QuicBindError,
};
use crate::{
    controllers::{
        device::Devices, dispatcher::Controllers, dynamic::Dynamic, edge::Edge,
        node_jobs::NodeJobs, rules::Rules, sync::SyncRecords,
    },
    faults::Faults,
    listeners::{ListenerLimits, Refusals},
    mailbox::Mailboxes,
    pki::Trust,
    sessions::Sessions,
};

/// The limits of the hub.
#[derive(Clone, Debug)]
pub struct Limits {
    /// A session whose node sends nothing for this long is ended.
    pub keepalive: Duration,
    /// A message that cannot be written within this time ends the session.
    pub write: Duration,
    /// A message that is not acknowledged within this time is sent again.
    pub acknowledgement: Duration,
    /// The time for the TLS handshake and the upgrade.
    pub handshake: Duration,
    /// The largest accepted message, bytes.
    pub max_message: usize,
    /// The largest message that is sent, bytes: nodes reject larger ones.
    pub max_sent_message: usize,
    /// The maximum number of sessions.
    pub nodes: usize,
    /// The maximum number of connections without a session, for each transport.
    pub connections: ConnectionLimits,
}

impl Limits {
    /// Returns the limits of a listener of which a node has one connection.
    pub(crate) fn listener(&self) -> ListenerLimits {
        ListenerLimits {
            nodes: self.nodes,
            connections: self.connections,
        }
    }
}

impl Default for Limits {
    /// KubeEdge's values, where it has them.
    fn default() -> Self {
        Self {
            keepalive: wire::session::EXPIRY,
            write: Duration::from_secs(30),
            acknowledgement: wire::lane::TIMEOUT,
            handshake: Duration::from_secs(30),
            max_message: wire::json::DEFAULT_LIMIT,
            max_sent_message: wire::json::DEFAULT_LIMIT,
            nodes: usize::MAX,
            // all nodes of a site may share the address of its router
            connections: ConnectionLimits {
                established: usize::MAX,
                reserved: 0,
                pending: 512,
                per_address: 1024,
            },
        }
    }
}

/// One replica of the hub, with its controllers. Replicas share the API and nothing else.
#[derive(Clone)]
pub struct Replica {
    /// Kubernetes objects and nodes' reports.
    pub edge: Edge,
    /// API calls of nodes.
    pub dynamic: Dynamic,
    /// Devices.
    pub devices: Devices,
    /// Messages between the cloud and programs on nodes.
    pub rules: Rules,
    /// Node jobs.
    pub node_jobs: NodeJobs,
    /// The records of objects that nodes have acknowledged.
    pub records: SyncRecords,
    /// The objects that nodes should be sent.
    pub mailboxes: Mailboxes,
}

/// What all sessions of a replica share.
struct Shared {
    number: usize,
    controllers: Controllers,
    records: SyncRecords,
    mailboxes: Mailboxes,
    limits: Limits,
    faults: Faults,
    sessions: Sessions,
    refusals: Refusals,
    /// Which certificates are valid; `None` if nodes were authenticated elsewhere.
    trust: Option<Trust>,
}

impl Shared {
    /// Returns why the node may not connect with this certificate, which TLS has verified.
    async fn refusal(&self, node: &str, certificate: &[u8]) -> Option<String> {
        self.trust.as_ref()?.refusal(node, certificate).await
    }
}

/// The replicas behind one address; connections go to them round-robin.
#[derive(Clone)]
struct Replicas(Arc<ReplicaRing>);

struct ReplicaRing {
    all: Vec<Arc<Shared>>,
    next: AtomicUsize,
}

impl Replicas {
    fn new(
        replicas: Vec<Replica>,
        limits: &Limits,
        faults: &Faults,
        sessions: &Sessions,
        trust: &Trust,
        refusals: &Refusals,
    ) -> Self {
        let all = replicas.into_iter().enumerate().map(|(number, replica)| {
            let Replica {
                edge,
                dynamic,
                devices,
                rules,
                node_jobs,
                records,
                mailboxes,
            } = replica;
            let (limits, faults, sessions) = (limits.clone(), faults.clone(), sessions.clone());
            let (refusals, trust) = (refusals.clone(), Some(trust.clone()));
            Arc::new(Shared {
                number,
                controllers: Controllers {
                    edge,
                    dynamic,
                    devices,
                    rules: Some(rules),
                    node_jobs: Some(node_jobs),
                },
                records,
                mailboxes,
                limits,
                faults,
                sessions,
                refusals,
                trust,
            })
        });
        Self(Arc::new(ReplicaRing {
            all: all.collect(),
            next: AtomicUsize::new(0),
        }))
    }

    /// Returns the next replica; `None` if there are none.
    fn next(&self) -> Option<Arc<Shared>> {
        let turn = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.0.all.get(turn % self.0.all.len().max(1)).cloned()
    }
}
