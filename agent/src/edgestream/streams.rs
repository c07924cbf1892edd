//! The streams of a tunnel, by the cloud's numbers, and what waits for each.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wire::tunnel::window::WINDOW;

use super::flow::{Allowance, Inbox};

/// Streams at a time; further ones are refused. Each follows a log, or holds a connection to the runtime.
pub(super) const MAX_STREAMS: usize = 256;
/// Bytes from a cloud without windows that wait for a stream.
const BUFFER: usize = 128 * 1024;
/// How long a stream may take no bytes of such a cloud before it is ended; meanwhile nothing else of the tunnel is read.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// One stream, as the reader of the tunnel sees it.
#[derive(Clone)]
struct Entry {
    inbox: Arc<Inbox>,
    allowance: Option<Arc<Allowance>>,
    ended: CancellationToken,
}

/// The streams; cheap to clone.
#[derive(Clone)]
pub(super) struct Streams {
    all: Arc<Mutex<HashMap<u64, Entry>>>,
    /// The cloud's window of each; `None`: it has none, and takes what there is.
    window: Option<usize>,
}

/// The stream's own end of its entry, which goes with it.
pub(super) struct Place {
    id: u64,
    streams: Streams,
    /// Cancelled when the stream is to end.
    pub(super) ended: CancellationToken,
    /// What the cloud sends.
    pub(super) inbox: Arc<Inbox>,
    /// How many bytes the cloud takes before it has read any; `None`: it has no windows and takes any number.
    pub(super) allowance: Option<Arc<Allowance>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.ended.cancel();
        self.streams.all.lock().remove(&self.id);
    }
}

/// Why there is no new stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There is one of this number.
    Known,
    /// There are [`MAX_STREAMS`].
    TooMany,
}

impl Streams {
    /// None yet, of a tunnel to a cloud with this window.
    pub(super) fn new(window: Option<usize>) -> Self {
        Self { all: Arc::default(), window }
    }

    /// A new stream, which ends with `tunnel`.
    pub(super) fn open(&self, id: u64, tunnel: &CancellationToken) -> Result<Place, Refused> {
        let mut all = self.all.lock();
        if all.contains_key(&id) {
            return Err(Refused::Known);
        }
        if all.len() >= MAX_STREAMS {
            return Err(Refused::TooMany);
        }
        let ended = tunnel.child_token();
        let inbox = Arc::new(Inbox::new(if self.window.is_some() { WINDOW } else { BUFFER }));
        let allowance = self.window.map(|window| Arc::new(Allowance::new(window)));
        let entry = Entry { inbox: inbox.clone(), allowance: allowance.clone(), ended: ended.clone() };
        all.insert(id, entry);
        Ok(Place { id, streams: self.clone(), ended, inbox, allowance })
    }

    /// Ends a stream; an unknown one has ended.
    pub(super) fn end(&self, id: u64) {
        if let Some(entry) = self.all.lock().get(&id) {
            entry.ended.cancel();
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.lock().len()
    }

    /// The cloud has taken so many bytes of a stream; `None`: it says so in no way that can be read.
    pub(super) fn taken(&self, id: u64, bytes: Option<usize>) {
        let Some(entry) = self.all.lock().get(&id).cloned() else { return };
        let Some(allowance) = entry.allowance else { return };
        if bytes.is_none_or(|bytes| !allowance.add(bytes)) {
            tracing::warn!(id, "the cloud takes more of a stream than can be, which is ended");
            entry.ended.cancel();
        }
    }

    /// Hands bytes to a stream; what is for an unknown one is dropped. Where the cloud has no windows, waits while there is no room.
    pub(super) async fn deliver(&self, id: u64, mut bytes: &[u8]) {
        let Some(entry) = self.all.lock().get(&id).cloned() else {
            tracing::debug!(id, "bytes for a stream that is not there");
            return;
        };
        loop {
            entry.inbox.put(&mut bytes);
            if bytes.is_empty() {
                return;
            }
            if entry.allowance.is_some() {
                tracing::warn!(id, "the cloud sends more than a stream takes, which is ended");
                return entry.ended.cancel();
            }
            tokio::select! {
                // cancel-safe, both: the stream has ended, and with it what waits for it
                () = entry.ended.cancelled() => return,
                room = timeout(STALL_TIMEOUT, entry.inbox.room()) => if room.is_err() {
                    tracing::warn!(id, "a stream takes no bytes of the cloud, and is ended");
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
        for _ in 0..BUFFER / chunk.len() {
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
            while read < 10 * BUFFER {
                tokio::time::advance(STALL_TIMEOUT / 4).await;
                let part = place.inbox.take().await.len();
                place.inbox.passed(part);
                read += part;
            }
        };
        let chunk = vec![7; BUFFER];
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
        let (full, greedy) = (streams.open(1, &tunnel).ok().unwrap(), streams.open(2, &tunnel).ok().unwrap());
        for byte in vec![7; WINDOW] {
            streams.deliver(1, &[byte]).await;
        }
        assert!(!full.ended.is_cancelled(), "a window of single bytes");
        streams.deliver(1, b"one more").await;
        assert!(full.ended.is_cancelled());
        for taken in [Some(0), Some(WINDOW)] {
            streams.taken(2, taken);
        }
        assert!(!greedy.ended.is_cancelled());
        streams.taken(2, Some(usize::MAX));
        assert!(greedy.ended.is_cancelled());
        let unclear = streams.open(3, &tunnel).ok().unwrap();
        streams.taken(3, None);
        assert!(unclear.ended.is_cancelled());
        streams.taken(77, Some(1));
        assert!(begun.elapsed().is_zero(), "nothing waits");
    }

    #[test]
    fn there_are_so_many_streams_and_each_number_once() {
        let (streams, tunnel) = (Streams::new(None), CancellationToken::new());
        let mut places: Vec<_> =
            (0..MAX_STREAMS as u64).map(|id| streams.open(id, &tunnel).ok().unwrap()).collect();
        assert_eq!(streams.open(0, &tunnel).err(), Some(Refused::Known));
        assert_eq!(streams.open(1000, &tunnel).err(), Some(Refused::TooMany));
        places.pop();
        assert!(streams.open(1000, &tunnel).is_ok());
        tunnel.cancel();
        assert!(places[0].ended.is_cancelled());
    }
}
