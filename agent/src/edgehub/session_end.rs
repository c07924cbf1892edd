//! Why a connection to the cloud ends.

use std::io::ErrorKind;

use tokio_tungstenite::tungstenite;

use super::redial::Cause;

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionEnd {
    #[error("shutdown")]
    Shutdown,
    #[error("the cloud closed the connection")]
    Closed,
    #[error("{0}; two machines use the same node name; rename or stop one of them")]
    TakenOver(String),
    #[error("no message from the cloud in time; connection considered lost")]
    Silent,
    #[error(
        "connection dropped without a close frame; the cloud was stopped, or a proxy or firewall closed the connection"
    )]
    Lost,
    #[error("the socket failed")]
    Socket(#[source] Box<tungstenite::Error>),
    #[error("cannot send a message in time; connection stalled")]
    Stalled,
    #[error("the cloud sent a malformed message")]
    Malformed(#[source] wire::json::DecodeError),
    #[error("the cloud sent a malformed frame")]
    Frame(#[source] wire::frame::FrameError),
    #[error("the cloud sent a malformed compressed message")]
    Compression(#[source] wire::compression::CompressionError),
    #[error("the QUIC connection failed")]
    Stream(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl SessionEnd {
    /// Converts an error of the WebSocket.
    pub(super) fn of_socket(error: tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => Self::Lost,
            error => Self::Socket(Box::new(error)),
        }
    }

    /// Returns the cause for redialling: the cloud, if it could still end the connection itself.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::TakenOver(_) => Cause::NameConflict,
            Self::Closed | Self::Lost | Self::Socket(_) | Self::Stream(_) => Cause::Cloud,
            Self::Shutdown
            | Self::Silent
            | Self::Stalled
            | Self::Malformed(_)
            | Self::Frame(_)
            | Self::Compression(_) => Cause::Network,
        }
    }
}
