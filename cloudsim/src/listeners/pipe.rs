//! A connection within the process: two bounded byte streams that use no memory while they are empty.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that one end may be ahead of the other, as in a socket's buffers.
const CAPACITY: usize = 64 * 1024;

/// One end of a connection within the process. The other end sees the end of the stream when this is dropped.
#[derive(Debug)]
pub struct Pipe {
    incoming: Arc<Mutex<ByteStream>>,
    outgoing: Arc<Mutex<ByteStream>>,
}

/// The bytes on their way in one direction.
#[derive(Debug, Default)]
struct ByteStream {
    bytes: BytesMut,
    is_closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl ByteStream {
    fn close(&mut self) {
        self.is_closed = true;
        for waker in [self.reader.take(), self.writer.take()] {
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl Pipe {
    /// Creates a connection and returns both ends.
    pub fn pair() -> (Self, Self) {
        let (one, other) = <(Arc<Mutex<ByteStream>>, Arc<Mutex<ByteStream>>)>::default();
        let far = Self {
            incoming: Arc::clone(&other),
            outgoing: Arc::clone(&one),
        };
        let near = Self {
            incoming: one,
            outgoing: other,
        };
        (near, far)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.incoming.lock().close();
        self.outgoing.lock().close();
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut stream = self.incoming.lock();
        if stream.bytes.is_empty() {
            if stream.is_closed {
                return Poll::Ready(Ok(()));
            }
            stream.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let size = stream.bytes.len().min(into.remaining());
        into.put_slice(&stream.bytes[..size]);
        stream.bytes.advance(size);
        if stream.bytes.is_empty() {
            stream.bytes = BytesMut::new();
        }
        if let Some(writer) = stream.writer.take() {
            writer.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut stream = self.outgoing.lock();
        if stream.is_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let size = bytes.len().min(CAPACITY - stream.bytes.len());
        if size == 0 && !bytes.is_empty() {
            stream.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        stream.bytes.extend_from_slice(&bytes[..size]);
        if let Some(reader) = stream.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(size))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.lock().close();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn bytes_arrive_in_order_and_writers_wait_for_readers() {
        let (mut near, mut far) = Pipe::pair();
        let sent: Vec<u8> = (0..3 * CAPACITY).map(|number| number as u8).collect();
        let copy = sent.clone();
        let writing = tokio::spawn(async move {
            near.write_all(&copy).await.unwrap();
            near.shutdown().await.unwrap();
            let mut answer = Vec::new();
            near.read_to_end(&mut answer).await.unwrap();
            answer
        });
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        assert!(read == sent);
        assert_eq!(far.incoming.lock().bytes.capacity(), 0, "nothing is held");
        far.write_all(b"answer").await.unwrap();
        drop(far);
        assert_eq!(writing.await.unwrap(), b"answer");
    }

    #[tokio::test]
    async fn dropped_end_fails_writes_and_ends_reads() {
        let (mut near, far) = Pipe::pair();
        let full = vec![0; CAPACITY + 1];
        let writing = tokio::spawn(async move { (near.write_all(&full).await, near) });
        tokio::task::yield_now().await;
        drop(far);
        let (written, mut near) = writing.await.unwrap();
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
    }
}
