//! Other replicas of this cloud: to which of them a node is connected, and the connections through which requests for its nodes are
//! forwarded to it.
//!
//! In: the nodes of each replica, as it records them ([`PeerNodes`]). Out: HTTP/1.1 over TLS to the replica that has the node. Both ends
//! present a certificate of a CA that only replicas have. A replica answers forwarded requests for its own nodes alone, so no request is
//! forwarded twice. Streams of the relay take QUIC instead: `relay::replicas`.

mod exchange;
mod forward;
mod table;
mod tls;

use std::net::{IpAddr, SocketAddr};

pub(crate) use self::{
    exchange::exchange,
    forward::{ATTEMPTS, PeerError, Peers, ReadPeers},
    table::{Connection, ConnectionRecord, PeerNodes},
    tls::{NAME as PEER_NAME, PeerTls},
};

/// The path of forwarded requests to kubelets, before the node's name and the kubelet's path.
pub(crate) const STREAMS_PATH: &str = "/streams/";
/// The path of forwarded calls by rules, before that of the router.
pub(crate) const CALLS_PATH: &str = "/calls";
/// The header with the address of the client of a forwarded call.
pub(crate) const CLIENT_HEADER: &str = "cloudsim-client";

/// How other replicas reach this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerOptions {
    /// The port; 0 for any free one.
    pub port: u16,
    /// The address of this replica, as others dial it.
    pub address: IpAddr,
}

/// Where other replicas reach this one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    /// The server of forwarded requests.
    pub(crate) requests: Option<SocketAddr>,
    /// The relay, UDP.
    pub(crate) relay: Option<SocketAddr>,
}
