//! The streams of a tunnel: what the node sends waits in a buffer of each, and what is written goes out in turn.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    runtime::Handle,
    sync::{Notify, OwnedSemaphorePermit, mpsc},
    time::timeout,
};
use tokio_util::sync::PollSender;
use tracing::debug;
use wire::tunnel::{Frame, Kind};

/// Bytes of the node that wait for whoever reads a stream.
pub(super) const BUFFER: usize = 128 * 1024;
/// How long a full stream may take no bytes before it is ended; meanwhile nothing else of the tunnel is read.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest data of a frame to the node.
const CHUNK: usize = 16 * 1024;

/// How a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The node has ended it: what came before is all.
    Closed,
    /// Something is missing, and why.
    Lost(&'static str),
}

#[derive(Debug, Default)]
struct State {
    bytes: BytesMut,
    end: Option<End>,
    /// Nobody reads it any more.
    dropped: bool,
    reader: Option<Waker>,
}

/// What the node has sent on one stream.
#[derive(Debug, Default)]
struct Inbox {
    state: Mutex<State>,
    /// There is room again, or nobody who needs any.
    room: Notify,
}

impl Inbox {
    /// Takes as much as there is room for. False: nobody wants any more of it.
    fn put(&self, bytes: &mut &[u8]) -> bool {
        let mut state = self.state.lock();
        if state.dropped || state.end.is_some() {
            return false;
        }
        let part = bytes.len().min(BUFFER.saturating_sub(state.bytes.len()));
        state.bytes.extend_from_slice(&bytes[..part]);
        *bytes = &bytes[part..];
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
        true
    }

    fn end(&self, end: End) {
        let mut state = self.state.lock();
        state.end.get_or_insert(end);
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }
}

/// The streams of a tunnel by their numbers; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams(Arc<Mutex<HashMap<u64, Arc<Inbox>>>>);

impl Streams {
    /// A new stream of this number.
    pub(super) fn open(
        &self,
        id: u64,
        frames: mpsc::Sender<Frame>,
        place: OwnedSemaphorePermit,
    ) -> NodeStream {
        let inbox = Arc::<Inbox>::default();
        self.0.lock().insert(id, inbox.clone());
        let (streams, tell) = (self.clone(), frames.clone());
        NodeStream {
            id,
            inbox,
            frames: PollSender::new(frames),
            farewell: Some(Farewell { streams, frames: tell, runtime: Handle::current(), place }),
        }
    }

    /// The stream of this number has ended; one that there is not has ended before.
    pub(super) fn end(&self, id: u64, end: End) {
        let inbox = self.0.lock().remove(&id);
        if let Some(inbox) = inbox {
            inbox.end(end);
        }
    }

    /// All of them have ended.
    pub(super) fn end_all(&self, why: &'static str) {
        let all: Vec<_> = self.0.lock().drain().collect();
        all.iter().for_each(|(_, inbox)| inbox.end(End::Lost(why)));
    }

    /// Hands bytes to a stream, and waits while it has no room; what is for an unknown one is dropped. False: the stream took too long,
    /// and has ended here.
    pub(super) async fn deliver(&self, id: u64, mut bytes: &[u8]) -> bool {
        let Some(inbox) = self.0.lock().get(&id).cloned() else {
            debug!(id, "bytes for a stream that is not there");
            return true;
        };
        while inbox.put(&mut bytes) && !bytes.is_empty() {
            if timeout(STALL_TIMEOUT, inbox.room.notified()).await.is_err() {
                self.end(id, End::Lost("it was not read in time"));
                return false;
            }
        }
        true
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
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
    farewell: Option<Farewell>,
}

impl NodeStream {
    /// How the stream has ended, if it has.
    fn ended(&self) -> Option<End> {
        self.inbox.state.lock().end
    }
}

impl Drop for NodeStream {
    fn drop(&mut self) {
        {
            let mut state = self.inbox.state.lock();
            state.dropped = true;
            state.bytes = BytesMut::new();
        }
        // a permit is kept where nobody waits now
        self.inbox.room.notify_one();
        let Some(Farewell { streams, frames, runtime, place }) = self.farewell.take() else { return };
        // whoever is not in the table any more was ended by the node, by the tunnel's end, or was told already
        if streams.0.lock().remove(&self.id).is_none() {
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
        let mut state = self.inbox.state.lock();
        if !state.bytes.is_empty() {
            let part = state.bytes.len().min(into.remaining());
            into.put_slice(&state.bytes[..part]);
            state.bytes.advance(part);
            if state.bytes.is_empty() {
                // a stream that is idle holds no memory
                state.bytes = BytesMut::new();
            }
            self.inbox.room.notify_one();
            return Poll::Ready(Ok(()));
        }
        match state.end {
            Some(End::Closed) => Poll::Ready(Ok(())),
            Some(End::Lost(why)) => Poll::Ready(Err(lost(why))),
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for NodeStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.ended() {
            Some(End::Closed) => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Some(End::Lost(why)) => return Poll::Ready(Err(lost(why))),
            None => {}
        }
        let gone = || lost("the tunnel has ended");
        ready!(self.frames.poll_reserve(context)).map_err(|_| gone())?;
        let part = &from[..from.len().min(CHUNK)];
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

fn lost(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, why)
}
