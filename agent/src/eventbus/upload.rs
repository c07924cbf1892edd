//! Messages to the cloud that are sent unchanged. While it is not connected they wait on disk, see [`crate::outbox`].

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
use tokio::time::Instant;
use tracing::warn;
use wire::{Message, Operation, Upstream, bus::Payload, text::short};

use super::{promises::Promises, receipt::Receipt};
use crate::{
    edgehub::{EdgeHub, Unreachable},
    outbox::{Delivery, Item, Limits},
};

/// The most messages that are queued for the outbox. If the disk takes no more, those of QoS 0 are dropped and logged, and all others
/// are not acknowledged: their publishers wait.
pub(super) const MAX_QUEUED_UPLOADS: usize = 512;
/// The most messages that wait on disk while the cloud is not connected: a message a second for nearly three hours.
pub(super) const OUTBOX_LIMITS: Limits = Limits {
    messages: 10_000,
    bytes: 16 << 20,
};
/// The most messages that are being sent to the cloud at the same time.
pub(super) const MAX_CONCURRENT_DELIVERIES: usize = 32;
/// How long the cloud may take to answer a message, if it has promised answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The shortest time between two warnings about dropped messages.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// A message for the cloud.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) topic: String,
    pub(super) payload: Bytes,
    pub(super) receipt: Receipt,
}

impl From<Upload> for Item {
    fn from(upload: Upload) -> Self {
        let Upload {
            topic,
            payload,
            receipt,
        } = upload;
        let payload = Payload::from(Vec::from(payload)).content();
        let message = Upstream::BusUpload {
            topic: topic.into(),
            payload,
        }
        .into_message(clock::unix_millis());
        let is_awaited = receipt.is_awaited();
        Self {
            message,
            key: None,
            on_stored: Some(Box::new(move || receipt.acknowledge())),
            is_awaited,
        }
    }
}

/// Sends an upload. If the cloud has promised answers, it is done when the answer has come: until then it is sent again under
/// the same id, by which the cloud recognizes it. CloudCore promises none, and the upload is done when it was written to the
/// connection.
pub(super) fn deliver(hub: EdgeHub, promises: Promises, dropped: Arc<DroppedCounts>) -> Delivery {
    Delivery::new(move |message: Message| {
        let (hub, promises, dropped) = (hub.clone(), promises.clone(), dropped.clone());
        async move {
            let topic = message.route.resource.as_str().to_owned();
            if !promises.of(&topic).answered {
                return hub.deliver(message).await;
            }
            match hub.request(message, ANSWER_TIMEOUT).await {
                Ok(answer) => {
                    promises.record_answered(&topic);
                    if answer.route.operation == Operation::Error {
                        let why = answer.content.as_str().map(short).unwrap_or_default();
                        dropped.count_refused(&topic, &why, Instant::now());
                    }
                    Ok(())
                }
                Err(Unreachable::Timeout(_)) if promises.record_missed(&topic) => {
                    warn!(
                        topic,
                        "confirmation of a message timed out; sending without confirmation"
                    );
                    Err(Unreachable::Offline)
                }
                Err(unreachable) => Err(unreachable),
            }
        }
    })
}

/// Counts dropped messages.
#[derive(Debug, Default)]
pub(super) struct DroppedCounts {
    /// The time of the last warning, and the number of messages since.
    last_warning: Mutex<(Option<Instant>, u64)>,
    uploads: AtomicU64,
    requests: AtomicU64,
    /// Messages that waited on disk for too long without the cloud.
    of_outbox: Arc<AtomicU64>,
    /// Messages that are no text, for a cloud that accepts text only.
    no_text: AtomicU64,
    /// Messages that the cloud refuses for good.
    refused: AtomicU64,
}

impl DroppedCounts {
    /// Counts a dropped message, and logs it at intervals.
    pub(super) fn count_upload(&self, topic: &str, now: Instant) {
        if let Some(count) = self.count(now) {
            warn!(
                topic,
                count, "message queue for the cloud is full; this message and others dropped"
            );
        }
    }

    /// Counts a dropped request about devices.
    pub(super) fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counter of the outbox.
    pub(super) fn of_outbox(&self) -> Arc<AtomicU64> {
        self.of_outbox.clone()
    }

    /// Counts a message that is no text.
    pub(super) fn count_no_text(&self, topic: &str, now: Instant) {
        self.no_text.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.due_warning(now) {
            warn!(
                topic,
                count,
                "message dropped: not UTF-8 text, which this cloud requires; send text or base64"
            );
        }
    }

    /// Counts a message that the cloud refuses for good.
    fn count_refused(&self, topic: &str, why: &str, now: Instant) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.due_warning(now) {
            warn!(
                topic,
                count,
                error = why,
                "cloud rejected a message of a rule"
            );
        }
    }

    /// Returns how many messages were dropped while the cloud was away, were no text, and were refused by the cloud, since the
    /// start.
    pub(super) fn others(&self) -> [u64; 3] {
        [&*self.of_outbox, &self.no_text, &self.refused].map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns the number of dropped messages for the cloud since the start.
    pub(super) fn uploads(&self) -> u64 {
        self.uploads.load(Ordering::Relaxed)
    }

    /// Returns the number of dropped requests about devices since the start.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Counts a dropped message; returns the number since the last warning if one is due.
    fn count(&self, now: Instant) -> Option<u64> {
        self.uploads.fetch_add(1, Ordering::Relaxed);
        self.due_warning(now)
    }

    fn due_warning(&self, now: Instant) -> Option<u64> {
        let (last_warning, count) = &mut *self.last_warning.lock();
        *count += 1;
        if last_warning.is_some_and(|last_warning| {
            now.saturating_duration_since(last_warning) < WARNING_INTERVAL
        }) {
            return None;
        }
        *last_warning = Some(now);
        Some(mem::take(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_messages_are_logged_at_intervals() {
        let (dropped, start) = (DroppedCounts::default(), Instant::now());
        assert_eq!(dropped.count(start), Some(1));
        assert_eq!(dropped.count(start), None);
        assert_eq!(dropped.count(start + WARNING_INTERVAL / 2), None);
        assert_eq!(dropped.count(start + WARNING_INTERVAL), Some(3));
        assert_eq!(dropped.count(start + WARNING_INTERVAL), None);
    }
}
