//! What other rooms hold of this one.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{mpsc, mpsc::error::TrySendError, watch},
    time::sleep,
};
use wire::topic::Topic;

use super::{figures::Figures, receipt::Receipt};
use crate::rt::{Metric, Queue};

/// Publications that wait for a broker: those of one turn of DeviceTwin, and more.
const MAX_QUEUED_PUBLICATIONS: usize = 1024;

/// How long a broker that goes on by itself may take nothing before it is taken to wait for whoever publishes.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Something to be published.
#[derive(Clone, Debug)]
pub(super) struct Publication {
    pub(super) topic: String,
    pub(super) payload: Bytes,
    /// Told whether the broker has it, where anybody waits for that.
    pub(super) told: Option<mpsc::Sender<Outcome>>,
}

/// Whether a broker has taken a message; the error says why not.
pub(super) type Outcome = Result<(), String>;

impl Publication {
    /// Tells whether a broker has it.
    pub(super) fn tell(told: Option<mpsc::Sender<Outcome>>, outcome: Outcome) {
        if let Some(told) = told {
            // whoever asked may have left; there is room for each broker
            let _ = told.try_send(outcome);
        }
    }
}

/// A message on its way to the brokers.
#[derive(Debug)]
pub(super) struct Published {
    outcomes: mpsc::Receiver<Outcome>,
    brokers: usize,
}

impl Published {
    /// Waits until every broker has it, or one does not take it.
    pub(super) async fn outcome(mut self) -> Outcome {
        if self.brokers == 0 {
            return Err("this node has no MQTT broker".to_owned());
        }
        for _ in 0..self.brokers {
            let dropped = || Err("too many messages wait for the MQTT broker of this node".to_owned());
            self.outcomes.recv().await.unwrap_or_else(dropped)?;
        }
        Ok(())
    }
}

/// The way to one broker.
#[derive(Clone, Debug)]
pub(super) struct Outlet {
    queue: mpsc::Sender<Publication>,
    up: watch::Receiver<bool>,
    progress: Arc<Progress>,
    dropped: Arc<AtomicU64>,
    failures: Arc<AtomicU64>,
    /// Which broker it is, in metrics.
    name: &'static str,
    passed: Arc<Passed>,
}

/// Messages that went by.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// From the broker.
    pub(super) received: AtomicU64,
    /// To it.
    pub(super) published: AtomicU64,
}

impl Passed {
    /// One more.
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// How far a broker has come with what it was given.
#[derive(Debug)]
pub(super) struct Progress {
    /// Publications that it is done with.
    done: AtomicU64,
    /// With how many it was done when it stood still.
    stood_at: AtomicU64,
}

impl Progress {
    /// It is done with another one.
    pub(super) fn done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the broker's side holds of an [`Outlet`].
#[derive(Debug)]
pub(super) struct Inlet {
    /// What to publish.
    pub(super) publications: mpsc::Receiver<Publication>,
    /// Whether that can be done.
    pub(super) standing: Standing,
    /// To be told of what has been done.
    pub(super) progress: Arc<Progress>,
    /// Connections that did not come about, or were lost.
    pub(super) failures: Arc<AtomicU64>,
    /// Messages that went by.
    pub(super) passed: Arc<Passed>,
}

/// Whether a broker takes publications, as far as whoever publishes is concerned. It does not at first.
#[derive(Debug)]
pub(super) struct Standing {
    up: watch::Sender<bool>,
    /// Publications that were dropped.
    dropped: Arc<AtomicU64>,
    /// Those of them that are said again.
    made_up: u64,
}

impl Standing {
    /// It takes them, from whoever says again all that is so.
    pub(super) fn up(&mut self) {
        self.made_up = self.dropped.load(Ordering::Relaxed);
        self.up.send_replace(true);
    }

    /// It takes none.
    pub(super) fn down(&self) {
        self.up.send_replace(false);
    }

    /// Waits for `step`, and has nobody wait for room here meanwhile. The second value: something was dropped for that, and is
    /// to be said again.
    pub(super) async fn aside<T>(&mut self, step: impl Future<Output = T>) -> (T, bool) {
        self.down();
        let done = step.await;
        let before = self.made_up;
        self.up();
        (done, self.made_up != before)
    }
}

impl Outlet {
    /// The way to a broker that takes nothing while it is down.
    pub(super) fn new() -> (Self, Inlet) {
        Self::with("external", Progress { done: AtomicU64::new(0), stood_at: AtomicU64::new(0) })
    }

