//! Queues nodes' messages for the targets of rules: each message is delivered once, even if it is sent repeatedly; those of one topic in
//! order; and each rule has a limited share, so that a slow target delays only its own. No I/O.

use std::{borrow::Cow, collections::VecDeque, pin::Pin, sync::Arc, time::Duration};

use clock::HashMap;
use futures::FutureExt;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore},
    task::unconstrained,
    time::timeout,
};
use wire::enroll::sha256_hex;

/// The result of a message: the content of its answer, or why it has failed for good.
pub(super) type Outcome = Result<Value, String>;

/// Calls of targets for one node at a time.
const MAX_CALLS_PER_NODE: usize = 64;
/// Calls of these for one rule.
const MAX_CALLS_PER_RULE: usize = 16;
/// Kilobytes of waiting messages of one node; each message counts for at least one.
const MAX_WAITING_KIB: usize = 32 * 1024;
/// Kilobytes of these for one rule.
const MAX_WAITING_KIB_PER_RULE: usize = MAX_WAITING_KIB / 4 * 3;
/// The number of message ids of a node that are remembered with their results.
const MAX_REMEMBERED_IDS: usize = 1024;
/// The longest id that is remembered unhashed, bytes; agents send UUIDs.
const MAX_ID_BYTES: usize = 64;
/// How long a message may wait if its sender waits for the answer; with the call itself less than the sender waits.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(15);

/// The messages of one node.
#[derive(Debug)]
struct NodeUploads {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// By the rule's uid.
    rules: HashMap<String, Share>,
    /// By topic and the rule's uid; its one permit is held by the message being delivered.
    by_topic: HashMap<(String, String), Arc<Semaphore>>,
    /// The result of each message; `None` while it is being delivered.
    known: HashMap<String, Option<Outcome>>,
    order: VecDeque<String>,
}

/// The share of one rule.
#[derive(Clone, Debug)]
struct Share {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for NodeUploads {
    fn default() -> Self {
        Self {
            running: Arc::new(Semaphore::new(MAX_CALLS_PER_NODE)),
            waiting: Arc::new(Semaphore::new(MAX_WAITING_KIB)),
            rules: HashMap::default(),
            by_topic: HashMap::default(),
            known: HashMap::default(),
            order: VecDeque::new(),
        }
    }
}

/// The messages of all nodes.
#[derive(Debug, Default)]
pub(super) struct UploadQueues(Mutex<HashMap<String, NodeUploads>>);

/// What decides whether a message of a node is admitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct UploadInfo<'a> {
    pub(super) node: &'a str,
    pub(super) id: &'a str,
    /// The size in bytes.
    pub(super) size: usize,
    /// The topic, if order matters.
    pub(super) topic: Option<&'a str>,
    /// Whether its sender waits for an answer.
    pub(super) is_answered: bool,
}

/// Whether a message is admitted.
#[derive(Debug)]
pub(super) enum Admitted {
    /// Admitted, with its place in the queue of each rule.
    New(Vec<QueuedUpload>),
    /// Received before, with its result if it is known.
    Known(Option<Outcome>),
    /// Refused: too many messages wait.
    Full,
}

type Acquiring = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// A message in the queue of one rule. Later ones of the same topic wait until this is dropped.
pub(super) struct QueuedUpload {
    /// `None` if order does not matter.
    lane: Option<Acquiring>,
    share: Arc<Semaphore>,
    of_node: Arc<Semaphore>,
    timeout_after: Option<Duration>,
    held: Vec<OwnedSemaphorePermit>,
}

impl std::fmt::Debug for QueuedUpload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueuedUpload")
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

