//! A node that asks for a session.

use std::net::SocketAddr;

use wire::instance::Instance;

use super::node_session::Carrier;

/// When a node asked for its session, as a number: a later one is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(super) u64);

/// Who comes, from where and over what.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// The node.
    pub(crate) node: String,
    /// When it asked.
    pub(crate) ticket: Ticket,
    /// From where.
    pub(crate) address: SocketAddr,
    /// Over what.
    pub(crate) transport: Carrier,
    /// The replica of the hub that serves it, from 0 on.
    pub(crate) replica: usize,
    /// Which run of an agent it is, where it says so.
    pub(crate) instance: Option<Instance>,
    /// The certificate that it was given for a token, where it has not come with it before.
    pub(crate) begins: Option<Vec<u8>>,
    /// The certificate that it shows.
    pub(crate) certificate: Option<Vec<u8>>,
}

impl Arrival {
    /// From where, and which run, for people.
    pub(super) fn place(&self) -> String {
        let started = self.instance.as_ref().map(|instance| format!(", started {}", instance.started()));
        format!("{}{}", self.address, started.unwrap_or_default())
    }
}

/// Why there is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There are as many as are allowed.
    TooMany,
    /// The node has asked for another one since.
    Overtaken,
}
