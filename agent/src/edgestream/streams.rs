//! The streams of a tunnel, by the cloud's numbers, and what waits for each.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Streams at a time; further ones are refused. Each follows a log, or holds a connection to the runtime.
pub(super) const MAX_STREAMS: usize = 256;
/// Bytes from the cloud that wait for a stream …
const BUFFER: usize = 128 * 1024;
/// … of which each message counts as no less than this: CloudCore sends some of one byte.
const LEAST: usize = 128;
/// How long a stream may take no bytes before it is ended; meanwhile nothing else of the tunnel is read.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// A part of what the cloud sends, and its place in the buffer.
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    _place: OwnedSemaphorePermit,
}

/// One stream, as the reader of the tunnel sees it.
#[derive(Clone)]
struct Entry {
    pieces: mpsc::Sender<Piece>,
    room: Arc<Semaphore>,
    ended: CancellationToken,
}

/// The streams; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<HashMap<u64, Entry>>>);

/// The stream's own end of its entry, which goes with it.
pub(super) struct Place {
    id: u64,
    streams: Streams,
    /// Cancelled when the stream is to end.
    pub(super) ended: CancellationToken,
    /// What the cloud sends.
    pub(super) pieces: mpsc::Receiver<Piece>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.ended.cancel();
        self.streams.0.lock().remove(&self.id);
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
    /// A new stream, which ends with `tunnel`.
    pub(super) fn open(&self, id: u64, tunnel: &CancellationToken) -> Result<Place, Refused> {
        let mut all = self.0.lock();
        if all.contains_key(&id) {
            return Err(Refused::Known);
        }
        if all.len() >= MAX_STREAMS {
            return Err(Refused::TooMany);
        }
        let (pieces, received) = mpsc::channel(BUFFER / LEAST);
        let ended = tunnel.child_token();
        let room = Arc::new(Semaphore::new(BUFFER));
        all.insert(id, Entry { pieces, room, ended: ended.clone() });
        Ok(Place { id, streams: self.clone(), ended, pieces: received })
    }

    /// Ends a stream; an unknown one has ended.
    pub(super) fn end(&self, id: u64) {
        if let Some(entry) = self.0.lock().get(&id) {
            entry.ended.cancel();
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Hands bytes to a stream, and waits while it has no room; what is for an unknown one is dropped.
    pub(super) async fn deliver(&self, id: u64, bytes: &[u8]) {
        let Some(entry) = self.0.lock().get(&id).cloned() else {
            tracing::debug!(id, "bytes for a stream that is not there");
            return;
        };
        let cost = u32::try_from(bytes.len().clamp(LEAST, BUFFER)).unwrap_or(u32::MAX);
        let place = tokio::select! {
            // cancel-safe, both: the stream has ended, and with it what waits for it
            () = entry.ended.cancelled() => return,
            place = timeout(STALL_TIMEOUT, entry.room.acquire_many_owned(cost)) => place,
        };
        // A copy: the bytes are part of a larger buffer, which they would keep.
        let piece = |place| Piece { bytes: Bytes::copy_from_slice(bytes), _place: place };
        let taken = match place {
            Ok(Ok(place)) => entry.pieces.try_send(piece(place)).is_ok(),
            Ok(Err(_)) | Err(_) => false,
        };
        if !taken {
            tracing::warn!(id, "a stream takes no bytes of the cloud, and is ended");
            entry.ended.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_takes_nothing_is_ended_and_the_others_go_on() {
        let (streams, tunnel) = (Streams::default(), CancellationToken::new());
        let stuck = streams.open(1, &tunnel).ok().unwrap();
        let mut other = streams.open(2, &tunnel).ok().unwrap();
        let chunk = vec![7; 16 * 1024];
        for _ in 0..BUFFER / chunk.len() {
            streams.deliver(1, &chunk).await;
        }
        assert!(!stuck.ended.is_cancelled(), "as much as there is room for");
        streams.deliver(1, b"one more").await;
        assert!(stuck.ended.is_cancelled());
        streams.deliver(2, b"through").await;
        assert_eq!(other.pieces.recv().await.unwrap().bytes, "through");
        drop(stuck);
        assert_eq!(streams.len(), 1);
        streams.deliver(1, b"late").await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_takes_bytes_now_and_then_is_not_ended() {
        let (streams, tunnel) = (Streams::default(), CancellationToken::new());
        let mut place = streams.open(1, &tunnel).ok().unwrap();
        let reader = async {
            let mut read = 0;
            while read < 10 * BUFFER {
                tokio::time::advance(STALL_TIMEOUT / 4).await;
                read += place.pieces.recv().await.unwrap().bytes.len();
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

    #[test]
    fn there_are_so_many_streams_and_each_number_once() {
        let (streams, tunnel) = (Streams::default(), CancellationToken::new());
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