impl UploadQueues {
    /// Admits a message for the rules with these uids.
    pub(super) fn admit(&self, message: UploadInfo<'_>, rules: &[&str]) -> Admitted {
        let id = remembered_id(message.id);
        let mut all = self.0.lock();
        let own = all.entry(message.node.to_owned()).or_default();
        if let Some(known) = own.known.get(&*id) {
            return Admitted::Known(known.clone());
        }
        let weight = u32::try_from(message.size / 1024 + 1).unwrap_or(u32::MAX);
        let Ok(place) = Arc::clone(&own.waiting).try_acquire_many_owned(weight) else {
            return Admitted::Full;
        };
        let mut place = Some(place);
        let mut queued = Vec::with_capacity(rules.len());
        for &rule in rules {
            let share = own
                .rules
                .entry(rule.to_owned())
                .or_insert_with(Share::new)
                .clone();
            let Ok(room) = share.waiting.try_acquire_many_owned(weight) else {
                return Admitted::Full;
            };
            let lane = message.topic.map(|topic| own.lane(topic, rule));
            let timeout_after = message.is_answered.then_some(QUEUE_TIMEOUT);
            let held = place.take().into_iter().chain([room]).collect();
            queued.push(QueuedUpload {
                lane,
                share: share.running,
                of_node: own.running.clone(),
                timeout_after,
                held,
            });
        }
        own.known.insert(id.clone().into_owned(), None);
        own.order.push_back(id.into_owned());
        if own.order.len() > MAX_REMEMBERED_IDS
            && let Some(oldest) = own.order.pop_front()
        {
            own.known.remove(&oldest);
        }
        Admitted::New(queued)
    }

    /// Records the result of a message, whose places in the queues were dropped.
    pub(super) fn record_outcome(
        &self,
        message: UploadInfo<'_>,
        rules: &[&str],
        outcome: &Outcome,
    ) {
        let mut all = self.0.lock();
        let Some(own) = all.get_mut(message.node) else {
            return;
        };
        if let Some(known) = own.known.get_mut(&*remembered_id(message.id)) {
            // an answer may be large; a repeated message is only told that it was delivered
            *known = Some(outcome.as_ref().map(|_| "OK".into()).map_err(Clone::clone));
        }
        for &rule in rules {
            if own.rules.get(rule).is_some_and(Share::is_idle) {
                own.rules.remove(rule);
            }
            let Some(topic) = message.topic else { continue };
            let lane = (topic.to_owned(), rule.to_owned());
            if own
                .by_topic
                .get(&lane)
                .is_some_and(|lane| Arc::strong_count(lane) == 1)
            {
                own.by_topic.remove(&lane);
            }
        }
    }
}

impl NodeUploads {
    /// Queues at the end of the topic's lane.
    fn lane(&mut self, topic: &str, rule: &str) -> Acquiring {
        let key = (topic.to_owned(), rule.to_owned());
        let lane = self
            .by_topic
            .entry(key)
            .or_insert_with(|| Arc::new(Semaphore::new(1)))
            .clone();
        let mut place = Box::pin(unconstrained(lane.acquire_owned()));
        // queued by the order of the first poll
        match (&mut place).now_or_never() {
            Some(acquired) => Box::pin(std::future::ready(acquired)),
            None => place,
        }
    }
}

impl Share {
    fn new() -> Self {
        Self {
            running: Arc::new(Semaphore::new(MAX_CALLS_PER_RULE)),
            waiting: Arc::new(Semaphore::new(MAX_WAITING_KIB_PER_RULE)),
        }
    }

    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.running) == 1 && Arc::strong_count(&self.waiting) == 1
    }
}

impl QueuedUpload {
    /// Waits until the message may be delivered. The error is why it never will be.
    pub(super) async fn ready(&mut self) -> Result<(), String> {
        let Some(timeout_after) = self.timeout_after else {
            return self.acquire().await;
        };
        timeout(timeout_after, self.acquire()).await.unwrap_or_else(|_| {
            Err(format!(
                "the rule's target is slow: the message has waited {timeout_after:?} for those before it"
            ))
        })
    }

    async fn acquire(&mut self) -> Result<(), String> {
        // never closed
        let closed = |error: AcquireError| error.to_string();
        if let Some(lane) = &mut self.lane {
            let place = lane.await.map_err(closed)?;
            self.lane = None;
            self.held.push(place);
        }
        for running in [&self.share, &self.of_node] {
            self.held
                .push(Arc::clone(running).acquire_owned().await.map_err(closed)?);
        }
        Ok(())
    }
}

