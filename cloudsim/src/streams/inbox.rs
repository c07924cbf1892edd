//! What the node has sent on one stream and nobody has read yet, and what may be sent to it.

use std::{collections::HashMap, io, task::Waker};

use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use tokio::{io::ReadBuf, sync::Notify};
use wire::tunnel::{
    Frame,
    window::{Credit, Taken, WINDOW},
};

/// Bytes of a node without windows that wait for whoever reads a stream.
pub(super) const BUFFER: usize = 128 * 1024;

/// How a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The node has ended it: what came before is all.
    Closed,
    /// Something is missing, and why.
    Lost(&'static str),
}

impl End {
    /// What whoever reads or writes is told, where that is no plain end.
    pub(super) fn error(self) -> Option<io::Error> {
        match self {
            Self::Closed => None,
            Self::Lost(why) => Some(lost(why)),
        }
    }
}

/// The error of a stream of which something is missing.
pub(super) fn lost(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, why)
}

#[derive(Debug, Default)]
struct State {
    bytes: BytesMut,
    end: Option<End>,
    /// Nobody reads it any more.
    dropped: bool,
    reader: Option<Waker>,
    taken: Taken,
    /// How many bytes the node takes before it has read any; `None`: it has no windows and takes any number.
    credit: Option<Credit>,
    /// Who waits for the node to take more.
    writer: Option<Waker>,
}

impl State {
    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

/// What becomes of bytes that the node has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// All were taken, or nobody wants any more.
    Done,
    /// There is no room for the rest.
    Full,
}

/// The two directions of a stream as the tunnel sees them.
#[derive(Debug)]
pub(super) struct Inbox {
    bound: usize,
    state: Mutex<State>,
    /// There is room again, or nobody who needs any.
    room: Notify,
}

impl Inbox {
    /// Of a node with this window.
    pub(super) fn new(window: Option<usize>) -> Self {
        let state = State { credit: window.map(Credit::new), ..State::default() };
        let bound = if window.is_some() { WINDOW } else { BUFFER };
        Self { bound, state: Mutex::new(state), room: Notify::new() }
    }

    /// Takes as much as there is room for.
    pub(super) fn put(&self, bytes: &mut &[u8]) -> Put {
        let mut state = self.state.lock();
        if state.dropped || state.end.is_some() {
            return Put::Done;
        }
        let part = bytes.len().min(self.bound.saturating_sub(state.bytes.len()));
        state.bytes.extend_from_slice(&bytes[..part]);
        *bytes = &bytes[part..];
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
        if bytes.is_empty() { Put::Done } else { Put::Full }
    }

    /// Waits for room, or for the end of whoever would read.
    pub(super) async fn room(&self) {
        self.room.notified().await;
    }

    /// Reads what waits. `None`: nothing does, and the stream goes on; `waker` is called then.
    pub(super) fn read(&self, into: &mut ReadBuf<'_>, waker: &Waker) -> Option<io::Result<()>> {
        let mut state = self.state.lock();
        if state.bytes.is_empty() {
            if let Some(end) = state.end {
                return Some(end.error().map_or(Ok(()), Err));
            }
            state.reader = Some(waker.clone());
            return None;
        }
        let part = state.bytes.len().min(into.remaining());
        into.put_slice(&state.bytes[..part]);
        state.bytes.advance(part);
        state.taken.add(part);
        if state.bytes.is_empty() {
            // a stream that is idle holds no memory
            state.bytes = BytesMut::new();
        }
        self.room.notify_one();
        Some(Ok(()))
    }

    /// What is to be given back to the node now, once.
    pub(super) fn due(&self) -> Option<usize> {
        let mut state = self.state.lock();
        let due = state.taken.due().filter(|_| state.credit.is_some() && state.end.is_none())?;
        state.taken.given();
        Some(due)
    }

    /// How many of so many bytes may be written. `None`: none now; `waker` is called when some may.
    pub(super) fn write(&self, bytes: usize, waker: &Waker) -> Option<usize> {
        let mut state = self.state.lock();
        let Some(credit) = &mut state.credit else { return Some(bytes) };
        let part = credit.take(bytes);
        if part == 0 && bytes > 0 {
            state.writer = Some(waker.clone());
            return None;
        }
        Some(part)
    }

    /// The node has taken so many bytes. False: that is more than there can be.
    pub(super) fn taken(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        let is_possible = state.credit.as_mut().is_none_or(|credit| credit.add(bytes));
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
        is_possible
    }

    /// The stream has ended; the first end counts.
    pub(super) fn end(&self, end: End) {
        let mut state = self.state.lock();
        state.end.get_or_insert(end);
        state.wake();
    }

    /// How the stream has ended, if it has.
    pub(super) fn ended(&self) -> Option<End> {
        self.state.lock().end
    }

    /// Nobody reads it any more.
    pub(super) fn forget(&self) {
        {
            let mut state = self.state.lock();
            state.dropped = true;
            state.bytes = BytesMut::new();
        }
        // a permit is kept where nobody waits now
        self.room.notify_one();
    }
}

/// What was read of streams and is to be given back to the node: at most one number for each. Who reads a stream waits for nothing here.
#[derive(Debug, Default)]
pub(super) struct Windows {
    due: Mutex<HashMap<u64, usize>>,
    some: Notify,
}

impl Windows {
    /// So many bytes of a stream were read.
    pub(super) fn add(&self, id: u64, bytes: usize) {
        *self.due.lock().entry(id).or_default() += bytes;
        self.some.notify_one();
    }

    /// The next of them. Cancel-safe.
    pub(super) async fn next(&self) -> Frame {
        loop {
            {
                let mut due = self.due.lock();
                let id = due.keys().next().copied();
                if let Some((id, bytes)) = id.and_then(|id| due.remove_entry(&id)) {
                    return Frame::window(id, bytes);
                }
            }
            self.some.notified().await;
        }
    }
}
