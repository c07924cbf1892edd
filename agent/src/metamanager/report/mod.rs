//! Reports this node's objects to the cloud until the cloud confirms them. Level-triggered: each report is the newest state in
//! the store, so nothing waits in memory and nothing is lost with the connection.

mod mirrors;
mod node;
mod pods;

use std::{
    collections::{BTreeSet, HashSet},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use componentbase::Link;
use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use objectstore::{Key, Resource, StoreError, Watch};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};
use tracing::{error, warn};
use wire::{Answer, Change, Down, Downstream, Message, ResourceType, Upstream};

use super::{
    desired::{Desired, resource},
    node_confirmed::NodeConfirmed,
    record::GROUP,
};
use crate::edgehub::{EdgeHub, Unreachable};

/// The most reports that wait for confirmation at a time. More would only wait in EdgeHub's queue.
const MAX_CONCURRENT_REPORTS: usize = 16;
/// How long the cloud may take to confirm a report.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(20);
/// The wait after the cloud refused a report or the store failed.
const REPORT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The outcome of one object's report.
enum ReportOutcome {
    /// The cloud has confirmed it, or does not need it.
    Done,
    /// Report again, soon.
    Retry,
    /// Report again after this time.
    RetryAfter(Duration),
    /// Report again when the connection is back.
    Offline,
}

/// Reports to the cloud; cheap to clone.
#[derive(Clone)]
pub(super) struct Reporter {
    desired: Desired,
    hub: EdgeHub,
    node_name: String,
    /// The connection over which the cloud has confirmed the node's status.
    node_confirmed_over: Arc<watch::Sender<Option<Link>>>,
    /// The time between two reports of a pod's status that has not changed.
    status_interval: Option<Duration>,
    /// Pods whose status is reported the next time even if the cloud has confirmed it.
    stale: Arc<Mutex<HashSet<Key>>>,
}

/// Why a report failed.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error("the cloud refused: {}", .0["message"].as_str().unwrap_or("without a reason"))]
    Refused(serde_json::Value),
    #[error("the cloud's response does not match the report")]
    Answer,
    #[error("the store failed")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
}

impl Reporter {
    pub(super) fn new(
        desired: Desired,
        hub: EdgeHub,
        node_name: String,
        status_interval: Option<Duration>,
    ) -> Self {
        Self {
            desired,
            hub,
            node_name,
            node_confirmed_over: Arc::new(watch::Sender::new(None)),
            status_interval,
            stale: Arc::default(),
        }
    }

    /// Returns a notification for when the cloud has this node.
    pub(super) fn node_confirmed(&self) -> NodeConfirmed {
        NodeConfirmed::new(self.node_confirmed_over.subscribe())
    }

    /// Runs for ever.
    pub(super) async fn run(self) {
        loop {
            if let Err(error) = self.follow().await {
                error!(
                    error = &error as &dyn std::error::Error,
                    "failed to read the store; reports paused, retrying"
                );
                tokio::time::sleep(REPORT_RETRY_DELAY).await;
            }
        }
    }

    /// Reports until a watch falls behind or the store fails.
    async fn follow(&self) -> Result<(), StoreError> {
        let (pods, nodes) = (resource(&ResourceType::Pod), resource(&ResourceType::Node));
        let records = Resource::new(GROUP, pods.as_str());
        let revision = self.desired.revision();
        let mut pods_changes = self.desired.watch(&pods, revision)?;
        let mut record_changes = self.desired.watch(&records, revision)?;
        let mut node_changes = self.desired.watch(&nodes, revision)?;
        let mut link = self.hub.link();
        let mut seen = *link.borrow_and_update();
        let mut waiting = self.all_keys().await?;
        let mut under_way = FuturesUnordered::new();
        let (mut later, mut listing) = (FuturesUnordered::new(), FuturesUnordered::new());
        // reports under way, and objects whose report is delayed
        let mut busy: HashSet<Key> = HashSet::new();
        let mut last = None;
        let mut again = self.status_interval.map(interval_from_next);
        loop {
            let now = *link.borrow_and_update();
            let online = now != Link::Down;
            // the state is compared, because a link that is down for a moment is up again before this is polled
            if now != seen && online {
                // the cloud may have forgotten this node, or thought it dead; the check runs beside the reports, one of which
                // may hold the store
                listing.push(self.all_keys().boxed());
            }
            seen = now;
            while online && under_way.len() < MAX_CONCURRENT_REPORTS {
                let Some(key) = next_key(&waiting, last.as_ref(), &busy) else {
                    break;
                };
                waiting.remove(&key);
                last = Some(key.clone());
                busy.insert(key.clone());
                under_way.push(self.report(key.clone()).map(move |outcome| (key, outcome)));
            }
            clock::select! {
                // biased: finished reports first; each makes room for one more
                biased;
                // cancel-safe: futures stay in the set until they are done
                Some((key, outcome)) = under_way.next() => match outcome {
                    ReportOutcome::Done => { busy.remove(&key); }
                    ReportOutcome::Retry | ReportOutcome::Offline => {
                        busy.remove(&key);
                        waiting.insert(key);
                    }
                    // busy until then: a change meanwhile would begin a second series of attempts
                    ReportOutcome::RetryAfter(wait) => later.push(tokio::time::sleep(wait).map(move |()| key)),
                },
                // cancel-safe: as above
                Some(keys) = listing.next() => waiting.extend(keys?),
                // cancel-safe: as above
                Some(key) = later.next() => {
                    busy.remove(&key);
                    waiting.insert(key);
                }
                // cancel-safe: a change not returned is returned by the next call
                key = changed_key(&mut pods_changes) => { waiting.insert(key?); }
                // cancel-safe: as above
                key = changed_key(&mut record_changes) => { waiting.insert(Key { resource: pods.clone(), ..key? }); }
                // cancel-safe: as above
                key = changed_key(&mut node_changes) => { waiting.insert(key?); }
                // cancel-safe: an interval keeps its ticks
                () = tick(&mut again), if online => listing.push(self.mark_pods_stale().boxed()),
                // cancel-safe: the state is read at the head of the loop
                changed = link.changed() => if changed.is_err() { return Ok(()) },
            }
        }
    }

