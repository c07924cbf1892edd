//! The metrics of EventBus beside those of each broker's [`BrokerQueue`](super::handle::BrokerQueue).

use std::sync::Arc;

use componentbase::{Metric, Queue};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{
    requests::Received,
    upload::{DroppedCounts, Upload},
};
use crate::outbox::Length;

/// The handle of the internal broker, once it runs.
pub(super) type Running = Arc<Mutex<Option<mqtt::Handle>>>;

/// The sources of the metrics.
#[derive(Clone, Debug, Default)]
pub(super) struct BusMetrics(Option<Sources>);

#[derive(Clone, Debug)]
struct Sources {
    broker: Option<Running>,
    requests: mpsc::WeakSender<Received>,
    uploads: mpsc::WeakSender<Upload>,
    dropped: Arc<DroppedCounts>,
    outbox: Option<Length>,
}

impl BusMetrics {
    pub(super) fn new(
        broker: Option<Running>,
        requests: &mpsc::Sender<Received>,
        uploads: &mpsc::Sender<Upload>,
        dropped: Arc<DroppedCounts>,
    ) -> Self {
        let (requests, uploads) = (requests.downgrade(), uploads.downgrade());
        Self(Some(Sources {
            broker,
            requests,
            uploads,
            dropped,
            outbox: None,
        }))
    }

    /// Adds the length of the outbox.
    pub(super) fn with_outbox(mut self, outbox: Length) -> Self {
        self.0
            .iter_mut()
            .for_each(|sources| sources.outbox = Some(outbox.clone()));
        self
    }

    /// Returns the number of messages for the cloud that were dropped, before the disk or on it.
    pub(super) fn dropped_uploads(&self) -> u64 {
        self.0.as_ref().map_or(0, |sources| {
            let [of_outbox, ..] = sources.dropped.others();
            of_outbox + sources.dropped.uploads()
        })
    }

    pub(super) fn queues(&self) -> Vec<Queue> {
        let Some(sources) = &self.0 else {
            return Vec::new();
        };
        let requests = Queue::of("eventbus/requests", &sources.requests);
        let uploads = Queue::of("eventbus/uploads", &sources.uploads);
        requests
            .into_iter()
            .chain(uploads)
            .chain(sources.outbox.as_ref().map(Length::queue))
            .collect()
    }

    pub(super) fn metrics(&self) -> Vec<Metric> {
        let Some(sources) = &self.0 else {
            return Vec::new();
        };
        let uploads = Metric::counter(
            "eventbus_uploads_dropped_total",
            "Messages for the cloud that were dropped because too many waited.",
        );
        let requests = Metric::counter(
            "eventbus_requests_dropped_total",
            "Requests about devices at QoS 0 that were dropped because too many waited.",
        );
        let lost = Metric::counter(
            "eventbus_uploads_lost_total",
            "Messages for the cloud that were lost, by reason: too many waited (outbox_full), not text (no_text), refused by the cloud (refused).",
        );
        let reasons = ["outbox_full", "no_text", "refused"]
            .into_iter()
            .zip(sources.dropped.others());
        let lost = reasons.fold(lost, |metric, (reason, count)| {
            metric.with(&[("reason", reason)], count)
        });
        let mut metrics = vec![
            uploads.of(sources.dropped.uploads()),
            requests.of(sources.dropped.requests()),
            lost,
        ];
        let handle = sources
            .broker
            .as_ref()
            .and_then(|broker| broker.lock().clone());
        if let Some(handle) = handle {
            metrics.extend(broker(handle.counts()));
        }
        metrics
    }
}

/// Returns the metrics of the internal broker.
fn broker(counts: mqtt::Counts) -> [Metric; 11] {
    let counter = |name, help, count| Metric::counter(name, help).of(count);
    let gauge = |name, help, count| Metric::gauge(name, help).of(count);
    [
        counter(
            "mqtt_messages_received_total",
            "Messages that the internal MQTT broker received from publishers, including the agent.",
            counts.received,
        ),
        counter(
            "mqtt_messages_sent_total",
            "Messages that the internal MQTT broker sent to subscribers, including the agent.",
            counts.sent,
        ),
        counter(
            "mqtt_messages_dropped_total",
            "Messages that the internal MQTT broker did not deliver because of a full queue, an expiry or a limit of the client.",
            counts.dropped,
        ),
        counter(
            "mqtt_refused_total",
            "Connections, publications and subscriptions that the internal MQTT broker refused.",
            counts.refused,
        ),
        counter(
            "mqtt_protocol_errors_total",
            "Connections that the internal MQTT broker closed because of malformed or forbidden packets.",
            counts.faults,
        ),
        counter(
            "mqtt_slow_clients_total",
            "Slow clients that the internal MQTT broker disconnected.",
            counts.slow,
        ),
        counter(
            "mqtt_sessions_evicted_total",
            "Sessions without a client that the internal MQTT broker removed to make room for new ones.",
            counts.evicted,
        ),
        gauge(
            "mqtt_clients",
            "Clients connected to the internal MQTT broker.",
            counts.connections,
        ),
        gauge(
            "mqtt_sessions",
            "Sessions of the internal MQTT broker, including sessions without a connected client.",
            counts.sessions,
        ),
        gauge(
            "mqtt_retained_messages",
            "Retained messages of the internal MQTT broker.",
            counts.retained,
        ),
        gauge(
            "mqtt_queued_bytes",
            "Bytes of messages that wait for clients of the internal MQTT broker.",
            counts.queued_bytes,
        ),
    ]
}
