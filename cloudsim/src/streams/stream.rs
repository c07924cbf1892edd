//! The streams of a tunnel: what the node sends waits in a buffer of each, and what is written goes out in turn. Both are bounded by the
//! windows of either end, where the node has them.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
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

use super::inbox::{End, Inbox, Put, Windows, lost};

/// How long a full stream may take no bytes of a node without windows before it is ended; meanwhile nothing else of the tunnel is read.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest data of a frame to the node.
const CHUNK: usize = 16 * 1024;

/// The streams of a tunnel by their numbers; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    all: Arc<Mutex<HashMap<u64, Arc<Inbox>>>>,
    /// The node's window of each; `None`: it has none, and takes what there is.
    window: Option<usize>,
    windows: Arc<Windows>,
}

impl Streams {
    /// None yet, of a tunnel of a node with this window.
    pub(super) fn new(window: Option<usize>) -> Self {
        Self { all: Arc::default(), window, windows: Arc::default() }
    }

    /// What was read of one of them and is to be given back to the node.
    pub(super) async fn read(&self) -> Frame {
        self.windows.next().await
    }

    /// A new stream of this number.
    pub(super) fn open(
        &self,
        id: u64,
        frames: mpsc::Sender<Frame>,
        place: OwnedSemaphorePermit,
    ) -> NodeStream {
        let inbox = Arc::new(Inbox::new(self.window));
        self.all.lock().insert(id, inbox.clone());
        let (streams, tell) = (self.clone(), frames.clone());
        NodeStream {
            id,
            inbox,
            windows: self.windows.clone(),
            frames: PollSender::new(frames),
            farewell: Some(Farewell { streams, frames: tell, runtime: Handle::current(), place }),
        }
    }

    /// The stream of this number has ended; one that there is not has ended before.
    pub(super) fn end(&self, id: u64, end: End) {
        let inbox = self.all.lock().remove(&id);
        if let Some(inbox) = inbox {
            inbox.end(end);
        }
    }

    /// All of them have ended.
    pub(super) fn end_all(&self, why: &'static str) {
        let all: Vec<_> = self.all.lock().drain().collect();
        all.iter().for_each(|(_, inbox)| inbox.end(End::Lost(why)));
    }

    /// The node has taken so many bytes of a stream; `None`: it says so in no way that can be read. False: the stream has ended here for
    /// that.
    pub(super) fn taken(&self, id: u64, bytes: Option<usize>) -> bool {
        let Some(inbox) = self.all.lock().get(&id).cloned() else { return true };
        let is_possible = bytes.is_some_and(|bytes| inbox.taken(bytes));
        if !is_possible {
            self.end(id, End::Lost("the node takes more of it than can be"));
        }
        is_possible
    }

    /// Hands bytes to a stream; what is for an unknown one is dropped. Where the node has no windows, waits while there is no room. False:
    /// the stream took too long, or the node has exceeded its window, and it has ended here.
    pub(super) async fn deliver(&self, id: u64, mut bytes: &[u8]) -> bool {
        let Some(inbox) = self.all.lock().get(&id).cloned() else {
            debug!(id, "bytes for a stream that is not there");
            return true;
        };
        while inbox.put(&mut bytes) == Put::Full {
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

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.lock().len()
    }
}

/// What is needed to end a stream.
struct Farewell {
    streams: Streams,
    frames: mpsc::Sender<Frame>,
    runtime: Handle,
    place: OwnedSemaphorePermit,
}

/// A stream to a node. Dropped, it is ended.
pub(super) struct NodeStream {
    id: u64,
    inbox: Arc<Inbox>,
    frames: PollSender<Frame>,
    windows: Arc<Windows>,
    farewell: Option<Farewell>,
}

impl Drop for NodeStream {
    fn drop(&mut self) {
        self.inbox.forget();
        let Some(Farewell { streams, frames, runtime, place }) = self.farewell.take() else { return };
        // whoever is not in the table any more was ended by the node, by the tunnel's end, or was told already
        if streams.all.lock().remove(&self.id).is_none() {
            return;
        }
        let end = Frame::new(self.id, Kind::RemoveConnect, Bytes::new());
        runtime.spawn(async move {
            // its place is free when the node has been told; a tunnel that has ended has no streams
            let _ = frames.send(end).await;
            drop(place);
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
        if let Some(end) = self.inbox.ended() {
            let broken = || io::ErrorKind::BrokenPipe.into();
            return Poll::Ready(Err(end.error().unwrap_or_else(broken)));
        }
        let gone = || lost("the tunnel has ended");
        ready!(self.frames.poll_reserve(context)).map_err(|_| gone())?;
        let Some(part) = self.inbox.write(from.len().min(CHUNK), context.waker()) else {
            // another stream may use the place meanwhile
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

    /// The protocol has no half-close: those of SPDY and WebSocket are inside of the bytes.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
