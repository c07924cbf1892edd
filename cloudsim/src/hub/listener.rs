//! Accepting nodes: socket, TLS and upgrade; then the session runs in a task of its own.

use std::{net::SocketAddr, sync::Arc};

use futures::future::{Either, OptionFuture};
use limits::{ConnectionLimits, ConnectionSlot};
use rustls::ServerConfig;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{
    Limits, Replica, Replicas, Shared,
    accept::accept_node,
    link::Connected,
    quic::{QuicBindError, QuicHub},
    transport,
    upgrade::{Upgraded, accept_local, accept_tls, upgrade},
};
use crate::{
    faults::{Certificate, Faults},
    listeners::{
        LOCAL_ADDRESS, LimitedListener, LocalConnector, NodeConnection, NodeListener, Refusals,
    },
    pki::Trust,
    sessions::{RefusalReason, SessionRequest, Sessions, Transport},
};

/// The hub cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The port is in use, or not allowed.
    #[error(
        "CloudHub cannot listen on {address}: {source}; stop the program that uses the port, or choose another with --ws-port (0 picks \
         a free one)"
    )]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
}

/// A hub with a bound socket.
pub struct Hub {
    listener: NodeListener,
    trust: Trust,
    quic: Option<QuicHub>,
    replicas: Replicas,
    sessions: Sessions,
    connections: ConnectionLimits,
    refusals: Refusals,
}

impl Hub {
    /// Binds `address` for all replicas; nodes are served once [`Hub::run`] is called. `trust` has the keys; sessions are registered in
    /// `sessions`.
    pub async fn bind(
        address: SocketAddr,
        trust: Trust,
        replicas: Vec<Replica>,
        limits: Limits,
        faults: &Faults,
        sessions: Sessions,
    ) -> Result<Self, BindError> {
        let (connections, refusals) = (limits.connections, Refusals::default());
        let listener =
            LimitedListener::bind("CloudHub", address, connections, refusals.clone()).await;
        let listener = listener.map_err(|source| BindError::Listen { address, source })?;
        let replicas = Replicas::new(replicas, &limits, faults, &sessions, &trust, &refusals);
        Ok(Self {
            listener: NodeListener::new(listener),
            trust,
            quic: None,
            replicas,
            sessions,
            connections,
            refusals,
        })
    }

    /// Binds a QUIC socket, too, and returns its address.
    pub fn bind_quic(&mut self, address: SocketAddr) -> Result<SocketAddr, QuicBindError> {
        let quic = QuicHub::bind(
            address,
            self.trust.clone(),
            self.connections,
            self.refusals.clone(),
        )?;
        let address = quic.local_addr();
        self.quic = Some(quic);
        Ok(address)
    }

    /// Returns the address of the listener.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Returns the connector for nodes of this process.
    pub(crate) fn connector(&self) -> LocalConnector {
        self.listener.connector()
    }

    /// Serves until `shutdown`; then closes the sessions and waits for them.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let tasks = TaskTracker::new();
        // if one of the two listeners ends, the hub ends as a whole: it would look as if it worked
        let ended = shutdown.child_token();
        let quic = self.quic.take().map(|quic| {
            let (quic, ended) = (
                quic.run(self.replicas.clone(), tasks.clone(), ended.clone()),
                ended.clone(),
            );
            async move {
                quic.await;
                ended.cancel();
            }
        });
        tokio::join!(self.accept(&tasks, &ended), OptionFuture::from(quic));
        tasks.close();
        tasks.wait().await;
    }

    async fn accept(&mut self, tasks: &TaskTracker, shutdown: &CancellationToken) {
        loop {
            let accepted = clock::select! {
                // cancel-safe: both arms hold no data
                () = shutdown.cancelled() => break,
                // cancel-safe: a change that is not seen stays
                () = self.trust.changed() => {
                    self.sessions.end_all();
                    continue;
                }
                // cancel-safe: what is not accepted is kept
                connection = self.listener.accept() => connection,
            };
            let Some(shared) = self.replicas.next() else {
                continue;
            };
            let keys = (shared.faults.certificate_fault(), self.trust.hub());
            tasks.spawn(serve(accepted, keys, shared, shutdown.clone()));
        }
    }
}

async fn serve(
    accepted: NodeConnection,
    (shown, tls): (Certificate, Arc<ServerConfig>),
    shared: Arc<Shared>,
    shutdown: CancellationToken,
) {
    let limit = shared.limits.handshake;
    let (peer, slot, connecting) = match accepted {
        NodeConnection::Tcp(stream, peer, slot) => {
            let connecting = accept_tls(stream, TlsAcceptor::from(tls));
            (peer, Some(slot), Either::Left(connecting))
        }
        NodeConnection::Local(connection) => {
            let connecting = std::future::ready(accept_local(connection));
            (LOCAL_ADDRESS, None, Either::Right(connecting))
        }
    };
    let evicted = OptionFuture::from(slot.as_ref().map(ConnectionSlot::wait_evicted));
    let upgrading = async { upgrade(connecting.await?, &shared).await };
    let upgraded = clock::select! {
        // cancel-safe: a half-made connection is simply closed
        () = shutdown.cancelled() => return,
        Some(()) = evicted => return debug!(%peer, "connection without a session evicted: limit reached"),
        upgraded = Box::pin(timeout(limit, upgrading)) => upgraded,
    };
    let Upgraded {
        node,
        sequence,
        instance,
        new_certificate,
        certificate,
        socket,
        compressed,
    } = match upgraded {
        Ok(Ok(upgraded)) => upgraded,
        Ok(Err(error)) if error.is_of_no_node() => {
            return debug!(%peer, "connection without a certificate closed");
        }
        Ok(Err(error)) => {
            shared
                .sessions
                .metrics()
                .count_refused(RefusalReason::Connection);
            if let Some(times) = shared
                .refusals
                .count(peer.ip(), &error, clock::Instant::now())
            {
                let error = &error as &dyn std::error::Error;
                warn!(%peer, times, error, "CloudHub connection rejected");
            }
            return;
        }
        Err(_) => return debug!(%peer, "upgrade of a connection timed out"),
    };
    // from here on it has a session, whose number is limited
    let Ok(active) = slot.as_ref().map(|slot| slot.begin(false)).transpose() else {
        return;
    };
    let (incoming, outgoing) = transport::websocket(socket, shared.limits.max_message, compressed);
    let transport = Transport::WebSocket;
    let session_request = SessionRequest {
        node,
        sequence,
        address: peer,
        transport,
        replica: shared.number,
        instance,
        new_certificate,
        certificate: Some(certificate),
    };
    let connected = Connected {
        incoming,
        outgoing,
        mute: None,
    };
    let helpers = accept_node(session_request, connected, shown, &shared, &shutdown).await;
    drop((active, slot));
    if let Some(helpers) = helpers {
        helpers.finish().await;
    }
}
