//! A node's session as the administrators' API and `cloudsim nodes` show it.

use std::net::SocketAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The transport of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// WebSocket over TLS.
    WebSocket,
    /// QUIC, RFC 9000.
    #[serde(rename = "QUIC")]
    Quic,
}

impl From<Transport> for record::Transport {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::WebSocket => Self::WebSocket,
            Transport::Quic => Self::Quic,
        }
    }
}

/// A node's session, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSession {
    /// The name of the node.
    pub node: String,
    /// When the session began.
    pub since: Timestamp,
    /// The address from which the node is connected.
    pub address: SocketAddr,
    /// The transport of the connection.
    pub transport: Transport,
    /// The replica of the hub that serves it, counted from 1.
    pub replica: usize,
    /// Objects and messages that wait to be sent.
    pub queue: u64,
    /// Messages and bytes sent to the node.
    pub sent: Count,
    /// Messages and bytes received from the node.
    pub received: Count,
    /// Since when the node has a stream tunnel, to any replica.
    #[serde(default)]
    pub tunnel: Option<Timestamp>,
    /// When the agent started, if it sends that; EdgeCore does not.
    #[serde(default)]
    pub started: Option<String>,
    /// Another agent of the same name that was refused a session.
    #[serde(default)]
    pub rival: Option<DuplicateAgent>,
}

/// A number of messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The number of messages.
    pub messages: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

/// A second agent of a node's name, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DuplicateAgent {
    /// The address of its last request.
    pub address: SocketAddr,
    /// When it started, as it reports.
    pub started: String,
    /// How often it was refused.
    pub refused: u64,
    /// When it was refused last.
    pub last: Timestamp,
}

/// The sessions at all replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedSessions {
    /// The sessions by node; the newest if two replicas have one of a node.
    pub sessions: Vec<NodeSession>,
    /// Whether they are all: no replica runs, or one has just started and its nodes may not be back, if this is false.
    pub is_complete: bool,
}
