//! What sessions and streams ask of the driver.

use std::io;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::half::ReceivingHalf;
use crate::{Headers, Status, StreamId};

/// What is asked of the driver.
pub(super) enum Command {
    Open { headers: Headers, fin: bool, opened: oneshot::Sender<io::Result<ReceivingHalf>> },
    Reply { id: StreamId },
    Send { id: StreamId, bytes: Bytes, fin: bool },
    Reset { id: StreamId, status: Status },
    Ping(oneshot::Sender<()>),
    Close,
}

/// The error of whoever asks a driver that has ended.
pub(super) fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the connection has ended")
}
