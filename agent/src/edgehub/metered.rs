//! A stream that counts what passes and remembers when the other end last showed that it lives.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::traffic::{Direction, Traffic};
use crate::rt::now;

/// What is known of a stream while others own it; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    traffic: Traffic,
    heard: Arc<Mutex<Instant>>,
}

impl Meter {
    pub(super) fn new(traffic: Traffic, now: Instant) -> Self {
        Self { traffic, heard: Arc::new(Mutex::new(now)) }
    }

    /// The last sign of life. Bytes that come in are one, and so is room for bytes after there was none: the other end has
    /// taken some. Counting whole messages only would call a large one on a slow link silence.
    pub(super) fn heard(&self) -> Instant {
        *self.heard.lock()
    }

    pub(super) fn alive(&self) {
        *self.heard.lock() = now();
    }
}

/// The stream.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    meter: Meter,
    blocked: bool,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, meter: Meter) -> Self {
        Self { stream, meter, blocked: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let read = buffer.filled().len() - before;
        if read > 0 {
            self.meter.traffic.raw(Direction::Down, read);
            self.meter.alive();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buffer);
        if let Poll::Ready(Ok(written)) = &polled {
            self.meter.traffic.raw(Direction::Up, *written);
            if std::mem::take(&mut self.blocked) && *written > 0 {
                self.meter.alive();
            }
        }
        self.blocked |= polled.is_pending();
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
