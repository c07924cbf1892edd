//! The handle of EventBus for other modules.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use componentbase::{Metric, Queue};
use tokio::{
    sync::{mpsc, mpsc::error::TrySendError, watch},
    time::sleep,
};

use super::metrics::BusMetrics;

/// The most publications that wait for a broker: more than those of one batch of DeviceTwin.
const MAX_QUEUED_PUBLICATIONS: usize = 1024;

/// How long the internal broker may make no progress before it is considered blocked by the publisher.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// A message to be published.
#[derive(Clone, Debug)]
pub(super) struct Publication {
    pub(super) topic: String,
    pub(super) payload: Bytes,
    /// Receives whether the broker has the message, if a caller waits for that.
    pub(super) outcome_sender: Option<mpsc::Sender<PublishOutcome>>,
}

/// Whether a broker has taken a message; the error says why not.
pub(super) type PublishOutcome = Result<(), String>;

impl Publication {
    /// Sends whether the broker has the message.
    pub(super) fn send_outcome(
        outcome_sender: Option<mpsc::Sender<PublishOutcome>>,
        outcome: PublishOutcome,
    ) {
        if let Some(outcome_sender) = outcome_sender {
            // the receiver may be gone; the channel has space for each broker
            let _ = outcome_sender.try_send(outcome);
        }
    }
}

/// A message that is being published.
#[derive(Debug)]
pub(super) struct Published {
    outcomes: mpsc::Receiver<PublishOutcome>,
    brokers: usize,
}

impl Published {
    /// Waits until every broker has the message, or one refuses it.
    pub(super) async fn outcome(mut self) -> PublishOutcome {
        if self.brokers == 0 {
            return Err("this node has no MQTT broker".to_owned());
        }
        for _ in 0..self.brokers {
            let dropped =
                || Err("too many messages wait for the MQTT broker of this node".to_owned());
            self.outcomes.recv().await.unwrap_or_else(dropped)?;
        }
        Ok(())
    }
}

/// The queue to one broker.
#[derive(Clone, Debug)]
pub(super) struct BrokerQueue {
    queue: mpsc::Sender<Publication>,
    up: watch::Receiver<bool>,
    progress: Arc<Progress>,
    dropped: Arc<AtomicU64>,
    failures: Arc<AtomicU64>,
    /// The broker's name in metrics.
    name: &'static str,
    message_counts: Arc<MessageCounts>,
}

/// Counters of messages.
#[derive(Debug, Default)]
pub(super) struct MessageCounts {
    /// Messages from the broker.
    pub(super) received: AtomicU64,
    /// Messages to the broker.
    pub(super) published: AtomicU64,
}

