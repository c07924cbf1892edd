//! A stream that counts bytes and remembers when the other end was last alive.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use clock::Instant;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    liveness::LastReceived,
    traffic::{Direction, Traffic},
};

/// The state of a stream that another task owns; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    traffic: Traffic,
    signs: Arc<Mutex<ActivityState>>,
}

#[derive(Debug)]
struct ActivityState {
    heard: LastReceived,
    /// Whether the next data is the first after a ping.
    is_answer_expected: bool,
}

impl Meter {
    pub(super) fn new(traffic: Traffic, now: Instant) -> Self {
        let heard = LastReceived {
            first: now,
            last: now,
        };
        Self {
            traffic,
            signs: Arc::new(Mutex::new(ActivityState {
                heard,
                is_answer_expected: false,
            })),
        }
    }

    /// Returns when the other end was alive: it has sent bytes, or has taken some after the send buffer was full. Counting
    /// whole messages only would take a large one on a slow link for silence.
    pub(super) fn last_received(&self) -> LastReceived {
        self.signs.lock().heard
    }

    /// Records that a ping is about to be sent.
    pub(super) fn expect_answer(&self) {
        self.signs.lock().is_answer_expected = true;
    }

    pub(super) fn record_activity(&self) {
        let mut signs = self.signs.lock();
        signs.heard.last = clock::Instant::now();
        if std::mem::take(&mut signs.is_answer_expected) {
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
        Self {
            stream,
            meter,
            blocked: false,
        }
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
            self.meter.record_activity();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buffer);
        if let Poll::Ready(Ok(written)) = &polled {
            self.meter.traffic.raw(Direction::Up, *written);
            if std::mem::take(&mut self.blocked) && *written > 0 {
                self.meter.record_activity();
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
