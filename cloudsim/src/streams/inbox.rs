//! The buffer of one stream: bytes from the node that were not read yet, and the credit for sending to it.

use std::{io, task::Waker};

use bytes::{Buf, BytesMut};
use clock::HashMap;
use parking_lot::Mutex;
use tokio::{io::ReadBuf, sync::Notify};
use wire::tunnel::{
    Frame,
    window::{Credit, Taken, WINDOW},
};

/// The largest number of unread bytes for a node without windows.
pub(super) const BUFFER: usize = 128 * 1024;

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The node has ended it; the data is complete.
    Closed,
    /// Data is missing, for this reason.
    Lost(&'static str),
}

impl End {
    /// Returns the error for readers and writers, unless the end is regular.
    pub(super) fn error(self) -> Option<io::Error> {
        match self {
            Self::Closed => None,
            Self::Lost(why) => Some(missing_data_error(why)),
        }
    }
}

/// Returns the error of a stream with missing data.
pub(super) fn missing_data_error(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, why)
}

#[derive(Debug, Default)]
struct State {
    bytes: BytesMut,
    end: Option<End>,
    /// Whether the reader was dropped.
    dropped: bool,
    reader: Option<Waker>,
    taken: Taken,
    /// How many bytes the node accepts before it has read any; `None` if it has no windows and accepts any number.
    credit: Option<Credit>,
    /// The writer that waits for credit.
    writer: Option<Waker>,
}

impl State {
    fn wake(&mut self) {
        self.reader
            .take()
            .into_iter()
            .chain(self.writer.take())
            .for_each(Waker::wake);
    }
}

/// The result of adding the node's bytes to the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PutResult {
    /// All were taken, or there is no reader any more.
    Done,
    /// There is no room for the rest.
    Full,
}

/// The two directions of a stream, as the tunnel uses them.
#[derive(Debug)]
pub(super) struct Inbox {
    bound: usize,
    state: Mutex<State>,
    /// Notified when there is room again, or the reader has gone.
    room: Notify,
}

impl Inbox {
    /// Creates the buffer for a node with this window.
    pub(super) fn new(window: Option<usize>) -> Self {
        let state = State {
            credit: window.map(Credit::new),
            ..State::default()
        };
        let bound = if window.is_some() { WINDOW } else { BUFFER };
        Self {
            bound,
            state: Mutex::new(state),
            room: Notify::new(),
        }
    }

    /// Takes as many bytes as fit.
    pub(super) fn put(&self, bytes: &mut &[u8]) -> PutResult {
        let mut state = self.state.lock();
        if state.dropped || state.end.is_some() {
            return PutResult::Done;
        }
        let part = bytes
            .len()
            .min(self.bound.saturating_sub(state.bytes.len()));
        state.bytes.extend_from_slice(&bytes[..part]);
        *bytes = &bytes[part..];
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
        if bytes.is_empty() {
            PutResult::Done
        } else {
            PutResult::Full
        }
    }

    /// Waits for room, or for the end of the reader.
    pub(super) async fn room(&self) {
        self.room.notified().await;
    }

    /// Reads buffered bytes. Returns `None` if there are none and the stream is open; `waker` is then called later.
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
            // an idle stream holds no memory
            state.bytes = BytesMut::new();
        }
        self.room.notify_one();
        Some(Ok(()))
    }

    /// Takes the number of bytes to acknowledge to the node.
    pub(super) fn due(&self) -> Option<usize> {
        let mut state = self.state.lock();
        let due = state
            .taken
            .due()
            .filter(|_| state.credit.is_some() && state.end.is_none())?;
        state.taken.reset();
        Some(due)
    }

    /// Takes credit for up to `bytes` bytes. Returns `None` if there is none; `waker` is then called later.
    pub(super) fn write(&self, bytes: usize, waker: &Waker) -> Option<usize> {
        let mut state = self.state.lock();
        let Some(credit) = &mut state.credit else {
            return Some(bytes);
        };
        let part = credit.take(bytes);
        if part == 0 && bytes > 0 {
            state.writer = Some(waker.clone());
            return None;
        }
        Some(part)
    }

    /// Adds the credit of bytes that the node has read. Returns false if that exceeds the window.
    pub(super) fn add_credit(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        let is_possible = state.credit.as_mut().is_none_or(|credit| credit.add(bytes));
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
        is_possible
    }

    /// Ends the stream; only the first end counts.
    pub(super) fn end(&self, end: End) {
        let mut state = self.state.lock();
        state.end.get_or_insert(end);
        state.wake();
    }

    /// Returns the end of the stream, if it has ended.
    pub(super) fn stream_end(&self) -> Option<End> {
        self.state.lock().end
    }

    /// Records that the reader has gone.
    pub(super) fn forget(&self) {
        {
            let mut state = self.state.lock();
            state.dropped = true;
            state.bytes = BytesMut::new();
        }
        // a permit is kept if nobody waits now
        self.room.notify_one();
    }
}

/// Bytes that were read from streams and must be acknowledged to the node: one number for each stream. Readers never wait here.
#[derive(Debug, Default)]
pub(super) struct WindowUpdates {
    due: Mutex<HashMap<u64, usize>>,
    some: Notify,
}

impl WindowUpdates {
    /// Adds bytes that were read from a stream.
    pub(super) fn add(&self, id: u64, bytes: usize) {
        *self.due.lock().entry(id).or_default() += bytes;
        self.some.notify_one();
    }

    /// Returns the next acknowledgement. Cancel-safe.
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
