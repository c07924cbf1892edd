//! Accepting nodes: the socket, TLS, the upgrade; then the session runs on its own.

use std::{net::SocketAddr, sync::Arc};

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use super::{
    Limits, Sessions, Shared,
    quic::{QuicBindError, QuicHub},
    session, transport, upgrade,
};
use crate::{
    controllers::{device::Devices, dynamic::Dynamic, edge::Edge, sync::SyncRecords},
    mailbox::Mailboxes,
};

/// Why the hub cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The port is taken, or not allowed.
    #[error(
        "CloudHub cannot listen on {address}: {source}; end the program that has the port, or choose another with --ws-port (0 picks a free one)"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
}

/// A bound hub.
pub struct Hub {
    listener: TcpListener,
    address: SocketAddr,
    tls: TlsAcceptor,
    quic: Option<QuicHub>,
    shared: Shared,
}

impl Hub {
    /// Listens on `address`; nodes are served from [`Hub::run`] on. `tls` must demand client certificates.
    pub async fn bind(
        address: SocketAddr,
        tls: ServerConfig,
        (edge, dynamic, devices): (Edge, Dynamic, Devices),
        records: SyncRecords,
        mailboxes: Mailboxes,
        limits: Limits,
    ) -> Result<Self, BindError> {
        let failed = |source| BindError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let tls = TlsAcceptor::from(Arc::new(tls));
        Ok(Self {
            listener,
            address,
            tls,
            quic: None,
            shared: Shared {
                edge,
                dynamic,
                devices,
                records,
                mailboxes,
                limits,
                sessions: Sessions::default(),
            },
        })
    }

    /// Listens for QUIC, too; where. `tls` must demand client certificates.
    pub fn bind_quic(&mut self, address: SocketAddr, tls: ServerConfig) -> Result<SocketAddr, QuicBindError> {
        let quic = QuicHub::bind(address, tls)?;
        let address = quic.local_addr();
        self.quic = Some(quic);
        Ok(address)
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`; sessions are told and waited for.
    pub async fn run(self, shutdown: CancellationToken) {
        let sessions = TaskTracker::new();
        if let Some(quic) = self.quic {
            sessions.spawn(quic.run(self.shared.clone(), sessions.clone(), shutdown.clone()));
        }
        loop {
            let accepted = tokio::select! {
                // cancel-safe: both arms hold no data
                () = shutdown.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let serving =
                        serve(stream, peer, self.tls.clone(), self.shared.clone(), shutdown.clone());
                    sessions.spawn(serving);
                }
                Err(error) => {
                    warn!(error = &error as &dyn std::error::Error, "a connection could not be accepted")
                }
            }
        }
        sessions.close();
        sessions.wait().await;
    }
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    tls: TlsAcceptor,
    shared: Shared,
    shutdown: CancellationToken,
) {
    let limit = shared.limits.handshake;
    let upgraded = tokio::select! {
        // cancel-safe: a half-made connection is simply closed
        () = shutdown.cancelled() => return,
        upgraded = tokio::time::timeout(limit, upgrade::upgrade(stream, tls, &shared.limits)) => upgraded,
    };
    let (node, socket) = match upgraded {
        Ok(Ok(upgraded)) => upgraded,
        Ok(Err(error)) => {
            return warn!(%peer, error = &error as &dyn std::error::Error, "a connection was refused");
        }
        Err(_) => return debug!(%peer, "a connection made no upgrade in time"),
    };
    let ends = transport::websocket(socket, shared.limits.max_message);
    attend(&node, peer, ends, &shared, &shutdown).await;
}

/// Runs the session of a node that has shown who it is.
pub(super) async fn attend(
    node: &str,
    peer: SocketAddr,
    ends: (transport::Reader, transport::Writer),
    shared: &Shared,
    shutdown: &CancellationToken,
) {
    let Some(token) = shared.sessions.begin(node, shared.limits.nodes, shutdown) else {
        return warn!(node, limit = shared.limits.nodes, "too many nodes: the connection was refused");
    };
    info!(node, %peer, "connected");
    let ended = session::run(node, ends, shared, token.clone()).await;
    // marks the registration as over, for whoever counts sessions
    token.cancel();
    info!(node, reason = %ended, "disconnected");
}