    /// The way to a broker that goes on by itself while it is down, unless it waits for whoever publishes; it tells its progress.
    pub(super) fn in_process() -> (Self, Inlet) {
        Self::with("internal", Progress { done: AtomicU64::new(0), stood_at: AtomicU64::new(u64::MAX) })
    }

    fn with(name: &'static str, progress: Progress) -> (Self, Inlet) {
        let passed = Arc::<Passed>::default();
        let (queue, publications) = mpsc::channel(MAX_QUEUED_PUBLICATIONS);
        let (is_up, up) = watch::channel(false);
        let (failures, dropped) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let progress = Arc::new(progress);
        let outlet = Self {
            queue,
            up,
            progress: progress.clone(),
            dropped: dropped.clone(),
            failures: failures.clone(),
            name,
            passed: passed.clone(),
        };
        let standing = Standing { up: is_up, dropped, made_up: 0 };
        (outlet, Inlet { publications, standing, progress, failures, passed })
    }

    /// Waits for room as long as the broker is there, or goes on; a full queue to one that does not drops.
    async fn publish(&self, publication: Publication) {
        let Err(TrySendError::Full(publication)) = self.queue.try_send(publication) else { return };
        tokio::select! {
            biased;
            // cancel-safe: what is not sent is counted below
            sent = self.queue.send(publication) => if sent.is_ok() { return },
            () = self.stands_still() => {}
        }
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the broker is down and does nothing. One that stood still does so until it has done something.
    async fn stands_still(&self) {
        let (mut up, progress) = (self.up.clone(), &self.progress);
        while up.wait_for(|up| !up).await.is_ok() {
            let done = progress.done.load(Ordering::Relaxed);
            if done == progress.stood_at.load(Ordering::Relaxed) {
                return;
            }
            sleep(STALL_TIMEOUT).await;
            if !*up.borrow() && done == progress.done.load(Ordering::Relaxed) {
                progress.stood_at.store(done, Ordering::Relaxed);
            }
        }
    }
}

/// The handle: publishes at every broker; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Bus {
    outlets: Arc<[Outlet]>,
    address: Option<watch::Receiver<Option<SocketAddr>>>,
    figures: Figures,
}

impl Bus {
    pub(super) fn new(outlets: Vec<Outlet>, address: Option<watch::Receiver<Option<SocketAddr>>>) -> Self {
        Self { outlets: outlets.into(), address, figures: Figures::default() }
    }

    /// The same with what else there is to tell of the room.
    pub(super) fn with(self, figures: Figures) -> Self {
        Self { figures, ..self }
    }

    /// The brokers and what goes to them and comes from them, as figures.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let of =
            |read: fn(&Outlet) -> u64| self.outlets.iter().map(move |outlet| (outlet.name, read(outlet)));
        let with = |metric: Metric, figures: Vec<(&'static str, u64)>| {
            figures
                .into_iter()
                .fold(metric, |metric, (broker, figure)| metric.with(&[("broker", broker)], figure))
        };
        let mut metrics = vec![
            with(
                Metric::gauge(
                    "eventbus_broker_connected",
                    "Whether the MQTT broker takes messages (1) or not (0).",
                ),
                of(|outlet| u64::from(*outlet.up.borrow())).collect(),
            ),
            with(
                Metric::counter("eventbus_messages_received_total", "Messages from the MQTT broker."),
                of(|outlet| outlet.passed.received.load(Ordering::Relaxed)).collect(),
            ),
            with(
                Metric::counter(
                    "eventbus_messages_published_total",
                    "Messages that were published at the MQTT broker.",
                ),
                of(|outlet| outlet.passed.published.load(Ordering::Relaxed)).collect(),
            ),
            with(
                Metric::counter(
                    "eventbus_publications_dropped_total",
                    "Messages that were not published, since too many waited for the MQTT broker.",
                ),
                of(|outlet| outlet.dropped.load(Ordering::Relaxed)).collect(),
            ),
            with(
                Metric::counter(
                    "eventbus_broker_failures_total",
                    "Connections to the MQTT broker that did not come about or were lost.",
                ),
                of(|outlet| outlet.failures.load(Ordering::Relaxed)).collect(),
            ),
        ];
        metrics.extend(self.figures.metrics());
        metrics
    }

