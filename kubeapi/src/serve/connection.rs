//! Serves one connection: TLS, then HTTP, each with its deadline.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, atomic::AtomicU64},
    task::{Context, Poll},
    time::Duration,
};

use clock::Instant;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use limits::ConnectionSlot;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{sleep_until, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::{
    ServerLimits,
    body::PendingWrites,
    limits::CHUNK_BYTES,
    peer,
    share::Shares,
    tracked::{Connection, TrackedService},
};
use crate::{Body, streams::Tasks};

/// How often an HTTP/2 client is pinged: a vanished one would hold its watches for ever.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);

/// How long the answer to a ping may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long requests in progress may take when the server shuts down; watches would never end.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The largest head of a request, in bytes.
const HEAD_LIMIT: usize = 64 * 1024;

/// The most concurrent requests of one HTTP/2 connection, as in the API server.
const STREAMS: u32 = 250;

/// The parts of the server that a connection needs.
#[derive(Clone)]
pub(super) struct Deps<S> {
    pub(super) service: S,
    pub(super) limits: ServerLimits,
    pub(super) shares: Shares,
    /// The tasks of upgraded connections.
    pub(super) tasks: Tasks,
}

/// Serves a connection until it ends.
pub(super) async fn serve<S>(
    stream: TcpStream,
    address: SocketAddr,
    slot: ConnectionSlot,
    tls: Option<TlsAcceptor>,
    deps: Deps<S>,
) where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    // answers are small and somebody waits for them; a watch may be silent for hours after its client has vanished
    let _ = stream
        .set_nodelay(true)
        .and_then(|()| limits::set_keepalive(&stream));
    let connection = |slot, identity| Connection {
        slot,
        address: address.ip().to_canonical(),
        identity,
        shares: deps.shares.clone(),
        writing: PendingWrites::default(),
        answers: AtomicU64::new(0),
        upgraded: Mutex::new(None),
        tasks: deps.tasks.clone(),
    };
    let Some(tls) = tls else {
        return http(stream, connection(slot, None), deps).await;
    };
    let accepted = clock::select! {
        // cancel-safe: a half-made connection is simply closed
        () = deps.tasks.wait_shutdown() => return,
        () = slot.wait_evicted() => return tracing::debug!(%address, "TLS handshake evicted: limit reached"),
        accepted = timeout(deps.limits.handshake, tls.accept(stream)) => accepted,
    };
    match accepted {
        Ok(Ok(stream)) => {
            let identity = peer::identity(stream.get_ref().1);
            http(stream, connection(slot, identity), deps).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}

async fn http<S, I>(io: I, connection: Connection, deps: Deps<S>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let Deps {
        service,
        limits,
        tasks,
        ..
    } = deps;
    let connection = Arc::new(connection);
    let service = TrackedService {
        inner: service,
        connection: connection.clone(),
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_buf_size(HEAD_LIMIT);
    let mut http2 = builder.http2();
    http2
        .timer(TokioTimer::new())
        .keep_alive_interval(PROBE_INTERVAL)
        .keep_alive_timeout(PROBE_TIMEOUT);
    http2
        .max_header_list_size(HEAD_LIMIT as u32)
        .max_concurrent_streams(STREAMS)
        .max_send_buf_size(CHUNK_BYTES);
    let io = TokioIo::new(CountedConnection {
        io,
        _connection: connection.clone(),
    });
    let serving = builder.serve_connection_with_upgrades(io, TowerToHyperService::new(service));
    let mut serving = std::pin::pin!(serving);
    let ended = clock::select! {
        ended = serving.as_mut() => Some(ended),
        () = tasks.wait_shutdown() => None,
        // what it was at is cut off: there is nothing, or it is not read
        () = connection.slot.wait_evicted() => return tracing::debug!("connection evicted: limit reached"),
        why = overdue(&connection, &limits) => {
            tracing::debug!(reason = why, "connection closed");
            None
        }
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            serving.as_mut().graceful_shutdown();
            match timeout(DRAIN_TIMEOUT, serving).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection lost");
    }
}

/// Waits until the client exceeds a timeout, and returns which one.
async fn overdue(connection: &Connection, limits: &ServerLimits) -> &'static str {
    loop {
        // a request may begin at any time
        let next = Instant::now() + limits.write / 4;
        let deadline = connection.slot.deadline(limits.first_request, limits.idle);
        match deadline {
            Some(deadline) if deadline <= Instant::now() => return "no request came in time",
            None if connection.writing.is_stalled(limits.write) => {
                return "the client does not read";
            }
            _ => sleep_until(deadline.map_or(next, |deadline| deadline.min(next))).await,
        }
    }
}

/// The I/O of a connection, which counts as long as it exists, also after an upgrade.
struct CountedConnection<I> {
    io: I,
    _connection: Arc<Connection>,
}

impl<I: AsyncRead + Unpin> AsyncRead for CountedConnection<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, into)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for CountedConnection<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
