//! Messages that go to the cloud as they are. While it is not connected they wait on disk, see [`crate::outbox`].

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};
use tracing::warn;
use wire::{Message, Operation, Upstream, bus::Payload, text::short};

use super::{promises::Promises, receipt::Receipt};
use crate::rt::unix_millis;
use crate::{
    edgehub::{EdgeHub, Unreachable},
    outbox::{Deliver, Item, Limits},
};

/// Messages on their way to the outbox; more are dropped, and said to be: neither cloud nor disk takes them.
pub(super) const MAX_QUEUED_UPLOADS: usize = 512;
/// What the outbox keeps while the cloud is not connected: a message a second for nearly three hours.
pub(super) const OUTBOX_LIMITS: Limits = Limits { messages: 10_000, bytes: 16 << 20 };
/// So many of them are not acknowledged before they are sent to the cloud, which never answers one, or on disk. A broker sends a
/// client only so many more while it waits for acknowledgements (20 at Mosquitto), and requests about devices are to be among them.
pub(super) const MAX_UNACKNOWLEDGED: usize = 4;
/// Messages on their way to the cloud at the same time.
pub(super) const MAX_CONCURRENT_DELIVERIES: usize = 32;
/// How long the cloud may take to answer for one, where it has promised to.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is said that messages are dropped.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

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
        let payload = Payload::from(Vec::from(payload)).content();
        let message = Upstream::BusUpload { topic: topic.into(), payload }.into_message(unix_millis());
        let kept = move || {
            receipt.give();
            drop(held);
        };
        Self { message, key: None, kept: Some(Box::new(kept)) }
    }
}

/// Sends an upload. Where the cloud has promised an answer it is done when that has come: until then it is sent again under the same
/// id, by which the cloud knows it. CloudCore promises none, and there it is done when it was written to the connection.
pub(super) fn deliver(hub: EdgeHub, promises: Promises, dropped: Arc<Dropped>) -> Deliver {
    Deliver::new(move |message: Message| {
        let (hub, promises, dropped) = (hub.clone(), promises.clone(), dropped.clone());
        async move {
            let topic = message.route.resource.as_str().to_owned();
            if !promises.of(&topic).answered {
                return hub.deliver(message).await;
            }
            match hub.request(message, ANSWER_TIMEOUT).await {
                Ok(answer) => {
                    promises.kept(&topic);
                    if answer.route.operation == Operation::Error {
                        let why = answer.content.as_str().map(short).unwrap_or_default();
                        dropped.note_refused(&topic, &why, Instant::now());
                    }
                    Ok(())
                }
                Err(Unreachable::Timeout(_)) if promises.broken(&topic) => {
                    warn!(
                        topic,
                        "the cloud does not answer for messages, though it has said so; they are sent without that from now on"
                    );
                    Err(Unreachable::Offline)
                }
                Err(unreachable) => Err(unreachable),
            }
        }
    })
}

/// Messages for which there was no room.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// When it was said last, and how many there have been since.
    said: Mutex<(Option<Instant>, u64)>,
    uploads: AtomicU64,
    requests: AtomicU64,
    /// Those that waited on disk for too long a time without the cloud.
    of_outbox: Arc<AtomicU64>,
    /// Those that are no text, for a cloud that knows nothing else.
    no_text: AtomicU64,
    /// Those that the cloud never carries out.
    refused: AtomicU64,
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

    /// The counter of the outbox.
    pub(super) fn of_outbox(&self) -> Arc<AtomicU64> {
        self.of_outbox.clone()
    }

    /// One more that is no text.
    pub(super) fn note_no_text(&self, topic: &str, now: Instant) {
        self.no_text.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.is_to_be_said(now) {
            warn!(
                topic,
                count,
                "a message is no UTF-8 text, and this cloud takes nothing else; it is dropped: send text, or base64 in it"
            );
        }
    }

    /// One more that the cloud never carries out.
    fn note_refused(&self, topic: &str, why: &str, now: Instant) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.is_to_be_said(now) {
            warn!(topic, count, why, "the cloud does not take a message of a rule");
        }
    }

    /// How many were dropped while the cloud was away, were no text, and were refused by the cloud, since the start.
    pub(super) fn others(&self) -> [u64; 3] {
        [&*self.of_outbox, &self.no_text, &self.refused].map(|count| count.load(Ordering::Relaxed))
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
        self.is_to_be_said(now)
    }

    fn is_to_be_said(&self, now: Instant) -> Option<u64> {
        let (said, count) = &mut *self.said.lock();
        *count += 1;
        if said.is_some_and(|said| now.saturating_duration_since(said) < WARNING_INTERVAL) {
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
        assert_eq!(dropped.count(start + WARNING_INTERVAL / 2), None);
        assert_eq!(dropped.count(start + WARNING_INTERVAL), Some(3));
        assert_eq!(dropped.count(start + WARNING_INTERVAL), None);
    }
}
