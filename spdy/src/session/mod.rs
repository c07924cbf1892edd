//! Streams over tokio: a [`Driver`] owns the connection, and each [`Stream`] is read and written separately.
//!
//! There is back-pressure in both directions and no unbounded buffer. A stream with a slow reader buffers some chunks. Then the connection
//! is not read until the reader has taken one, because the protocol has no windows: streams that must not block each other need separate
//! connections. The same holds while too many streams wait to be accepted. A writer waits until its earlier bytes were handed to the
//! connection.
//!
//! Reading ends as with spdystream: the peer's end of a stream and its reset are both a plain end of file. A broken connection is an error,
//! so that truncated data cannot be taken for complete.

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
    command::{Command, ended_error},
    dropped::Dropped,
};
pub use self::{
    driver::Driver,
    incoming::{Incoming, Request},
    stream::Stream,
};
use crate::{Connection, Headers, Role};

/// The most commands that wait for the driver.
const COMMANDS: usize = 16;
/// The most streams of the peer that wait to be accepted. While one more waits, the connection is not read.
const WAITING: usize = 16;
/// How long the peer may take to accept a stream, as in spdystream.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A handle to the connection with which streams are opened.
#[derive(Clone, Debug)]
pub struct Session {
    commands: mpsc::Sender<Command>,
    dropped: Arc<Dropped>,
}

/// Creates a session on a new connection. Nothing happens before [`Driver::run`].
pub fn new<T: AsyncRead + AsyncWrite>(io: T, role: Role) -> (Session, Incoming, Driver<T>) {
    let (commands, received) = mpsc::channel(COMMANDS);
    let (requests, waiting) = mpsc::channel(WAITING);
    let dropped = Arc::new(Dropped::default());
    let session = Session {
        commands: commands.clone(),
        dropped: dropped.clone(),
    };
    let driver = Driver::new(
        io,
        Connection::new(role),
        received,
        requests,
        commands.downgrade(),
        dropped,
    );
    (session, Incoming(waiting), driver)
}

impl Session {
    /// Opens a stream and waits until the peer accepts it. With `fin`, nothing is sent on it.
    ///
    /// # Errors
    /// The peer refuses it or does not answer, there are too many streams, or the connection has ended.
    pub async fn open(&self, headers: Headers, fin: bool) -> io::Result<Stream> {
        let (opened, answer) = oneshot::channel();
        let command = Command::Open {
            headers: headers.clone(),
            fin,
            opened,
        };
        self.commands
            .send(command)
            .await
            .map_err(|_| ended_error())?;
        let half = timeout(REPLY_TIMEOUT, answer).await.map_err(|_| {
            io::Error::new(
                io::ErrorKind::TimedOut,
                "the peer does not answer to a new stream",
            )
        })?;
        let half = half.map_err(|_| ended_error())??;
        Ok(Stream::new(
            half,
            self.commands.clone(),
            self.dropped.clone(),
        ))
    }

    /// Sends a ping and waits for the answer.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn ping(&self) -> io::Result<()> {
        let (pong, answer) = oneshot::channel();
        self.commands
            .send(Command::Ping(pong))
            .await
            .map_err(|_| ended_error())?;
        answer.await.map_err(|_| ended_error())
    }

    /// Closes all streams and the connection.
    pub async fn close(&self) {
        // a connection that has ended is closed already
        let _ = self.commands.send(Command::Close).await;
    }
}
