//! Serves the state of the agent on a Unix socket: HTTP/1, for root and one group; the objects of the node for root.

use std::{
    convert::Infallible,
    fs, io,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use kubeapi::Body;
use nix::unistd::{Group, Uid};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    objects::{Objects, failure, response},
    source::StatusSource,
};
use crate::config::StatusSocket;

/// The mode of the socket, for its owner and its group.
const MODE: u32 = 0o660;
/// The mode until the group is set.
const OWNER_ONLY: u32 = 0o600;
/// The most connections at a time; others wait.
const MAX_CONNECTIONS: usize = 8;
/// How long a connection may exist: one request and its answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
/// The largest head of a request, bytes.
const MAX_HEAD_BYTES: usize = 8 * 1024;
/// The wait after a connection could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// The path of the state, and that of the metrics.
pub(super) const STATUS_PATH: &str = "/status";
pub(super) const METRICS_PATH: &str = "/metrics";

/// Why the socket is not served.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    /// The socket cannot be bound.
    #[error(
        "cannot listen on the socket; check its directory, or set status.socket in edgecore.yaml to another path"
    )]
    Listen(#[from] io::Error),
    /// There is no such group.
    #[error(
        "this machine has no group {0:?}; create it with groupadd, or correct status.group in edgecore.yaml"
    )]
    Group(String),
}

/// Serves the state until `shutdown`. A socket that cannot be served is logged: the node works without it.
pub(crate) async fn serve(socket: StatusSocket, source: StatusSource, shutdown: CancellationToken) {
    let path = socket.socket.display().to_string();
    match listen(&socket) {
        Ok(listener) => {
            info!(socket = path, "status socket listening");
            run(&listener, &source, &shutdown).await;
            // the next agent would replace it as well
            let _ = fs::remove_file(&socket.socket);
        }
        Err(error) => warn!(
            error = &error as &dyn std::error::Error,
            socket = path,
            "failed to serve the status socket; `edge-agent status` does not work"
        ),
    }
}

/// Listens; the socket of an agent that has ended is replaced.
fn listen(socket: &StatusSocket) -> Result<UnixListener, ServeError> {
    let path = &socket.socket;
    let group = socket.group.as_deref().map(group_id).transpose()?;
    let listener = unixsocket::listen(path, OWNER_ONLY)?;
    if let Err(error) = open_to_group(path, group) {
        let _ = fs::remove_file(path);
        return Err(error.into());
    }
    Ok(listener)
}

fn open_to_group(path: &Path, group: Option<u32>) -> io::Result<()> {
    if group.is_some() {
        chown(path, None, group)?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))
}

/// Returns the number of a group, by name or number.
fn group_id(name: &str) -> Result<u32, ServeError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let found = Group::from_name(name).ok().flatten();
    found
        .map(|group| group.gid.as_raw())
        .ok_or_else(|| ServeError::Group(name.to_owned()))
}

async fn run(listener: &UnixListener, source: &StatusSource, shutdown: &CancellationToken) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = clock::select! {
            // cancel-safe: nothing is accepted
            () = shutdown.cancelled() => return,
            // cancel-safe: a connection that is not accepted waits in the system
            accepted = accept(listener, slots.clone()) => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, slot)) => {
                let source = source.clone();
                connections.spawn(async move {
                    serve_connection(stream, source).await;
                    drop(slot);
                });
            }
            Err(error) => {
                debug!(%error, "failed to accept a connection to the status socket; retrying");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Waits for a free slot, and then for a connection.
async fn accept(
    listener: &UnixListener,
    slots: Arc<Semaphore>,
) -> io::Result<(UnixStream, OwnedSemaphorePermit)> {
    let slot = slots.acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, slot))
}

async fn serve_connection(stream: UnixStream, source: StatusSource) {
    let user = stream.peer_cred().map(|peer| peer.uid());
    let is_owner = user.is_ok_and(|user| user == 0 || user == Uid::effective().as_raw());
    // a log that is followed, or a command, may take any time
    let is_session = Arc::new(AtomicBool::new(false));
    let of_service = is_session.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (source, is_session) = (source.clone(), of_service.clone());
        async move {
            if Objects::is_at(request.uri().path()) {
                is_session.store(is_owner, Ordering::Relaxed);
                let answer = answer_owner(request, &source, is_owner).await;
                return Ok::<_, Infallible>(close_after(answer));
            }
            Ok(close_after(answer(&request, &source).await))
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut serving = pin!(serving);
    let served = match timeout(CONNECTION_TIMEOUT, &mut serving).await {
        Ok(served) => served,
        Err(_) if is_session.load(Ordering::Relaxed) => serving.await,
        Err(_) => {
            debug!("connection to the status socket closed: timeout");
            return;
        }
    };
    if let Err(error) = served {
        debug!(%error, "connection to the status socket lost");
    }
}

/// Makes this answer the last one of its connection, unless the connection becomes a session.
fn close_after(mut answer: Response<Body>) -> Response<Body> {
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(header::CONNECTION, close);
    }
    answer
}

/// Answers a request for objects. They can be changed with it, and commands in pods read Secrets: the group may not send it.
async fn answer_owner(
    request: Request<Incoming>,
    source: &StatusSource,
    is_owner: bool,
) -> Response<Body> {
    match source.objects() {
        Some(objects) if is_owner => objects.answer(request).await,
        Some(_) => failure(StatusCode::FORBIDDEN, "run this command as root"),
        None => failure(StatusCode::NOT_IMPLEMENTED, "this agent has no objects"),
    }
}

async fn answer(request: &Request<Incoming>, source: &StatusSource) -> Response<Body> {
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
    }
    match request.uri().path() {
        STATUS_PATH => match serde_json::to_vec(&source.read().await) {
            Ok(body) => response(StatusCode::OK, "application/json", body),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        },
        METRICS_PATH => match source.metrics().await {
            Ok(body) => response(StatusCode::OK, "text/plain; version=0.0.4", body),
            Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n")),
        },
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

fn text(status: StatusCode, body: &str) -> Response<Body> {
    response(
        status,
        "text/plain; charset=utf-8",
        body.as_bytes().to_vec(),
    )
}
