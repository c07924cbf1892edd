//! Listeners, which accept connections on a port.

mod connection;
mod tls;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use clock::Instant;
use limits::{ConnectionLimiter, ConnectionLimits, ConnectionSlot, Repeated, set_keepalive};
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    config::{Limits, Listener},
    core::Command,
    counters::Counters,
    error::Error,
};

/// The pause after a failed accept, so that a process without free file descriptors does not spin.
const PAUSE: Duration = Duration::from_millis(50);

/// What all connections share.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionContext {
    limits: Arc<Limits>,
    counters: Arc<Counters>,
    commands: mpsc::Sender<Command>,
    connections: ConnectionLimiter,
    /// Limits the log lines about connections that cannot be accepted.
    faults: Arc<Mutex<Repeated>>,
    ids: Arc<AtomicU64>,
}

impl ConnectionContext {
    /// Creates the context of connections to the broker that receives `commands`.
    pub(crate) fn new(
        limits: Limits,
        counters: Arc<Counters>,
        commands: mpsc::Sender<Command>,
    ) -> Self {
        let connections = ConnectionLimiter::new(ConnectionLimits {
            established: limits.connections,
            reserved: 0,
            pending: limits.pending_connections,
            per_address: limits.connections_per_address,
        });
        Self {
            limits: Arc::new(limits),
            counters,
            commands,
            connections,
            faults: Arc::default(),
            ids: Arc::new(AtomicU64::new(1)),
        }
    }

    /// Logs a fault, unless it was logged just before.
    fn warn(&self, what: &str) {
        if let Some(times) = self.faults.lock().count(what, Instant::now()) {
            tracing::warn!(times, reason = what, "connection closed");
        }
    }
}

/// A bound port.
#[derive(Debug)]
pub(crate) struct Listening {
    /// The address that it is bound to.
    pub(crate) address: SocketAddr,
    listener: TcpListener,
    tls: Option<Acceptor>,
}

/// A TLS acceptor whose `Debug` text shows none of its contents.
#[derive(Clone)]
struct Acceptor(TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

impl Listening {
    /// Loads the certificates and binds the port.
    pub(crate) async fn bind(listener: &Listener) -> Result<Self, Error> {
        let tls = listener
            .tls
            .as_ref()
            .map(tls::acceptor)
            .transpose()?
            .map(Acceptor);
        let failed = |source| Error::Listen {
            address: listener.address,
            source,
        };
        let bound = TcpListener::bind(listener.address).await.map_err(failed)?;
        let address = bound.local_addr().map_err(failed)?;
        Ok(Self {
            address,
            listener: bound,
            tls,
        })
    }

    /// Accepts connections until `stop` is cancelled, then waits for them to end.
    pub(crate) async fn accept(self, context: ConnectionContext, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        loop {
            // cancel-safe: the system keeps a connection that was not accepted.
            let accepted = clock::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => match context.connections.accept(Some(peer)) {
                    Ok(slot) => {
                        let from = From {
                            peer: peer.ip().to_canonical(),
                            slot,
                        };
                        drop(
                            connections.spawn(
                                serve(context.clone(), self.tls.clone(), stream, from)
                                    .in_current_span(),
                            ),
                        )
                    }
                    Err(full) => {
                        Counters::count(&context.counters.refused);
                        context.warn(&format!("{}: {full}", peer.ip()));
                    }
                },
                Err(error) => {
                    context.warn(&format!("it cannot be accepted: {error}"));
                    sleep(PAUSE).await;
                }
            }
        }
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }
}

/// The peer of a connection and its slot.
#[derive(Debug)]
struct From {
    peer: IpAddr,
    slot: ConnectionSlot,
}

/// Serves one connection from its first byte to its last.
async fn serve(context: ConnectionContext, tls: Option<Acceptor>, stream: TcpStream, from: From) {
    // If this fails, the connection works too, only a little slower, and a client without keep-alive that has vanished is noticed later.
    let _ = stream
        .set_nodelay(true)
        .and_then(|()| set_keepalive(&stream));
    let id = context.ids.fetch_add(1, Ordering::Relaxed);
    let Some(tls) = tls else {
        let (reader, writer) = stream.into_split();
        return connection::run(&context, id, from, None, reader, writer).await;
    };
    let accepted = clock::select! {
        // cancel-safe: an unfinished handshake is simply closed.
        () = from.slot.wait_evicted() => return tracing::debug!("TLS handshake evicted: limit reached"),
        accepted = timeout(context.limits.connect_timeout, tls.0.accept(stream)) => accepted,
    };
    match accepted {
        Ok(Ok(stream)) => {
            let name = tls::common_name(stream.get_ref().1);
            let (reader, writer) = tokio::io::split(stream);
            connection::run(&context, id, from, name, reader, writer).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}
