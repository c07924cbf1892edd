//! A node's session as the API of administrators and `cloudsim nodes` show it.

use std::net::SocketAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

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

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// How many.
    pub messages: u64,
    /// Their sizes together.
    pub bytes: u64,
}

/// A second agent of a node's name, as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rival {
    /// From where it asked last.
    pub address: SocketAddr,
    /// When it started, as it says.
    pub started: String,
    /// How often it was refused.
    pub refused: u64,
    /// When it was refused last.
    pub last: Timestamp,
}