    /// Messages for the cloud that were dropped since the start, as too many waited.
    pub(crate) fn lost_uploads(&self) -> u64 {
        self.figures.lost()
    }

    /// How full its queues are.
    pub(crate) fn queues(&self) -> Vec<Queue> {
        let name = |broker| if broker == "internal" { "eventbus/internal" } else { "eventbus/external" };
        let outlets = self.outlets.iter();
        let mut queues: Vec<Queue> =
            outlets.filter_map(|outlet| Queue::of(name(outlet.name), &outlet.queue.downgrade())).collect();
        queues.extend(self.figures.queues());
        queues
    }

    /// One that reaches nobody: a node without MQTT.
    pub fn nowhere() -> Self {
        Self::default()
    }

    /// Publishes at every broker. What does not fit into the queue to a broker that is not there is dropped, and counted.
    pub async fn publish(&self, topic: String, payload: impl Into<Bytes>) {
        let publication = Publication { topic, payload: payload.into(), told: None };
        for outlet in self.outlets.iter() {
            outlet.publish(publication.clone()).await;
        }
    }

    /// The same for whoever wants to know what came of it.
    pub(super) async fn begin_publish(&self, topic: String, payload: impl Into<Bytes>) -> Published {
        let (told, outcomes) = mpsc::channel(self.outlets.len().max(1));
        let publication = Publication { topic, payload: payload.into(), told: Some(told) };
        for outlet in self.outlets.iter() {
            outlet.publish(publication.clone()).await;
        }
        Published { outcomes, brokers: self.outlets.len() }
    }

    /// How much was dropped.
    pub fn dropped(&self) -> u64 {
        self.outlets.iter().map(|outlet| outlet.dropped.load(Ordering::Relaxed)).sum()
    }

    /// How often a broker was not reached, or was lost.
    pub fn failures(&self) -> u64 {
        self.outlets.iter().map(|outlet| outlet.failures.load(Ordering::Relaxed)).sum()
    }

    /// Where the internal broker listens, once it does; `None` where there is none, or it has ended.
    pub async fn internal_address(&self) -> Option<SocketAddr> {
        let mut address = self.address.clone()?;
        let found = address.wait_for(Option::is_some).await.ok()?;
        *found
    }

    /// The same as it changes; `None` where there is no internal broker.
    pub(crate) fn internal_listening(&self) -> Option<watch::Receiver<Option<SocketAddr>>> {
        self.address.clone()
    }

    /// Whether every broker is there.
    pub fn is_up(&self) -> bool {
        self.outlets.iter().all(|outlet| *outlet.up.borrow())
    }
}

/// What comes from brokers for DeviceTwin.
#[derive(Debug)]
pub(crate) enum Received {
    /// A message about a device or a node.
    Message {
        /// Its topic.
        topic: Topic,
        /// Its bytes.
        payload: Bytes,
        /// To be given when what it says is on disk.
        receipt: Receipt,
    },
    /// A broker is there again, or has dropped something: what was published meanwhile may have been missed.
    Connected,
}

/// Requests about devices, for their one reader.
#[derive(Debug)]
pub struct Requests(Option<(mpsc::Receiver<Received>, watch::Receiver<u64>)>);

impl Requests {
    pub(super) fn new(received: mpsc::Receiver<Received>, connections: watch::Receiver<u64>) -> Self {
        Self(Some((received, connections)))
    }

    /// None ever: a node without MQTT.
    pub fn none() -> Self {
        Self(None)
    }

    /// Up to `limit` of what has come, appended to `into`; waits for one. `false` when no more will come. Cancel-safe.
    pub(crate) async fn next(&mut self, into: &mut Vec<Received>, limit: usize) -> bool {
        let Some((received, connections)) = &mut self.0 else { return false };
        tokio::select! {
            // cancel-safe, both: nothing is taken unless the arm wins
            count = received.recv_many(into, limit) => count > 0,
            Ok(()) = connections.changed() => {
                into.push(Received::Connected);
                true
            }
        }
    }
}
