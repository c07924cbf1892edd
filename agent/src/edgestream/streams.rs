//! The streams of a tunnel by the cloud's numbers, with their buffers.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wire::tunnel::window::WINDOW;

use super::flow_control::{Inbox, SendCredit};

/// The most streams at a time; further ones are refused. Each follows a log, or holds a connection to the runtime.
pub(super) const MAX_STREAMS: usize = 256;
/// The most bytes from a cloud without windows that wait for a stream.
const MAX_BUFFERED_BYTES: usize = 128 * 1024;
/// How long a stream may take no bytes of such a cloud before it is ended; nothing else of the tunnel is read meanwhile.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// One stream as the reader of the tunnel sees it.
#[derive(Clone)]
struct StreamEntry {
    inbox: Arc<Inbox>,
    credit: Option<Arc<SendCredit>>,
    ended: CancellationToken,
}

/// The streams; cheap to clone.
#[derive(Clone)]
pub(super) struct Streams {
    all: Arc<Mutex<HashMap<u64, StreamEntry>>>,
    /// The cloud's window for each stream; `None` if it has none and takes any number of bytes.
    window: Option<usize>,
}

/// The stream's own end of its entry; dropping it removes the entry.
pub(super) struct StreamHandle {
    id: u64,
    streams: Streams,
    /// Cancelled when the stream has to end.
    pub(super) ended: CancellationToken,
    /// The bytes from the cloud.
    pub(super) inbox: Arc<Inbox>,
    /// The credit for sending; `None` if the cloud has no windows and takes any number of bytes.
    pub(super) credit: Option<Arc<SendCredit>>,
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.ended.cancel();
        self.streams.all.lock().remove(&self.id);
    }
}

/// Why a new stream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenError {
    /// There is a stream with this number.
    AlreadyOpen,
    /// There are [`MAX_STREAMS`] streams.
    TooMany,
}

impl Streams {
    /// Creates the empty set of a tunnel to a cloud with this window.
    pub(super) fn new(window: Option<usize>) -> Self {
        Self {
            all: Arc::default(),
            window,
        }
    }

    /// Adds a stream, which ends with `tunnel`.
    pub(super) fn open(
        &self,
        id: u64,
        tunnel: &CancellationToken,
    ) -> Result<StreamHandle, OpenError> {
        let mut all = self.all.lock();
        if all.contains_key(&id) {
            return Err(OpenError::AlreadyOpen);
        }
        if all.len() >= MAX_STREAMS {
            return Err(OpenError::TooMany);
        }
        let ended = tunnel.child_token();
        let inbox = Arc::new(Inbox::new(if self.window.is_some() {
            WINDOW
        } else {
            MAX_BUFFERED_BYTES
        }));
        let credit = self.window.map(|window| Arc::new(SendCredit::new(window)));
        let entry = StreamEntry {
            inbox: inbox.clone(),
            credit: credit.clone(),
            ended: ended.clone(),
        };
        all.insert(id, entry);
        Ok(StreamHandle {
            id,
            streams: self.clone(),
            ended,
            inbox,
            credit,
        })
    }

    /// Ends a stream; an unknown one has ended already.
    pub(super) fn end(&self, id: u64) {
        if let Some(entry) = self.all.lock().get(&id) {
            entry.ended.cancel();
        }
    }

