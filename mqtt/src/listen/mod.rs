//! Listeners: from a port to connections.

mod connection;
mod tls;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use limits::{ConnectionLimiter, ConnectionLimits, ConnectionSlot, Repeated};
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Limits, Listener},
    core::Command,
    counters::Counters,
    error::Error,
};

/// A pause after a failed accept: without it a process out of file descriptors would do nothing else.
const PAUSE: Duration = Duration::from_millis(50);

/// What connections share.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionContext {
    limits: Arc<Limits>,
    counters: Arc<Counters>,
    commands: mpsc::Sender<Command>,
    connections: ConnectionLimiter,
    /// What is told of connections that cannot be had.
    faults: Arc<Mutex<Repeated>>,
    ids: Arc<AtomicU64>,
}

impl ConnectionContext {
    /// For connections to the broker that takes `commands`.
    pub(crate) fn new(limits: Limits, counters: Arc<Counters>, commands: mpsc::Sender<Command>) -> Self {
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

    /// Tells of a fault, unless it was told just now.
    fn warn(&self, what: &str) {
        if let Some(times) = self.faults.lock().count(what, Instant::now()) {
            tracing::warn!(times, "a connection is closed: {what}");
        }
    }
}

/// A bound port.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Where it is.
    pub(crate) address: SocketAddr,
    listener: TcpListener,
    tls: Option<Acceptor>,
}

/// TLS; its contents are nobody's business.
#[derive(Clone)]
struct Acceptor(TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

impl Listening {
    /// Reads the certificates and binds the port.
    pub(crate) async fn bind(listener: &Listener) -> Result<Self, Error> {
        let tls = listener.tls.as_ref().map(tls::acceptor).transpose()?.map(Acceptor);
        let failed = |source| Error::Listen { address: listener.address, source };
        let bound = TcpListener::bind(listener.address).await.map_err(failed)?;
        let address = bound.local_addr().map_err(failed)?;
        Ok(Self { address, listener: bound, tls })
    }

    /// Accepts until `stop` is cancelled, then waits for its connections.
    pub(crate) async fn accept(self, context: ConnectionContext, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        loop {
            // Cancel-safe: a connection that was not accepted stays with the system.
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => match context.connections.accept(Some(peer)) {
                    Ok(slot) => {
                        let from = From { peer: peer.ip().to_canonical(), slot };
                        drop(connections.spawn(serve(context.clone(), self.tls.clone(), stream, from)))
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

/// Whose a connection is, and its place.
#[derive(Debug)]
struct From {
    peer: IpAddr,
    slot: ConnectionSlot,
}

/// One connection from its first byte to its last.
async fn serve(context: ConnectionContext, tls: Option<Acceptor>, stream: TcpStream, from: From) {
    // Without it the connection works as well, a little slower.
    let _ = stream.set_nodelay(true);
    let id = context.ids.fetch_add(1, Ordering::Relaxed);
    let Some(tls) = tls else {
        let (reader, writer) = stream.into_split();
        return connection::run(&context, (id, from), None, reader, writer).await;
    };
    let accepted = tokio::select! {
        // Cancel-safe: a half-made connection is simply closed.
        () = from.slot.evicted() => return tracing::debug!("a TLS handshake made room for others"),
        accepted = timeout(context.limits.connect_timeout, tls.0.accept(stream)) => accepted,
    };
    match accepted {
        Ok(Ok(stream)) => {
            let name = tls::common_name(stream.get_ref().1);
            let (reader, writer) = tokio::io::split(stream);
            connection::run(&context, (id, from), name, reader, writer).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake took too long"),
    }
}