/// Returns what is remembered of an id: the id itself, or its hash if it is too long.
fn remembered_id(id: &str) -> Cow<'_, str> {
    if id.len() <= MAX_ID_BYTES {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(sha256_hex(id.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<'a>(id: &'a str, topic: Option<&'a str>) -> UploadInfo<'a> {
        UploadInfo {
            node: "n",
            id,
            size: 1,
            topic,
            is_answered: true,
        }
    }

    fn queued_upload(
        upload_queue: &UploadQueues,
        id: &str,
        topic: Option<&str>,
        rule: &str,
    ) -> QueuedUpload {
        match upload_queue.admit(message(id, topic), &[rule]) {
            Admitted::New(mut queued) => queued.pop().unwrap(),
            other => panic!("{id}: {other:?}"),
        }
    }

    #[tokio::test]
    async fn messages_of_one_topic_keep_their_order_and_hold_up_no_others() {
        let upload_queue = UploadQueues::default();
        let mut first = queued_upload(&upload_queue, "1", Some("a"), "slow");
        let mut second = queued_upload(&upload_queue, "2", Some("a"), "slow");
        let mut third = queued_upload(&upload_queue, "3", Some("a"), "slow");
        // whoever is looked at first does not go first
        assert!(third.ready().now_or_never().is_none() && second.ready().now_or_never().is_none());
        assert_eq!(first.ready().now_or_never(), Some(Ok(())));
        assert_eq!(
            queued_upload(&upload_queue, "4", Some("b"), "slow")
                .ready()
                .now_or_never(),
            Some(Ok(()))
        );
        assert_eq!(
            queued_upload(&upload_queue, "5", Some("a"), "other")
                .ready()
                .now_or_never(),
            Some(Ok(()))
        );
        drop(first);
        assert!(third.ready().now_or_never().is_none());
        assert_eq!(second.ready().now_or_never(), Some(Ok(())));
        drop(second);
        assert_eq!(third.ready().now_or_never(), Some(Ok(())));
    }

    #[tokio::test]
    async fn a_slow_target_has_no_more_than_its_rules_share() {
        let upload_queue = UploadQueues::default();
        let topics: Vec<_> = (0..=MAX_CALLS_PER_RULE)
            .map(|number| format!("t/{number}"))
            .collect();
        let mut held: Vec<_> = topics
            .iter()
            .map(|topic| queued_upload(&upload_queue, topic, Some(topic), "slow"))
            .collect();
        let came = held
            .iter_mut()
            .filter_map(|queued| queued.ready().now_or_never())
            .count();
        assert_eq!(came, MAX_CALLS_PER_RULE);
        assert_eq!(
            queued_upload(&upload_queue, "x", Some("t/0"), "other")
                .ready()
                .now_or_never(),
            Some(Ok(()))
        );
        // and not all of the room in which messages wait
        let large = UploadInfo {
            size: MAX_WAITING_KIB_PER_RULE * 1024 - 64 * 1024,
            ..message("large", Some("t/0"))
        };
        let _waits = upload_queue.admit(large, &["slow"]);
        assert!(matches!(
            upload_queue.admit(
                UploadInfo {
                    id: "l2",
                    size: 100 * 1024,
                    ..large
                },
                &["slow"]
            ),
            Admitted::Full
        ));
        assert!(matches!(
            upload_queue.admit(
                UploadInfo {
                    id: "l3",
                    size: 100 * 1024,
                    ..large
                },
                &["other"]
            ),
            Admitted::New(_)
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_waited_for_waits_so_long_and_no_longer() {
        let upload_queue = UploadQueues::default();
        let mut first = queued_upload(&upload_queue, "1", Some("a"), "slow");
        first.ready().await.unwrap();
        let mut second = queued_upload(&upload_queue, "2", Some("a"), "slow");
        assert!(second.ready().await.unwrap_err().contains("target is slow"));
        let unasked = UploadInfo {
            is_answered: false,
            ..message("3", Some("a"))
        };
        let Admitted::New(mut third) = upload_queue.admit(unasked, &["slow"]) else {
            panic!()
        };
        assert!(
            timeout(QUEUE_TIMEOUT * 4, third[0].ready()).await.is_err(),
            "it waits as long as it takes"
        );
    }

    #[test]
    fn what_is_done_is_forgotten_but_for_its_outcome() {
        let upload_queue = UploadQueues::default();
        let held = queued_upload(&upload_queue, "1", Some("a"), "r");
        assert!(matches!(
            upload_queue.admit(message("1", Some("a")), &["r"]),
            Admitted::Known(None)
        ));
        drop(held);
        upload_queue.record_outcome(message("1", Some("a")), &["r"], &Ok("a long answer".into()));
        let Admitted::Known(Some(outcome)) = upload_queue.admit(message("1", Some("a")), &["r"])
        else {
            panic!()
        };
        assert_eq!(outcome, Ok("OK".into()));
        let all = upload_queue.0.lock();
        assert!(all["n"].by_topic.is_empty() && all["n"].rules.is_empty());
    }
}
