//! A service on a TCP socket, over TLS where it has a certificate: HTTP/1.1 and HTTP/2, within limits, ending gracefully.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::{Service, util::MapRequest};

use crate::{Body, Identity};

mod peer;

/// How many connections a server holds at a time; more wait in the kernel's queue.
const CONNECTIONS: usize = 2048;

/// How long a client may take for its handshake, and for the answer to a probe.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an HTTP/1.1 connection may stay without a next request. Longer than clients keep theirs, or they would send into
/// connections that are just being closed.
const IDLE: Duration = Duration::from_secs(120);

/// How often an HTTP/2 client is asked whether it is still there: one that vanished would hold its watches for ever.
const PROBE_EVERY: Duration = Duration::from_secs(30);

/// How long connections may finish what they are at when the server ends; watches would go on for ever.
const FAREWELL: Duration = Duration::from_millis(500);

/// The largest head of a request, in bytes.
const HEAD_LIMIT: usize = 64 * 1024;

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The port is taken.
    #[error(
        "{address} is in use by another program; stop that one, or choose another port (0 takes any that is free)"
    )]
    InUse {
        /// What was asked for.
        address: SocketAddr,
    },
    /// Listening is refused for another reason.
    #[error(
        "cannot listen on {address}; check that the address is this machine's and the port above 1023 or allowed"
    )]
    Refused {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// The client's certificate (DER) that TLS verified, in the extensions of a request beside the [`Identity`].
#[derive(Clone, Debug)]
pub struct PeerCertificate(pub Arc<[u8]>);

/// What a server shows and demands of a connection that begins now.
type Keys = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// The protocols that a server speaks over TLS, for configurations of [`Server::bind_changing`].
pub const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A service on a socket.
pub struct Server<S> {
    listener: TcpListener,
    tls: Option<Keys>,
    address: SocketAddr,
    service: S,
}

impl<S> std::fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
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
    /// Listens at `address`, port 0 for any. Clients whose certificate `tls` verified get their [`Identity`] into the
    /// extensions of their requests.
    pub async fn bind(address: SocketAddr, tls: Option<ServerConfig>, service: S) -> Result<Self, BindError> {
        let tls = tls.map(|mut tls| -> Keys {
            tls.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
            let tls = Arc::new(tls);
            Arc::new(move || tls.clone())
        });
        Self::listen(address, tls, service).await
    }

    /// The same over TLS, with keys that may change: `tls` is asked at the beginning of each connection. What it gives should
    /// offer [`ALPN`].
    pub async fn bind_changing(
        address: SocketAddr,
        tls: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static,
        service: S,
    ) -> Result<Self, BindError> {
        Self::listen(address, Some(Arc::new(tls)), service).await
    }

    async fn listen(address: SocketAddr, tls: Option<Keys>, service: S) -> Result<Self, BindError> {
        let listener = TcpListener::bind(address).await.map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse { address },
            _ => BindError::Refused { address, source },
        })?;
        let address = listener.local_addr().map_err(|source| BindError::Refused { address, source })?;
        Ok(Self { listener, tls, address, service })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let tracker = TaskTracker::new();
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = accept(&self.listener, &places) => accepted,
            };
            let Some((stream, place)) = accepted else { continue };
            let tls = self.tls.as_ref().map(|tls| TlsAcceptor::from(tls()));
            let (service, shutdown) = (self.service.clone(), shutdown.clone());
            tracker.spawn(async move {
                connection(stream, tls, service, shutdown).await;
                drop(place);
            });
        }
        tracker.close();
        // what did not end by itself is cut off with the runtime's tasks
        let _ = timeout(FAREWELL * 2, tracker.wait()).await;
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            // out of file descriptors, most likely: turning at full speed would not bring any
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn connection<S>(stream: TcpStream, tls: Option<TlsAcceptor>, service: S, shutdown: CancellationToken)
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    // answers are small and somebody waits for them
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return http(stream, None, service, shutdown).await };
    match timeout(PATIENCE, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let identity = peer::identity(stream.get_ref().1);
            http(stream, identity, service, shutdown).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn http<S, I>(
    io: I,
    identity: Option<(Identity, PeerCertificate)>,
    service: S,
    shutdown: CancellationToken,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let service = MapRequest::new(service, move |mut request: Request<Incoming>| {
        if let Some((identity, certificate)) = &identity {
            request.extensions_mut().insert(identity.clone());
            request.extensions_mut().insert(certificate.clone());
        }
        request
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(HEAD_LIMIT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PROBE_EVERY).keep_alive_timeout(PATIENCE);
    builder.http2().max_header_list_size(HEAD_LIMIT as u32).max_concurrent_streams(1000);
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(io), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = shutdown.cancelled() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            match timeout(FAREWELL, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}