    /// Returns the number of streams.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.lock().len()
    }

    /// Adds credit to a stream; `None` is a frame that cannot be read, and ends the stream.
    pub(super) fn add_credit(&self, id: u64, bytes: Option<usize>) {
        let Some(entry) = self.all.lock().get(&id).cloned() else {
            return;
        };
        let Some(credit) = entry.credit else { return };
        if bytes.is_none_or(|bytes| !credit.add(bytes)) {
            tracing::warn!(id, "stream window exceeded by the peer; stream closed");
            entry.ended.cancel();
        }
    }

    /// Delivers bytes to a stream; those for an unknown one are dropped. If the cloud has no windows, waits while the buffer is
    /// full.
    pub(super) async fn deliver(&self, id: u64, mut bytes: &[u8]) {
        let Some(entry) = self.all.lock().get(&id).cloned() else {
            tracing::debug!(id, "bytes for an unknown stream ignored");
            return;
        };
        loop {
            entry.inbox.put(&mut bytes);
            if bytes.is_empty() {
                return;
            }
            if entry.credit.is_some() {
                tracing::warn!(id, "stream window exceeded by the cloud; stream closed");
                return entry.ended.cancel();
            }
            clock::select! {
                // cancel-safe: the stream has ended, and its buffer with it
                () = entry.ended.cancelled() => return,
                has_space = timeout(STALL_TIMEOUT, entry.inbox.has_space()) => if has_space.is_err() {
                    tracing::warn!(id, "stream stalled: data from the cloud not read in time; stream closed");
                    return entry.ended.cancel();
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_takes_nothing_is_ended_and_the_others_go_on() {
        let (streams, tunnel) = (Streams::new(None), CancellationToken::new());
        let stuck = streams.open(1, &tunnel).ok().unwrap();
        let other = streams.open(2, &tunnel).ok().unwrap();
        let chunk = vec![7; 16 * 1024];
        for _ in 0..MAX_BUFFERED_BYTES / chunk.len() {
            streams.deliver(1, &chunk).await;
        }
        assert!(!stuck.ended.is_cancelled(), "as much as there is room for");
        streams.deliver(1, b"one more").await;
        assert!(stuck.ended.is_cancelled());
        streams.deliver(2, b"through").await;
        assert_eq!(other.inbox.take().await, "through");
        drop(stuck);
        assert_eq!(streams.len(), 1);
        streams.deliver(1, b"late").await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_takes_bytes_now_and_then_is_not_ended() {
        let (streams, tunnel) = (Streams::new(None), CancellationToken::new());
        let place = streams.open(1, &tunnel).ok().unwrap();
        let reader = async {
            let mut read = 0;
            while read < 10 * MAX_BUFFERED_BYTES {
                tokio::time::advance(STALL_TIMEOUT / 4).await;
                let part = place.inbox.take().await.len();
                place.inbox.record_passed(part);
                read += part;
            }
        };
        let chunk = vec![7; MAX_BUFFERED_BYTES];
        let writer = async {
            for _ in 0..10 {
                streams.deliver(1, &chunk).await;
            }
        };
        tokio::join!(reader, writer);
        assert!(!place.ended.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cloud_with_windows_that_exceeds_one_loses_that_stream_at_once() {
        let (streams, tunnel) = (Streams::new(Some(WINDOW)), CancellationToken::new());
        let begun = tokio::time::Instant::now();
        let (full, greedy) = (
            streams.open(1, &tunnel).ok().unwrap(),
            streams.open(2, &tunnel).ok().unwrap(),
        );
        for byte in vec![7; WINDOW] {
            streams.deliver(1, &[byte]).await;
        }
        assert!(!full.ended.is_cancelled(), "a window of single bytes");
        streams.deliver(1, b"one more").await;
        assert!(full.ended.is_cancelled());
        for taken in [Some(0), Some(WINDOW)] {
            streams.add_credit(2, taken);
        }
        assert!(!greedy.ended.is_cancelled());
        streams.add_credit(2, Some(usize::MAX));
        assert!(greedy.ended.is_cancelled());
        let unclear = streams.open(3, &tunnel).ok().unwrap();
        streams.add_credit(3, None);
        assert!(unclear.ended.is_cancelled());
        streams.add_credit(77, Some(1));
        assert!(begun.elapsed().is_zero(), "nothing waits");
    }

    #[test]
    fn streams_are_limited_and_their_numbers_are_unique() {
        let (streams, tunnel) = (Streams::new(None), CancellationToken::new());
        let mut places: Vec<_> = (0..MAX_STREAMS as u64)
            .map(|id| streams.open(id, &tunnel).ok().unwrap())
            .collect();
        assert_eq!(streams.open(0, &tunnel).err(), Some(OpenError::AlreadyOpen));
        assert_eq!(streams.open(1000, &tunnel).err(), Some(OpenError::TooMany));
        places.pop();
        assert!(streams.open(1000, &tunnel).is_ok());
        tunnel.cancel();
        assert!(places[0].ended.is_cancelled());
    }
}
