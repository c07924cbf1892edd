//! The streams of a tunnel: each buffers what the node sends, and what is written is sent in turn. Both are bounded by windows, if the
//! node has them.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use clock::HashMap;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    runtime::Handle,
    sync::{OwnedSemaphorePermit, mpsc},
    time::timeout,
};
use tokio_util::sync::PollSender;
use tracing::debug;
use wire::tunnel::{Frame, Kind};

use super::inbox::{End, Inbox, PutResult, WindowUpdates, missing_data_error};

/// How long the full stream of a node without windows may block the tunnel before it is ended.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest data of a frame to the node, bytes.
const CHUNK: usize = 16 * 1024;

/// The streams of a tunnel by number; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    all: Arc<Mutex<HashMap<u64, Arc<Inbox>>>>,
    /// The node's window for each stream; `None` if it has none and accepts any number of bytes.
    window: Option<usize>,
    windows: Arc<WindowUpdates>,
}

impl Streams {
    /// Creates an empty set for a node with this window.
    pub(super) fn new(window: Option<usize>) -> Self {
        Self {
            all: Arc::default(),
            window,
            windows: Arc::default(),
        }
    }

    /// Returns the next acknowledgement of read bytes for the node.
    pub(super) async fn read(&self) -> Frame {
        self.windows.next().await
    }

    /// Opens a stream with this number.
    pub(super) fn open(
        &self,
        id: u64,
        frames: mpsc::Sender<Frame>,
        permit: OwnedSemaphorePermit,
    ) -> NodeStream {
        let inbox = Arc::new(Inbox::new(self.window));
        self.all.lock().insert(id, inbox.clone());
        let (streams, closer_frames) = (self.clone(), frames.clone());
        NodeStream {
            id,
            inbox,
            windows: self.windows.clone(),
            frames: PollSender::new(frames),
            closer: Some(StreamCloser {
                streams,
                frames: closer_frames,
                runtime: Handle::current(),
                permit,
            }),
        }
    }

    /// Ends the stream with this number, if it has not ended before.
    pub(super) fn end(&self, id: u64, end: End) {
        let inbox = self.all.lock().remove(&id);
        if let Some(inbox) = inbox {
            inbox.end(end);
        }
    }

    /// Ends all streams.
    pub(super) fn end_all(&self, why: &'static str) {
        let all: Vec<_> = self.all.lock().drain().collect();
        all.iter().for_each(|(_, inbox)| inbox.end(End::Lost(why)));
    }

    /// Adds credit of bytes that the node has read; `None` if the number is invalid. Returns false if the stream was ended for that.
    pub(super) fn window_update(&self, id: u64, bytes: Option<usize>) -> bool {
        let Some(inbox) = self.all.lock().get(&id).cloned() else {
            return true;
        };
        let is_possible = bytes.is_some_and(|bytes| inbox.add_credit(bytes));
        if !is_possible {
            self.end(id, End::Lost("the node takes more of it than can be"));
        }
        is_possible
    }

    /// Adds bytes to a stream; those of an unknown stream are dropped. For a node without windows, waits while there is no room. Returns
    /// false if the stream took too long, or the node has exceeded its window, and the stream was ended for that.
    pub(super) async fn deliver(&self, id: u64, mut bytes: &[u8]) -> bool {
        let Some(inbox) = self.all.lock().get(&id).cloned() else {
            debug!(id, "bytes for an unknown stream ignored");
            return true;
        };
        while inbox.put(&mut bytes) == PutResult::Full {
            let why = if self.window.is_some() {
                "the node sent more of it than was taken"
            } else if timeout(STALL_TIMEOUT, inbox.room()).await.is_err() {
                "it was not read in time"
            } else {
                continue;
            };
            self.end(id, End::Lost(why));
            return false;
        }
        true
    }

    /// Returns the number of streams.
    pub(super) fn len(&self) -> usize {
        self.all.lock().len()
    }
}

/// Ends a stream when it is dropped.
struct StreamCloser {
    streams: Streams,
    frames: mpsc::Sender<Frame>,
    runtime: Handle,
    permit: OwnedSemaphorePermit,
}

/// A stream to a node. Dropping it ends it.
pub(super) struct NodeStream {
    id: u64,
    inbox: Arc<Inbox>,
    frames: PollSender<Frame>,
    windows: Arc<WindowUpdates>,
    closer: Option<StreamCloser>,
}

impl Drop for NodeStream {
    fn drop(&mut self) {
        self.inbox.forget();
        let Some(StreamCloser {
            streams,
            frames,
            runtime,
            permit,
        }) = self.closer.take()
        else {
            return;
        };
        // a stream that is not in the table was ended by the node or with the tunnel, or its end was sent already
        if streams.all.lock().remove(&self.id).is_none() {
            return;
        }
        let end = Frame::new(self.id, Kind::RemoveConnect, Bytes::new());
        runtime.spawn(async move {
            // its slot is free once the node was told; a tunnel that has ended has no streams
            let _ = frames.send(end).await;
            drop(permit);
        });
    }
}

impl AsyncRead for NodeStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.inbox.read(into, context.waker());
        if let Some(due) = self.inbox.due() {
            self.windows.add(self.id, due);
        }
        read.map_or(Poll::Pending, Poll::Ready)
    }
}

impl AsyncWrite for NodeStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(end) = self.inbox.stream_end() {
            let broken = || io::ErrorKind::BrokenPipe.into();
            return Poll::Ready(Err(end.error().unwrap_or_else(broken)));
        }
        let gone = || missing_data_error("the tunnel has ended");
        ready!(self.frames.poll_reserve(context)).map_err(|_| gone())?;
        let Some(part) = self.inbox.write(from.len().min(CHUNK), context.waker()) else {
            // another stream may use the slot meanwhile
            self.frames.abort_send();
            return Poll::Pending;
        };
        let part = &from[..part];
        let frame = Frame::new(self.id, Kind::Data, Bytes::copy_from_slice(part));
        self.frames.send_item(frame).map_err(|_| gone())?;
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The protocol has no half-close; those of SPDY and WebSocket are inside the bytes.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
