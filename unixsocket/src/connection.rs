//! Connections on their way to a server.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream, unix::OwnedWriteHalf},
};
use tokio_stream::{Stream, StreamExt, wrappers::UnixListenerStream};
use tokio_util::{
    bytes::Bytes,
    io::{ReaderStream, StreamReader},
};
use tonic::transport::server::Connected;

use crate::authority::Authorities;

/// The connections that come to this socket, for [`tonic`]'s `serve_with_incoming`.
///
/// # Errors
/// One that could not be accepted; more may come.
pub fn connections(listener: UnixListener) -> impl Stream<Item = io::Result<Connection>> + Send {
    UnixListenerStream::new(listener).map(|accepted| accepted.map(Connection::new))
}

type Chunks = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// A connection of which a server reads names of hosts as authorities, whatever the client has written.
pub struct Connection {
    reader: StreamReader<Chunks, Bytes>,
    writer: OwnedWriteHalf,
}
impl Connection {
    fn new(connection: UnixStream) -> Self {
        let (reader, writer) = connection.into_split();
        let mut authorities = Authorities::default();
        let mended = ReaderStream::new(reader)
            .map(move |read| read.map(|bytes| Bytes::from(authorities.pass(&bytes))));
        Self { reader: StreamReader::new(Box::pin(mended)), writer }
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
        Pin::new(&mut self.reader).poll_read(context, into)
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
