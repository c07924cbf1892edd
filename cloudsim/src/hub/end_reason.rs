//! The reasons for which sessions end.

use std::time::Duration;

use tokio_tungstenite::tungstenite;

/// The reason for which a session ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum EndReason {
    #[error("this cloud stops, or the node has reconnected")]
    Replaced,
    #[error("the node closed the connection")]
    Closed,
    #[error("no message within {0:?}; the link is dead")]
    Silent(Duration),
    #[error("the socket failed: {0}")]
    Socket(#[source] Box<tungstenite::Error>),
    #[error("a message could not be written within {0:?}; the link is stalled")]
    Stalled(Duration),
    #[error("the node sent a malformed message: {0}")]
    Malformed(#[source] wire::json::DecodeError),
    #[error("the node sent a malformed frame: {0}")]
    Frame(#[source] wire::frame::FrameError),
    #[error("the node sent a compressed message that cannot be read: {0}")]
    Compression(#[source] wire::compression::CompressionError),
    #[error("the QUIC connection failed: {0}")]
    Stream(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the bookkeeping could not be read: {0}")]
    Records(#[source] kube::Error),
    #[error("the bookkeeping was not read: {0}")]
    Failed(#[source] tokio::task::JoinError),
    #[error("a part of the session panicked; please report this with the log")]
    Panicked,
    #[error("the node was deleted")]
    Deleted,
    #[error("the link was cut, on purpose")]
    Cut,
}
