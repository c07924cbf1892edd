//! Connections of a unix socket on their way to a server.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use limits::{ConnectionLimiter, ConnectionLimits, ConnectionSlot};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream, unix::OwnedWriteHalf},
    time::{Sleep, sleep},
};
use tokio_stream::{Stream, StreamExt, wrappers::UnixListenerStream};
use tokio_util::{
    bytes::Bytes,
    io::{ReaderStream, StreamReader},
    sync::WaitForCancellationFutureOwned,
};
use tonic::transport::server::Connected;

use crate::authority::Authorities;

/// Returns the connections of this socket, for [`tonic`]'s `serve_with_incoming`.
///
/// # Errors
/// An item of the stream is an error if a connection could not be accepted; more may follow.
pub fn connections(listener: UnixListener) -> impl Stream<Item = io::Result<Connection>> + Send {
    UnixListenerStream::new(listener).map(|accepted| accepted.map(Connection::new))
}

/// Returns the connections of this socket, within limits: a connection is closed if its client sends nothing within `first`, or if another
/// connection gets its slot (see [`ConnectionLimiter`]).
///
/// # Errors
/// An item of the stream is an error if a connection could not be accepted; more may follow.
pub fn limited_connections(
    listener: UnixListener,
    limits: ConnectionLimits,
    first: Duration,
) -> impl Stream<Item = io::Result<Connection>> + Send {
    let limiter = ConnectionLimiter::new(limits);
    UnixListenerStream::new(listener).filter_map(move |accepted| match accepted {
        Ok(stream) => {
            // a connection without a slot is closed
            let slot = limiter.accept(None).ok()?;
            Some(Ok(Connection {
                place: Some(Place::new(slot, first)),
                ..Connection::new(stream)
            }))
        }
        Err(error) => Some(Err(error)),
    })
}

type Chunks = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// A connection whose requests have valid host names as authorities, whatever the client has sent.
pub struct Connection {
    reader: StreamReader<Chunks, Bytes>,
    writer: OwnedWriteHalf,
    place: Option<Place>,
}

/// The slot of a connection, if connections are limited.
struct Place {
    slot: ConnectionSlot,
    evicted: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The deadline of the first bytes; `None` once they have arrived.
    first: Option<Pin<Box<Sleep>>>,
}

impl Place {
    fn new(slot: ConnectionSlot, first: Duration) -> Self {
        let evicted = Box::pin(slot.eviction().cancelled_owned());
        Self {
            slot,
            evicted,
            first: Some(Box::pin(sleep(first))),
        }
    }

    /// Checks whether the connection must end.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let first = self
            .first
            .as_mut()
            .is_some_and(|first| first.as_mut().poll(context).is_ready());
        if first {
            return Poll::Ready(io::ErrorKind::TimedOut.into());
        }
        self.evicted
            .as_mut()
            .poll(context)
            .map(|()| io::ErrorKind::ConnectionAborted.into())
    }

    /// Records that bytes arrived.
    fn read(&mut self) -> io::Result<()> {
        if self.first.take().is_some() {
            // the connection is idle since its last bytes
            self.slot.begin(false).map(drop).map_err(io::Error::other)?;
        }
        self.slot.touch();
        Ok(())
    }
}

impl Connection {
    fn new(connection: UnixStream) -> Self {
        let (reader, writer) = connection.into_split();
        let mut authorities = Authorities::default();
        let mended = ReaderStream::new(reader)
            .map(move |read| read.map(|bytes| Bytes::from(authorities.pass(&bytes))));
        Self {
            reader: StreamReader::new(Box::pin(mended)),
            writer,
            place: None,
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(place) = &mut self.place
            && let Poll::Ready(why) = place.poll_end(context)
        {
            return Poll::Ready(Err(why));
        }
        let before = into.filled().len();
        let read = Pin::new(&mut self.reader).poll_read(context, into);
        if into.filled().len() > before
            && let Some(place) = &mut self.place
        {
            place.read()?;
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
