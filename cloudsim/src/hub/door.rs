//! The door for nodes that have shown who they are elsewhere: a simulation hands in its own connections. The sessions behind
//! it are those of [`super::Hub`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::io::DuplexStream;
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};
use tokio_util::sync::CancellationToken;

use super::{
    Limits, Sessions, Shared,
    listener::attend,
    transport,
    upgrade::{Stream, websocket_limits},
};
use crate::{
    controllers::{device::Devices, dynamic::Dynamic, edge::Edge, sync::SyncRecords},
    mailbox::Mailboxes,
};

/// Where handed-in connections are said to come from.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The door; cheap to clone.
#[derive(Clone)]
pub struct Door(Shared);

impl Door {
    /// A hub without servers.
    pub fn new(
        (edge, dynamic, devices): (Edge, Dynamic, Devices),
        records: SyncRecords,
        mailboxes: Mailboxes,
        limits: Limits,
    ) -> Self {
        Self(Shared { edge, dynamic, devices, records, mailboxes, limits, sessions: Sessions::default() })
    }

    /// Runs the session of `node` over a connection on which both ends speak WebSocket already; returns when it has ended.
    pub async fn attend(&self, node: &str, connection: DuplexStream, shutdown: &CancellationToken) {
        let limits = &self.0.limits;
        let stream: Box<dyn Stream> = Box::new(connection);
        let socket =
            WebSocketStream::from_raw_socket(stream, Role::Server, Some(websocket_limits(limits))).await;
        let ends = transport::websocket(socket, limits.max_message);
        attend(node, NOWHERE, ends, &self.0, shutdown).await;
    }
}
