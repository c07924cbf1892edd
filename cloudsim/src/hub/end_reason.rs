//! The reasons for which sessions end.

use std::time::Duration;

use tokio_tungstenite::tungstenite;

/// The reason for which a session ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum EndReason {
    #[error("the cloud is stopping, or the node has reconnected")]
    Replaced,
    #[error("the node closed the connection")]
    Closed,
    #[error("no message from the node within {0:?}; connection considered lost")]
    Silent(Duration),
    #[error("the socket failed: {0}")]
    Socket(#[source] Box<tungstenite::Error>),
    #[error("cannot send a message within {0:?}; connection stalled")]
    Stalled(Duration),
    #[error("the node sent a malformed message: {0}")]
    Malformed(#[source] wire::json::DecodeError),
    #[error("the node sent a malformed frame: {0}")]
    Frame(#[source] wire::frame::FrameError),
    #[error("the node sent a malformed compressed message: {0}")]
    Compression(#[source] wire::compression::CompressionError),
    #[error("the QUIC connection failed: {0}")]
    Stream(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot read the node's ObjectSyncs: {0}")]
    Records(#[source] kube::Error),
    #[error("the task that reads the node's ObjectSyncs failed: {0}")]
    Failed(#[source] tokio::task::JoinError),
    #[error("a part of the session panicked; please report this with the log")]
    Panicked,
    #[error("the node was deleted")]
    Deleted,
    #[error("the link was cut by fault injection")]
    Cut,
}
