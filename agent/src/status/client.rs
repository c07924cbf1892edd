//! Asks the running agent for its state.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, time::timeout};
use tokio_util::task::AbortOnDropHandle;
use wire::text::printable_bytes;

use super::{
    report::StatusReport,
    server::{METRICS_PATH, STATUS_PATH},
};

/// How long the agent may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer, bytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// The most bytes of a refusal that are shown.
const MAX_REFUSAL_BYTES: usize = 256;

/// Why the agent did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// No agent listens.
    #[error("no agent answers at {0}: the agent does not run; `edge-agent check` shows the cause")]
    NotRunning(PathBuf),
    /// This user may not connect.
    #[error(
        "no permission for {0}; run this command as root, or as a member of the group status.group of edgecore.yaml"
    )]
    Permission(PathBuf),
    /// The connection failed.
    #[error("the agent at {0} does not answer: {1}; `edge-agent check` shows the cause")]
    Failed(PathBuf, String),
}

impl ClientError {
    /// Returns what is wrong, without a cure.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::NotRunning(socket) => format!("nothing answers at {}", socket.display()),
            Self::Permission(socket) => format!("no permission for {}", socket.display()),
            Self::Failed(socket, why) => format!("no answer at {}: {why}", socket.display()),
        }
    }
}

/// Requests the state.
///
/// # Errors
/// No agent answers.
pub(crate) async fn request_status(socket: &Path) -> Result<StatusReport, ClientError> {
    let body = request(socket, STATUS_PATH).await?;
    serde_json::from_slice(&body)
        .map_err(|error| ClientError::Failed(socket.to_owned(), error.to_string()))
}

/// Requests the metrics.
///
/// # Errors
/// No agent answers.
pub(crate) async fn request_metrics(socket: &Path) -> Result<Bytes, ClientError> {
    request(socket, METRICS_PATH).await
}

async fn request(socket: &Path, path: &str) -> Result<Bytes, ClientError> {
    let late = |_| {
        let why = format!("no answer within {} s", REQUEST_TIMEOUT.as_secs());
        Err(ClientError::Failed(socket.to_owned(), why))
    };
    timeout(REQUEST_TIMEOUT, send(socket, path))
        .await
        .unwrap_or_else(late)
}

/// Connects to the agent.
///
/// # Errors
/// No agent listens, or this user may not connect.
pub(crate) async fn connect(socket: &Path) -> Result<UnixStream, ClientError> {
    let stream = UnixStream::connect(socket).await;
    stream.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ClientError::NotRunning(socket.to_owned())
        }
        io::ErrorKind::PermissionDenied => ClientError::Permission(socket.to_owned()),
        _ => ClientError::Failed(socket.to_owned(), error.to_string()),
    })
}

async fn send(socket: &Path, path: &str) -> Result<Bytes, ClientError> {
    let failed = |why: String| ClientError::Failed(socket.to_owned(), why);
    let stream = connect(socket).await?;
    let connected = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.map_err(|error| failed(error.to_string()))?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let request = Request::get(path)
        .header(header::HOST, "edge-agent")
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed(error.to_string()))?;
    let response = sender.send_request(request).await;
    let response = response.map_err(|error| failed(error.to_string()))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES)
        .collect()
        .await;
    let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
    if status != StatusCode::OK {
        return Err(failed(
            printable_bytes(&body, MAX_REFUSAL_BYTES).trim().to_owned(),
        ));
    }
    Ok(body)
}
