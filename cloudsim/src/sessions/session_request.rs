//! A node's request for a session.

use std::net::SocketAddr;

use wire::instance::Instance;

use super::node_session::Transport;

/// The order in which nodes asked for sessions; a later request has a larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestSequence(pub(super) u64);

/// A node that asks for a session, with its address and transport.
#[derive(Clone, Debug)]
pub(crate) struct SessionRequest {
    /// The name of the node.
    pub(crate) node: String,
    /// The order of the request.
    pub(crate) sequence: RequestSequence,
    /// The address from which it connects.
    pub(crate) address: SocketAddr,
    /// The transport of the connection.
    pub(crate) transport: Transport,
    /// The replica of the hub that serves it, counted from 0.
    pub(crate) replica: usize,
    /// The run of the agent, if the agent sends it.
    pub(crate) instance: Option<Instance>,
    /// The certificate (DER) that a join token gave it and with which it connects for the first time.
    pub(crate) new_certificate: Option<Vec<u8>>,
    /// The certificate that it shows, DER.
    pub(crate) certificate: Option<Vec<u8>>,
}

impl SessionRequest {
    /// Describes the address and run of the agent in messages.
    pub(super) fn describe(&self) -> String {
        let started = self
            .instance
            .as_ref()
            .map(|instance| format!(", started {}", instance.start_time()));
        format!("{}{}", self.address, started.unwrap_or_default())
    }
}

/// The reason why a node gets no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionRefusal {
    /// The hub has its maximum of sessions.
    TooMany,
    /// The node has asked for another session since.
    Superseded,
}
