//! Messages that go to the cloud as they are. While it is not connected they wait on disk, see [`crate::outbox`].

use std::{
    mem,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};
use tracing::warn;
use wire::Upstream;

use super::handle::Receipt;
use crate::{
    edgehub::now_ms,
    outbox::{Item, Limits},
};

/// Messages on their way to the outbox; more are dropped, and said to be: neither cloud nor disk takes them.
pub(super) const WAITING: usize = 512;
/// What the outbox keeps while the cloud is not connected: a message a second for nearly three hours.
pub(super) const LIMITS: Limits = Limits { messages: 10_000, bytes: 16 << 20 };
/// So many of them are not acknowledged before they are sent to the cloud, which never answers one, or on disk. A broker sends a
/// client only so many more while it waits for acknowledgements (20 at Mosquitto), and requests about devices are to be among them.
pub(super) const HELD: usize = 4;
/// How often it is said that messages are dropped.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// A message for the cloud.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) topic: String,
    pub(super) payload: Bytes,
    pub(super) receipt: Receipt,
    /// One of the few places of those that are not acknowledged yet.
    pub(super) held: Option<OwnedSemaphorePermit>,
}

impl From<Upload> for Item {
    fn from(upload: Upload) -> Self {
        let Upload { topic, payload, receipt, held } = upload;
        let text = String::from_utf8_lossy(&payload).into_owned();
        let message =
            Upstream::BusUpload { topic: topic.into(), payload: text.into() }.into_message(now_ms());
        let kept = move || {
            receipt.give();
            drop(held);
        };
        Self { message, key: None, kept: Some(Box::new(kept)) }
    }
}

/// Messages for which there was no room.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// When it was said last, and how many there have been since.
    said: Mutex<(Option<Instant>, u64)>,
    uploads: AtomicU64,
    requests: AtomicU64,
}

impl Dropped {
    /// One more; it is said once in a while.
    pub(super) fn note(&self, topic: &str, now: Instant) {
        if let Some(count) = self.count(now) {
            warn!(
                topic,
                count,
                "messages come faster than they can be kept for the cloud; this one and others are dropped"
            );
        }
    }

    /// A request about devices for which there was no room.
    pub(super) fn note_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Messages for the cloud since the start.
    pub(super) fn uploads(&self) -> u64 {
        self.uploads.load(Ordering::Relaxed)
    }

    /// Requests about devices since the start.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// How many there were since it was said last, if it is to be said now.
    fn count(&self, now: Instant) -> Option<u64> {
        self.uploads.fetch_add(1, Ordering::Relaxed);
        let (said, count) = &mut *self.said.lock();
        *count += 1;
        if said.is_some_and(|said| now.saturating_duration_since(said) < SAID_EVERY) {
            return None;
        }
        *said = Some(now);
        Some(mem::take(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_said_once_in_a_while() {
        let (dropped, start) = (Dropped::default(), Instant::now());
        assert_eq!(dropped.count(start), Some(1));
        assert_eq!(dropped.count(start), None);
        assert_eq!(dropped.count(start + SAID_EVERY / 2), None);
        assert_eq!(dropped.count(start + SAID_EVERY), Some(3));
        assert_eq!(dropped.count(start + SAID_EVERY), None);
    }
}