    /// Returns the keys of everything that a newly connected cloud has to know.
    async fn all_keys(&self) -> Result<BTreeSet<Key>, StoreError> {
        let (pods, nodes) = (resource(&ResourceType::Pod), resource(&ResourceType::Node));
        let mut keys: BTreeSet<Key> = BTreeSet::new();
        keys.extend(
            self.desired
                .list(&pods)
                .await?
                .0
                .into_iter()
                .map(|object| object.key),
        );
        // pods that have ended are only in their records
        let records = self
            .desired
            .list(&Resource::new(GROUP, pods.as_str()))
            .await?
            .0;
        keys.extend(records.into_iter().map(|object| Key {
            resource: pods.clone(),
            ..object.key
        }));
        keys.insert(Key::new(nodes, "", self.node_name.as_str()));
        Ok(keys)
    }

    /// Returns the keys of all pods, and marks their statuses as stale.
    async fn mark_pods_stale(&self) -> Result<BTreeSet<Key>, StoreError> {
        let pods = self.desired.list(&resource(&ResourceType::Pod)).await?.0;
        let keys: BTreeSet<Key> = pods.into_iter().map(|object| object.key).collect();
        self.stale.lock().extend(keys.iter().cloned());
        Ok(keys)
    }

    async fn report(&self, key: Key) -> ReportOutcome {
        let outcome = if key.resource == resource(&ResourceType::Pod) {
            self.pod(&key).await
        } else {
            self.node(&key).await
        };
        match outcome {
            Ok(outcome) => outcome,
            Err(ReportError::Unreachable(Unreachable::Offline)) => ReportOutcome::Offline,
            Err(error) => {
                warn!(
                    object = %key.name,
                    namespace = %key.namespace,
                    error = &error as &dyn std::error::Error,
                    "CloudHub rejected the report of a pod or node; resending"
                );
                tokio::time::sleep(REPORT_RETRY_DELAY).await;
                ReportOutcome::Retry
            }
        }
    }

    /// Sends a report, and returns the cloud's answer.
    async fn request(&self, report: Upstream) -> Result<(Answer, Message), ReportError> {
        let message = self
            .hub
            .request(report.into_message(clock::unix_millis()), CONFIRM_TIMEOUT)
            .await?;
        match Down::from(message.clone()).body {
            Downstream::Answer { answer, .. } => Ok((answer, message)),
            _ => Err(ReportError::Answer),
        }
    }

    async fn delete(&self, key: &Key, uid: &str) -> Result<(), ReportError> {
        match self
            .request(Upstream::pod_delete(&key.namespace, &key.name, uid))
            .await?
            .0
        {
            Answer::Failed(status) if status["code"] != 404 => Err(ReportError::Refused(status)),
            _ => Ok(()),
        }
    }

    async fn insert_node(
        &self,
        key: &Key,
        node: serde_json::Value,
    ) -> Result<(Answer, Message), ReportError> {
        self.request(Upstream::put(
            Change::Insert,
            "",
            &ResourceType::Node,
            &key.name,
            node,
        ))
        .await
    }
}

/// Returns the next waiting key after the last one that is not being reported, in a circle: no object waits for others that
/// change all the time.
fn next_key(waiting: &BTreeSet<Key>, last: Option<&Key>, busy: &HashSet<Key>) -> Option<Key> {
    let after = last.map_or(Bound::Unbounded, Bound::Excluded);
    let round = waiting.range((after, Bound::Unbounded)).chain(waiting);
    round.into_iter().find(|key| !busy.contains(*key)).cloned()
}

/// Returns the object that a report created in the cloud, if the answer has it; else the `Status` that says why there is none.
fn outcome(answer: Answer) -> Result<serde_json::Value, serde_json::Value> {
    match answer {
        Answer::Response(response) => response.into_result(),
        Answer::Failed(status) => Err(status),
        Answer::Done | Answer::Found(_) => Ok(serde_json::Value::Null),
    }
}

/// Returns an interval whose first tick comes after one period.
fn interval_from_next(period: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits for the next tick; for ever where there is no interval.
async fn tick(ticks: &mut Option<Interval>) {
    match ticks {
        Some(ticks) => drop(ticks.tick().await),
        None => std::future::pending().await,
    }
}

async fn changed_key(watch: &mut Watch) -> Result<Key, StoreError> {
    Ok(watch.next().await?.object.key)
}

#[cfg(test)]
mod tests;
