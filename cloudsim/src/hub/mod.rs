//! CloudHub: accepts nodes over WebSocket with mutual TLS, or over QUIC, and runs one session of each node with the acknowledged lane.
//!
//! A node is who its certificate says, and its `Node_id` header must say the same.

mod accept;
mod acceptor;
mod ack_lane;
mod ended;
mod gate;
mod handlers;
mod link;
mod listener;
mod mute;
mod pending_acks;
mod quic;
mod refusals;
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
pub(crate) use self::{
    gate::{Dead, pass},
    refusals::Refusals,
};
use crate::{
    controllers::{
        device::Devices, dispatcher::Controllers, dynamic::Dynamic, edge::Edge, rules::Rules,
        sync::SyncRecords,
    },
    faults::Faults,
    mailbox::Mailboxes,
    pki::Trust,
    sessions::Sessions,
};

/// What the hub allows.
#[derive(Clone, Debug)]
pub struct Limits {
    /// A session whose node sends no keepalive for so long is ended.
    pub keepalive: Duration,
    /// One message that cannot be written in this time ends the session.
    pub write: Duration,
    /// A message that is not acknowledged in this time is sent again.
    pub acknowledgement: Duration,
    /// TLS handshake and upgrade.
    pub handshake: Duration,
    /// Largest message accepted, bytes.
    pub max_message: usize,
    /// Sessions at one time.
    pub nodes: usize,
    /// Connections at one time, for each transport; those that have a session are bounded by `nodes`.
    pub connections: ConnectionLimits,
}

impl Default for Limits {
    /// KubeEdge's values, where it has them.
    fn default() -> Self {
        Self {
            keepalive: Duration::from_secs(30),
            write: Duration::from_secs(30),
            acknowledgement: Duration::from_secs(5),
            handshake: Duration::from_secs(30),
            max_message: wire::json::DEFAULT_LIMIT,
            nodes: 500,
            // all nodes of a site may come from the one address of its router
            connections: ConnectionLimits {
                established: usize::MAX,
                reserved: 0,
                pending: 512,
                per_address: 1024,
            },
        }
    }
}

/// One of the hub's replicas: what it knows and how it learns it. Replicas share the API and nothing else.
#[derive(Clone)]
pub struct Replica {
    /// What goes down and comes up.
    pub edge: Edge,
    /// Calls of the API.
    pub dynamic: Dynamic,
    /// Devices.
    pub devices: Devices,
    /// Messages between the cloud and what runs on nodes.
    pub rules: Rules,
    /// What nodes have acknowledged.
    pub records: SyncRecords,
    /// What nodes should look at.
    pub mailboxes: Mailboxes,
}

/// What every session of a replica shares.
#[derive(Clone)]
struct Shared {
    number: usize,
    controllers: Controllers,
    records: SyncRecords,
    mailboxes: Mailboxes,
    limits: Limits,
    faults: Faults,
    sessions: Sessions,
    refusals: Refusals,
    /// Which certificates count; nothing where nodes have shown who they are elsewhere.
    trust: Option<Trust>,
}

impl Shared {
    /// Why the node may not come with this certificate, which TLS has verified.
    async fn refusal(&self, node: &str, certificate: &[u8]) -> Option<String> {
        self.trust.as_ref()?.refusal(node, certificate).await
    }
}

/// The replicas behind one address, in turn.
#[derive(Clone)]
struct Replicas(Arc<Round>);

struct Round {
    all: Vec<Shared>,
    next: AtomicUsize,
}

impl Replicas {
    fn new(
        replicas: Vec<Replica>,
        limits: &Limits,
        faults: &Faults,
        sessions: &Sessions,
        trust: &Trust,
    ) -> Self {
        let refusals = Refusals::default();
        let all = replicas.into_iter().enumerate().map(|(number, replica)| {
            let Replica { edge, dynamic, devices, rules, records, mailboxes } = replica;
            let (limits, faults, sessions) = (limits.clone(), faults.clone(), sessions.clone());
            let (refusals, trust) = (refusals.clone(), Some(trust.clone()));
            Shared {
                number,
                controllers: Controllers { edge, dynamic, devices, rules: Some(rules) },
                records,
                mailboxes,
                limits,
                faults,
                sessions,
                refusals,
                trust,
            }
        });
        Self(Arc::new(Round { all: all.collect(), next: AtomicUsize::new(0) }))
    }

    /// Whose turn it is; `None` where there is no replica at all.
    fn next(&self) -> Option<Shared> {
        let turn = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.0.all.get(turn % self.0.all.len().max(1)).cloned()
    }
}
