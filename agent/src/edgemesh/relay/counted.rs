//! A stream whose bytes are counted.

use std::{
    io,
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stream_limits::StreamPermit;
use crate::edgemesh::metrics::MeshMetrics;

/// Counts the bytes that are read and written, and may hold a permit as long as it lives.
#[derive(Debug)]
pub(in crate::edgemesh) struct Counted<S> {
    inner: S,
    metrics: Arc<MeshMetrics>,
    /// Its share of the connections that may be open at a time.
    _permit: Option<StreamPermit>,
}

impl<S> Counted<S> {
    pub(super) fn new(inner: S, metrics: Arc<MeshMetrics>) -> Self {
        Self {
            inner,
            metrics,
            _permit: None,
        }
    }

    /// Keeps a permit until the stream is dropped.
    pub(super) fn holding(self, permit: StreamPermit) -> Self {
        Self {
            _permit: Some(permit),
            ..self
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let read = buffer.filled().len().saturating_sub(before);
        self.metrics.relay_received.fetch_add(read as u64, Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        self.metrics.relay_sent.fetch_add(written as u64, Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
