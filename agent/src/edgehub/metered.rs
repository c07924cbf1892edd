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

use super::{
    liveness::Heard,
    traffic::{Direction, Traffic},
};
use crate::rt::now;

/// What is known of a stream while others own it; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    traffic: Traffic,
    signs: Arc<Mutex<Signs>>,
}

#[derive(Debug)]
struct Signs {
    heard: Heard,
    /// The next one is the first after a question.
    awaited: bool,
}

impl Meter {
    pub(super) fn new(traffic: Traffic, now: Instant) -> Self {
        let heard = Heard { first: now, last: now };
        Self { traffic, signs: Arc::new(Mutex::new(Signs { heard, awaited: false })) }
    }

    /// The signs of life. Bytes that come in are one, and so is room for bytes after there was none: the other end has taken
    /// some. Counting whole messages only would call a large one on a slow link silence.
    pub(super) fn heard(&self) -> Heard {
        self.signs.lock().heard
    }

    /// A sign of life is about to be asked for.
    pub(super) fn asking(&self) {
        self.signs.lock().awaited = true;
    }

    pub(super) fn alive(&self) {
        let mut signs = self.signs.lock();
        signs.heard.last = now();
        if std::mem::take(&mut signs.awaited) {
            signs.heard.first = signs.heard.last;
        }
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
