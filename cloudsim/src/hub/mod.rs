//! CloudHub: the door for nodes. WebSocket over mutual TLS, or QUIC; one session a node; the acknowledged lane.
//!
//! A node is who its certificate says, and its `Node_id` header must say the same.

mod clerks;
mod door;
pub mod lane;
mod listener;
mod quic;
mod session;
mod transport;
mod upgrade;

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use self::{
    door::Door,
    listener::{BindError, Hub},
    quic::QuicBindError,
};
use crate::{
    controllers::{device::Devices, dynamic::Dynamic, edge::Edge, sync::SyncRecords},
    mailbox::Mailboxes,
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
        }
    }
}

/// What every session shares.
#[derive(Clone)]
struct Shared {
    edge: Edge,
    dynamic: Dynamic,
    devices: Devices,
    records: SyncRecords,
    mailboxes: Mailboxes,
    limits: Limits,
    sessions: Sessions,
}

/// The running sessions: a newer one of the same node ends the older, and never the other way round.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<HashMap<String, CancellationToken>>>);

impl Sessions {
    /// Registers a session and ends the node's older one. `None`: there are too many.
    fn begin(&self, node: &str, limit: usize, parent: &CancellationToken) -> Option<CancellationToken> {
        let mut sessions = self.0.lock();
        sessions.retain(|_, token| !token.is_cancelled());
        if sessions.len() >= limit && !sessions.contains_key(node) {
            return None;
        }
        let token = parent.child_token();
        if let Some(older) = sessions.insert(node.to_owned(), token.clone()) {
            older.cancel();
        }
        Some(token)
    }
}