impl MessageCounts {
    /// Adds one.
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The progress of a broker.
#[derive(Debug)]
pub(super) struct Progress {
    /// The publications that the broker has finished.
    done: AtomicU64,
    /// The value of `done` when the broker stalled.
    stalled_at: AtomicU64,
}

impl Progress {
    /// Counts a finished publication.
    pub(super) fn count_finished(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// The broker's end of a [`BrokerQueue`].
#[derive(Debug)]
pub(super) struct BrokerQueueReceiver {
    /// The messages to publish.
    pub(super) publications: mpsc::Receiver<Publication>,
    /// Whether publications are accepted.
    pub(super) availability: Availability,
    /// Counts finished publications.
    pub(super) progress: Arc<Progress>,
    /// Counts failed and lost connections.
    pub(super) failures: Arc<AtomicU64>,
    /// Counts messages.
    pub(super) message_counts: Arc<MessageCounts>,
}

/// Whether a broker accepts publications. It does not at first.
#[derive(Debug)]
pub(super) struct Availability {
    up: watch::Sender<bool>,
    /// The publications that were dropped.
    dropped: Arc<AtomicU64>,
    /// Those of them that will be published again.
    republished: u64,
}

impl Availability {
    /// Accepts publications; the publisher then repeats its current state.
    pub(super) fn up(&mut self) {
        self.republished = self.dropped.load(Ordering::Relaxed);
        self.up.send_replace(true);
    }

    /// Accepts no publications.
    pub(super) fn down(&self) {
        self.up.send_replace(false);
    }

    /// Awaits `step` while publishers do not wait for space. The second value says that a publication was dropped meanwhile,
    /// and the state has to be published again.
    pub(super) async fn without_publishers<T>(
        &mut self,
        step: impl Future<Output = T>,
    ) -> (T, bool) {
        self.down();
        let done = step.await;
        let before = self.republished;
        self.up();
        (done, self.republished != before)
    }
}

impl BrokerQueue {
    /// Creates the queue to a broker that takes nothing while it is down.
    pub(super) fn new() -> (Self, BrokerQueueReceiver) {
        Self::with(
            "external",
            Progress {
                done: AtomicU64::new(0),
                stalled_at: AtomicU64::new(0),
            },
        )
    }

    /// Creates the queue to a broker that continues while it is down, unless the publisher blocks it; it reports its progress.
    pub(super) fn in_process() -> (Self, BrokerQueueReceiver) {
        Self::with(
            "internal",
            Progress {
                done: AtomicU64::new(0),
                stalled_at: AtomicU64::new(u64::MAX),
            },
        )
    }

    fn with(name: &'static str, progress: Progress) -> (Self, BrokerQueueReceiver) {
        let message_counts = Arc::<MessageCounts>::default();
        let (queue, publications) = mpsc::channel(MAX_QUEUED_PUBLICATIONS);
        let (is_up, up) = watch::channel(false);
        let (failures, dropped) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let progress = Arc::new(progress);
        let broker_queue = Self {
            queue,
            up,
            progress: progress.clone(),
            dropped: dropped.clone(),
            failures: failures.clone(),
            name,
            message_counts: message_counts.clone(),
        };
        let availability = Availability {
            up: is_up,
            dropped,
            republished: 0,
        };
        (
            broker_queue,
            BrokerQueueReceiver {
                publications,
                availability,
                progress,
                failures,
                message_counts,
            },
        )
    }

    /// Waits for space while the broker is up or makes progress; otherwise a full queue drops the publication.
    async fn publish(&self, publication: Publication) {
        let Err(TrySendError::Full(publication)) = self.queue.try_send(publication) else {
            return;
        };
        clock::select! {
            biased;
            // cancel-safe: a publication that is not sent is counted below
            sent = self.queue.send(publication) => if sent.is_ok() { return },
            () = self.wait_until_stalled() => {}
        }
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the broker is down and makes no progress. A stalled broker stays so until it has finished a publication.
    async fn wait_until_stalled(&self) {
        let (mut up, progress) = (self.up.clone(), &self.progress);
        while up.wait_for(|up| !up).await.is_ok() {
            let done = progress.done.load(Ordering::Relaxed);
            if done == progress.stalled_at.load(Ordering::Relaxed) {
                return;
            }
            sleep(STALL_TIMEOUT).await;
            if !*up.borrow() && done == progress.done.load(Ordering::Relaxed) {
                progress.stalled_at.store(done, Ordering::Relaxed);
            }
        }
    }
}

/// The handle, which publishes at every broker; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Bus {
    broker_queues: Arc<[BrokerQueue]>,
    address: Option<watch::Receiver<Option<SocketAddr>>>,
    bus_metrics: BusMetrics,
}

impl Bus {
    pub(super) fn new(
        broker_queues: Vec<BrokerQueue>,
        address: Option<watch::Receiver<Option<SocketAddr>>>,
    ) -> Self {
        Self {
            broker_queues: broker_queues.into(),
            address,
            bus_metrics: BusMetrics::default(),
        }
    }

    /// Sets the sources of further metrics.
    pub(super) fn with(self, bus_metrics: BusMetrics) -> Self {
        Self {
            bus_metrics,
            ..self
        }
    }

    /// Returns the metrics of the brokers and their messages.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let of = |read: fn(&BrokerQueue) -> u64| {
            self.broker_queues
                .iter()
                .map(move |broker_queue| (broker_queue.name, read(broker_queue)))
        };
        let with = |metric: Metric, values: Vec<(&'static str, u64)>| {
            values.into_iter().fold(metric, |metric, (broker, figure)| {
                metric.with(&[("broker", broker)], figure)
            })
        };
        let mut metrics = vec![
            with(
                Metric::gauge(
                    "eventbus_broker_connected",
                    "Whether the MQTT broker (internal, external) is connected (1) or not (0).",
                ),
                of(|broker_queue| u64::from(*broker_queue.up.borrow())).collect(),
            ),
            with(
                Metric::counter(
                    "eventbus_messages_received_total",
                    "Messages received from the MQTT broker.",
                ),
                of(|broker_queue| broker_queue.message_counts.received.load(Ordering::Relaxed))
                    .collect(),
            ),
            with(
                Metric::counter(
                    "eventbus_messages_published_total",
                    "Messages published to the MQTT broker.",
                ),
                of(|broker_queue| {
                    broker_queue
                        .message_counts
                        .published
                        .load(Ordering::Relaxed)
                })
                .collect(),
            ),
            with(
                Metric::counter(
                    "eventbus_publications_dropped_total",
                    "Messages for the MQTT broker that were dropped because too many waited.",
                ),
                of(|broker_queue| broker_queue.dropped.load(Ordering::Relaxed)).collect(),
            ),
            with(
                Metric::counter(
                    "eventbus_broker_failures_total",
                    "Connections to the MQTT broker that failed or were lost.",
                ),
                of(|broker_queue| broker_queue.failures.load(Ordering::Relaxed)).collect(),
            ),
        ];
        metrics.extend(self.bus_metrics.metrics());
        metrics
    }

