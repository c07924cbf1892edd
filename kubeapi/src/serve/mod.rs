//! Serves HTTP/1.1 and HTTP/2 on a TCP socket, over TLS where there is a certificate, with limits and a graceful shutdown.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use ::limits::{ConnectionLimiter, ConnectionSlot, Repeated};
use clock::Instant;
use http::{Request, Response};
use hyper::body::Incoming;
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Service;

use self::{connection::Deps, share::Shares};
use crate::{Body, streams::Tasks};

mod body;
mod connection;
mod handler;
mod limits;
mod peer;
mod share;
mod tracked;

pub use self::{
    handler::{Handler, HandlerService},
    limits::{ClientLimits, ServerLimits},
    peer::{PeerAddress, PeerCertificate, certificate_identity},
};

/// The pause after a failed accept: without it, a process out of file descriptors would do nothing else.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The port is in use.
    #[error(
        "{address} is in use by another program; stop that program, or choose another port (0 picks a free one)"
    )]
    InUse {
        /// The address to listen at.
        address: SocketAddr,
    },
    /// Listening is refused for another reason.
    #[error(
        "cannot listen on {address}; check that the address is this machine's and the port above 1023 or allowed"
    )]
    Refused {
        /// The address to listen at.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

impl BindError {
    /// Converts the system's error for this address.
    pub fn new(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { address },
            _ => Self::Refused { address, source },
        }
    }
}

/// The TLS configuration for new connections.
type Keys = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// The protocols that a server speaks over TLS, for configurations of [`Server::bind_changing`].
pub const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A service on a socket.
pub struct Server<S> {
    listener: TcpListener,
    tls: Option<Keys>,
    address: SocketAddr,
    limits: ServerLimits,
    service: S,
}

impl<S> std::fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl<S> Server<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
{
    /// Listens at `address`, port 0 for any. Clients whose certificate `tls` verified get their [`Identity`](crate::Identity) into the
    /// extensions of their requests.
    pub async fn bind(
        address: SocketAddr,
        tls: Option<ServerConfig>,
        service: S,
    ) -> Result<Self, BindError> {
        let tls = tls.map(|mut tls| -> Keys {
            tls.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
            let tls = Arc::new(tls);
            Arc::new(move || tls.clone())
        });
        Self::listen(address, tls, service).await
    }

    /// Listens over TLS with keys that may change: `tls` is called for each new connection. Its configurations should offer [`ALPN`].
    pub async fn bind_changing(
        address: SocketAddr,
        tls: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static,
        service: S,
    ) -> Result<Self, BindError> {
        Self::listen(address, Some(Arc::new(tls)), service).await
    }

    /// Serves over TLS on a listening socket.
    ///
    /// # Errors
    /// The socket's address cannot be read.
    pub fn on(listener: TcpListener, mut tls: ServerConfig, service: S) -> io::Result<Self> {
        tls.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
        let (address, tls) = (listener.local_addr()?, Arc::new(tls));
        let tls: Keys = Arc::new(move || tls.clone());
        Ok(Self {
            listener,
            tls: Some(tls),
            address,
            limits: ServerLimits::default(),
            service,
        })
    }

    async fn listen(address: SocketAddr, tls: Option<Keys>, service: S) -> Result<Self, BindError> {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| BindError::new(address, source))?;
        let address = listener
            .local_addr()
            .map_err(|source| BindError::Refused { address, source })?;
        Ok(Self {
            listener,
            tls,
            address,
            limits: ServerLimits::default(),
            service,
        })
    }

    /// Sets other limits than the default ones.
    #[must_use]
    pub fn limits(self, limits: ServerLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the address that it listens at.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let tracker = TaskTracker::new();
        let limiter = ConnectionLimiter::new(self.limits.connections);
        let mut refusals = Repeated::default();
        let deps = Deps {
            service: self.service,
            limits: self.limits,
            shares: Shares::new(self.limits),
            tasks: Tasks::new(shutdown.clone(), tracker.clone()),
        };
        loop {
            let accepted = clock::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = accept(&self.listener, &limiter, &mut refusals) => accepted,
            };
            let Some((stream, peer, slot)) = accepted else {
                continue;
            };
            let tls = self.tls.as_ref().map(|tls| TlsAcceptor::from(tls()));
            tracker.spawn(connection::serve(stream, peer, slot, tls, deps.clone()));
        }
        tracker.close();
        // what did not end by itself is cut off with the runtime's tasks
        let _ = timeout(connection::DRAIN_TIMEOUT * 2, tracker.wait()).await;
    }
}

async fn accept(
    listener: &TcpListener,
    limiter: &ConnectionLimiter,
    refusals: &mut Repeated,
) -> Option<(TcpStream, SocketAddr, ConnectionSlot)> {
    match listener.accept().await {
        Ok((stream, peer)) => match limiter.accept(Some(peer)) {
            Ok(slot) => Some((stream, peer, slot)),
            Err(full) => {
                if let Some(times) =
                    refusals.count(&format!("{}: {full}", peer.ip()), Instant::now())
                {
                    tracing::warn!(%peer, times, limit = %full, "connection closed: limit reached");
                }
                None
            }
        },
        Err(error) => {
            // out of file descriptors, most likely: turning at full speed would not bring any
            if let Some(times) = refusals.count(&error.to_string(), Instant::now()) {
                tracing::warn!(
                    times,
                    error = &error as &dyn std::error::Error,
                    "failed to accept connection; retrying"
                );
            }
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}
