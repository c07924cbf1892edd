//! Streams over tokio: a [`Driver`] owns the connection, and each [`Stream`] is read and written by itself.
//!
//! There is back-pressure in both directions and no unbounded buffer. A stream whose reader is slow holds some chunks of bytes; then
//! the connection is not read until it has taken one, which is all that a protocol without windows allows: streams that must not wait
//! for each other need a connection each. Whoever writes waits while what was written before is not yet on its way.
//!
//! Reading ends as with spdystream: the peer's end of a stream and its reset are both a plain end of file. A connection that broke is
//! an error, so that what was cut off cannot be taken for complete.

mod command;
mod driver;
mod dropped;
mod half;
mod incoming;
mod stream;

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot},
    time::timeout,
};

use self::{
    command::{Command, ended},
    dropped::Dropped,
};
pub use self::{
    driver::Driver,
    incoming::{Incoming, Request},
    stream::Stream,
};
use crate::{Connection, Headers, Role};

/// What streams and sessions ask of the driver and it has not yet done.
const COMMANDS: usize = 16;
/// Streams of the peer that nobody has looked at; it opens no more.
const WAITING: usize = 16;
/// How long the peer may take to accept a stream; spdystream's limit.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// The connection, to open streams on it.
#[derive(Clone, Debug)]
pub struct Session {
    commands: mpsc::Sender<Command>,
    dropped: Arc<Dropped>,
}

/// Takes a connection on which nothing of SPDY has been said. Nothing happens before [`Driver::run`].
pub fn new<T: AsyncRead + AsyncWrite>(io: T, role: Role) -> (Session, Incoming, Driver<T>) {
    let (commands, received) = mpsc::channel(COMMANDS);
    let (requests, waiting) = mpsc::channel(WAITING);
    let dropped = Arc::new(Dropped::default());
    let session = Session { commands: commands.clone(), dropped: dropped.clone() };
    let driver = Driver::new(io, Connection::new(role), received, (requests, commands.downgrade()), dropped);
    (session, Incoming(waiting), driver)
}

impl Session {
    /// Opens a stream, and waits until the peer accepts it; with `fin`, one on which nothing is sent.
    ///
    /// # Errors
    /// The peer refuses it or does not answer, there are too many, or the connection has ended.
    pub async fn open(&self, headers: Headers, fin: bool) -> io::Result<Stream> {
        let (opened, answer) = oneshot::channel();
        let command = Command::Open { headers: headers.clone(), fin, opened };
        self.commands.send(command).await.map_err(|_| ended())?;
        let half = timeout(REPLY_TIMEOUT, answer).await.map_err(|_| {
            io::Error::new(io::ErrorKind::TimedOut, "the peer does not answer to a new stream")
        })?;
        let half = half.map_err(|_| ended())??;
        Ok(Stream::new(half, self.commands.clone(), self.dropped.clone()))
    }

    /// Asks the peer for a sign and waits for it.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn ping(&self) -> io::Result<()> {
        let (pong, answer) = oneshot::channel();
        self.commands.send(Command::Ping(pong)).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())
    }

    /// Ends all streams and the connection.
    pub async fn close(&self) {
        // one that has ended is closed
        let _ = self.commands.send(Command::Close).await;
    }
}
