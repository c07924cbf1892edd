//! One stream.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
};
use tokio_util::sync::PollSender;

use super::{
    command::{Command, ended_error},
    dropped::Dropped,
    half::{End, LOST, OPEN, RESET, ReceivingHalf},
};
use crate::{Status, StreamId};

/// The most bytes that one write takes.
const CHUNK: usize = 16 * 1024;

/// A stream, whose halves can be read and shut down separately. If it is dropped before both have ended, it is reset.
pub struct Stream {
    id: StreamId,
    chunks: mpsc::Receiver<Bytes>,
    chunk: Bytes,
    end: Arc<End>,
    commands: PollSender<Command>,
    finished: bool,
    dropped: Arc<Dropped>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn new(
        half: ReceivingHalf,
        commands: mpsc::Sender<Command>,
        dropped: Arc<Dropped>,
    ) -> Self {
        Self {
            id: half.id,
            chunks: half.chunks,
            chunk: Bytes::new(),
            end: half.end,
            commands: PollSender::new(commands),
            finished: half.sends_nothing,
            dropped,
        }
    }

    /// Returns the stream's id.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Ends both halves.
    pub async fn reset(self, status: Status) {
        // if the connection has ended, the stream has too
        let _ = self
            .command(Command::Reset {
                id: self.id,
                status,
            })
            .await;
    }

    pub(super) async fn command(&self, command: Command) -> io::Result<()> {
        let sender = self.commands.get_ref().ok_or_else(ended_error)?.clone();
        sender.send(command).await.map_err(|_| ended_error())
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8], fin: bool) -> Poll<io::Result<()>> {
        if self.finished || self.end.is(RESET) || self.end.is(LOST) {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the stream has ended",
            )));
        }
        ready!(self.commands.poll_reserve(cx)).map_err(|_| ended_error())?;
        let command = Command::Send {
            id: self.id,
            bytes: Bytes::copy_from_slice(bytes),
            fin,
        };
        self.finished = fin;
        Poll::Ready(self.commands.send_item(command).map_err(|_| ended_error()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.dropped.add(self.id);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.chunk.is_empty() {
            match ready!(self.chunks.poll_recv(cx)) {
                Some(chunk) => self.chunk = chunk,
                None if self.end.is(LOST) || self.end.is(OPEN) => {
                    return Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the connection broke",
                    )));
                }
                None => return Poll::Ready(Ok(())),
            }
        }
        let now = self.chunk.len().min(buffer.remaining());
        buffer.put_slice(&self.chunk[..now]);
        self.chunk.advance(now);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let now = &bytes[..bytes.len().min(CHUNK)];
        if now.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_send(cx, now, false))?;
        Poll::Ready(Ok(now.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // the driver writes its bytes as soon as the connection accepts them
        Poll::Ready(Ok(()))
    }

    /// Ends the sending half; the other half can still be read.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.finished || self.end.is(RESET) || self.end.is(LOST) {
            return Poll::Ready(Ok(()));
        }
        self.poll_send(cx, &[], true)
    }
}
