//! Accepts nodes that were authenticated elsewhere, as in a simulation, which hands in its own connections. Their sessions are those of
//! [`super::Hub`].

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::io::DuplexStream;
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};
use tokio_util::sync::CancellationToken;

use super::{
    Limits, Shared,
    accept::accept_node,
    link::Connected,
    transport,
    upgrade::{Stream, websocket_limits},
};
use crate::{
    controllers::{
        device::Devices, dispatcher::Controllers, dynamic::Dynamic, edge::Edge, sync::SyncRecords,
    },
    faults::{Certificate, Faults},
    listeners::Refusals,
    mailbox::Mailboxes,
    sessions::{SessionRequest, Sessions, Transport},
};

/// The placeholder address of handed-in connections.
const UNKNOWN_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Accepts connections that are handed in; cheap to clone.
#[derive(Clone)]
pub struct Acceptor(Arc<Shared>);

impl Acceptor {
    /// Creates a hub without servers.
    pub fn new(
        (edge, dynamic, devices): (Edge, Dynamic, Devices),
        records: SyncRecords,
        mailboxes: Mailboxes,
        limits: Limits,
    ) -> Self {
        let (sessions, faults) = (Sessions::default(), Faults::new(0));
        Self(Arc::new(Shared {
            number: 0,
            controllers: Controllers {
                edge,
                dynamic,
                devices,
                rules: None,
                node_jobs: None,
            },
            records,
            mailboxes,
            limits,
            faults,
            sessions,
            refusals: Refusals::default(),
            trust: None,
        }))
    }

    /// Runs the session of `node` over an established WebSocket connection; returns when it has ended.
    pub async fn accept_node(
        &self,
        node: &str,
        connection: DuplexStream,
        shutdown: &CancellationToken,
    ) {
        let limits = &self.0.limits;
        let stream: Box<dyn Stream> = Box::new(connection);
        let socket =
            WebSocketStream::from_raw_socket(stream, Role::Server, Some(websocket_limits(limits)))
                .await;
        let (incoming, outgoing) = transport::websocket(socket, limits.max_message, false);
        let (node, sequence) = (node.to_owned(), self.0.sessions.next_sequence());
        let session_request = SessionRequest {
            node,
            sequence,
            address: UNKNOWN_ADDRESS,
            transport: Transport::WebSocket,
            replica: self.0.number,
            instance: None,
            new_certificate: None,
            certificate: None,
        };
        let connected = Connected {
            incoming,
            outgoing,
            mute: None,
        };
        let helpers = accept_node(
            session_request,
            connected,
            Certificate::Genuine,
            &self.0,
            shutdown,
        )
        .await;
        if let Some(helpers) = helpers {
            helpers.finish().await;
        }
    }
}

#[cfg(test)]
mod tests;
