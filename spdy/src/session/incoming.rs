//! The streams that the peer opens.

use std::io;

use tokio::sync::mpsc;

use super::{command::Command, stream::Stream};
use crate::{Headers, Status};

/// Receives the streams that the peer opens.
#[derive(Debug)]
pub struct Incoming(pub(super) mpsc::Receiver<Request>);

/// The peer's request to open a stream. Dropping it refuses the stream.
#[derive(Debug)]
pub struct Request {
    /// The stream's headers.
    pub headers: Headers,
    pub(super) stream: Stream,
}

impl Incoming {
    /// Returns the peer's next request; `None` if the connection has ended.
    pub async fn next(&mut self) -> Option<Request> {
        self.0.recv().await
    }
}

impl Request {
    /// Accepts the stream.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn accept(self) -> io::Result<Stream> {
        self.stream
            .command(Command::Reply {
                id: self.stream.id(),
            })
            .await?;
        Ok(self.stream)
    }

    /// Refuses the stream.
    pub async fn refuse(self, status: Status) {
        self.stream.reset(status).await;
    }
}
