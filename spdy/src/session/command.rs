//! The commands of sessions and streams to the driver.

use std::io;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::half::ReceivingHalf;
use crate::{Headers, Status, StreamId};

/// A command to the driver.
pub(super) enum Command {
    Open {
        headers: Headers,
        fin: bool,
        opened: oneshot::Sender<io::Result<ReceivingHalf>>,
    },
    Reply {
        id: StreamId,
    },
    Send {
        id: StreamId,
        bytes: Bytes,
        fin: bool,
    },
    Reset {
        id: StreamId,
        status: Status,
    },
    Ping(oneshot::Sender<()>),
    Close,
}

/// Returns the error for callers of a driver that has ended.
pub(super) fn ended_error() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the connection has ended")
}