    /// Returns the number of messages for the cloud that were dropped since the start because too many waited.
    pub(crate) fn dropped_uploads(&self) -> u64 {
        self.bus_metrics.dropped_uploads()
    }

    /// Reports how full the queues are.
    pub(crate) fn queues(&self) -> Vec<Queue> {
        let name = |broker| {
            if broker == "internal" {
                "eventbus/internal"
            } else {
                "eventbus/external"
            }
        };
        let broker_queues = self.broker_queues.iter();
        let mut queues: Vec<Queue> = broker_queues
            .filter_map(|broker_queue| {
                Queue::of(name(broker_queue.name), &broker_queue.queue.downgrade())
            })
            .collect();
        queues.extend(self.bus_metrics.queues());
        queues
    }

    /// Returns a handle without brokers: a node without MQTT.
    pub fn disabled() -> Self {
        Self::default()
    }

    /// Publishes at every broker. A message that does not fit into the queue of a broker that is down is dropped and counted.
    pub async fn publish(&self, topic: String, payload: impl Into<Bytes>) {
        let publication = Publication {
            topic,
            payload: payload.into(),
            outcome_sender: None,
        };
        for broker_queue in self.broker_queues.iter() {
            broker_queue.publish(publication.clone()).await;
        }
    }

    /// Publishes, and returns a handle to await the outcome.
    pub(super) async fn begin_publish(
        &self,
        topic: String,
        payload: impl Into<Bytes>,
    ) -> Published {
        let (outcome_sender, outcomes) = mpsc::channel(self.broker_queues.len().max(1));
        let publication = Publication {
            topic,
            payload: payload.into(),
            outcome_sender: Some(outcome_sender),
        };
        for broker_queue in self.broker_queues.iter() {
            broker_queue.publish(publication.clone()).await;
        }
        Published {
            outcomes,
            brokers: self.broker_queues.len(),
        }
    }

    /// Returns the number of dropped publications.
    pub fn dropped_count(&self) -> u64 {
        self.broker_queues
            .iter()
            .map(|broker_queue| broker_queue.dropped.load(Ordering::Relaxed))
            .sum()
    }

    /// Returns the number of failed and lost connections.
    pub fn failures(&self) -> u64 {
        self.broker_queues
            .iter()
            .map(|broker_queue| broker_queue.failures.load(Ordering::Relaxed))
            .sum()
    }

    /// Returns the address of the internal broker, once it listens; `None` if there is none, or it has ended.
    pub async fn internal_address(&self) -> Option<SocketAddr> {
        let mut address = self.address.clone()?;
        let found = address.wait_for(Option::is_some).await.ok()?;
        *found
    }

    /// Returns a watch of that address; `None` if there is no internal broker.
    pub(crate) fn internal_listening(&self) -> Option<watch::Receiver<Option<SocketAddr>>> {
        self.address.clone()
    }

    /// Reports whether every broker is up.
    pub fn is_up(&self) -> bool {
        self.broker_queues
            .iter()
            .all(|broker_queue| *broker_queue.up.borrow())
    }
}
