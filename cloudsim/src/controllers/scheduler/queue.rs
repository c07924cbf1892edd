//! The queue of pods that wait for a node, with back-off and unschedulable pods. Pure.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use clock::HashMap;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use super::snapshot::priority;

/// The back-off after the first failure; it doubles with each.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// How long a pod stays unschedulable without a change; a change may have been missed.
const MAX_UNSCHEDULABLE: Duration = Duration::from_secs(300);

#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    since: u64,
    failures: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be tried as soon as possible.
    Active,
    /// Something changed; to be tried at this time, or earlier if no other pod is active.
    Backoff(Instant),
    /// An API call failed; to be tried at this time and not before.
    Retry(Instant),
    /// Unschedulable since this time, until something changes.
    Unschedulable(Instant),
}

impl State {
    /// The place of its count in [`Queue::lengths`].
    fn index(self) -> usize {
        match self {
            Self::Active => 0,
            Self::Backoff(_) | Self::Retry(_) => 1,
            Self::Unschedulable(_) => 2,
        }
    }
}

/// Highest priority, then longest wait.
type Rank = (i32, Reverse<u64>);

fn rank(entry: &Entry) -> Rank {
    (priority(&entry.pod), Reverse(entry.since))
}

/// Pods by uid. What is asked for each pod that is scheduled is kept beside them, so that its cost does not grow with the queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: HashMap<String, Entry>,
    /// The uids of active pods.
    active: BTreeMap<Rank, String>,
    /// The uids of pods that are nominated to a node.
    nominated: BTreeSet<String>,
    /// The number of active, backed-off and unschedulable pods.
    lengths: [usize; 3],
    next: u64,
}

impl Queue {
    /// Adds or updates a pod that wants a node. It is tried again if its requirements have changed.
    pub(super) fn add(&mut self, pod: Arc<Pod>) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let before = self.take(&uid);
        let entry = match before {
            Some(mut entry) => {
                let asks_same =
                    entry.pod.spec == pod.spec && entry.pod.metadata.labels == pod.metadata.labels;
                entry.pod = pod;
                if !asks_same {
                    entry.state = State::Active;
                }
                entry
            }
            None => {
                self.next += 1;
                Entry {
                    pod,
                    since: self.next,
                    failures: 0,
                    state: State::Active,
                }
            }
        };
        self.put(uid, entry);
    }

    /// Removes a pod that has its node or no longer exists.
    pub(super) fn remove(&mut self, uid: &str) {
        self.take(uid);
    }

    fn put(&mut self, uid: String, entry: Entry) {
        self.lengths[entry.state.index()] += 1;
        if entry.state == State::Active {
            self.active.insert(rank(&entry), uid.clone());
        }
        if is_nominated(&entry.pod) {
            self.nominated.insert(uid.clone());
        }
        self.entries.insert(uid, entry);
    }

    fn take(&mut self, uid: &str) -> Option<Entry> {
        let entry = self.entries.remove(uid)?;
        self.lengths[entry.state.index()] -= 1;
        self.active.remove(&rank(&entry));
        self.nominated.remove(uid);
        Some(entry)
    }

    fn set_state(&mut self, uid: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(mut entry) = self.take(uid) {
            change(&mut entry);
            self.put(uid.to_owned(), entry);
        }
    }

    /// Returns the best of the pods in back-off whose state is of this kind.
    fn best_waiting(&self, is_chosen: impl Fn(State) -> bool) -> Option<(Rank, String)> {
        let [_, waiting, _] = self.lengths;
        if waiting == 0 {
            return None;
        }
        let chosen = self.entries.iter();
        let chosen = chosen.filter(|(_, entry)| is_chosen(entry.state));
        let best = chosen.max_by_key(|(_, entry)| rank(entry))?;
        Some((rank(best.1), best.0.clone()))
    }

    /// Takes the active pod of the highest priority, and of these the one that waits longest. A pod in back-off is taken early if none is
    /// active.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Arc<Pod>> {
        let active = self.active.last_key_value();
        let active = active.map(|(rank, uid)| (*rank, uid.clone()));
        let due = self.best_waiting(|state| match state {
            State::Backoff(at) | State::Retry(at) => at <= now,
            State::Active | State::Unschedulable(_) => false,
        });
        let early = || self.best_waiting(|state| matches!(state, State::Backoff(_)));
        let next = active.into_iter().chain(due).max().or_else(early);
        let (_, uid) = next?;
        self.set_state(&uid, |entry| entry.state = State::Unschedulable(now));
        self.entries.get(&uid).map(|entry| Arc::clone(&entry.pod))
    }

    /// Marks the pod as unschedulable.
    pub(super) fn mark_unschedulable(&mut self, uid: &str, now: Instant) {
        self.set_state(uid, |entry| {
            entry.failures = entry.failures.saturating_add(1);
            entry.state = State::Unschedulable(now);
        });
    }

    /// Queues a pod again after an attempt that was not completed.
    pub(super) fn retry_later(&mut self, uid: &str, now: Instant) {
        self.set_state(uid, |entry| {
            entry.failures = entry.failures.saturating_add(1);
            entry.state = State::Retry(now + backoff(entry.failures));
        });
    }

    /// Returns when the next pod is due whose API call failed.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = |entry: &Entry| match entry.state {
            State::Retry(at) => Some(at),
            State::Active | State::Backoff(_) | State::Unschedulable(_) => None,
        };
        self.entries.values().filter_map(due).min()
    }

    /// Returns the uids of unschedulable pods that `concerned` selects, by the pod and the time since when it is unschedulable.
    fn unschedulable(&self, concerned: impl Fn(&Pod, Instant) -> bool) -> Vec<String> {
        let [_, _, unschedulable] = self.lengths;
        if unschedulable == 0 {
            return Vec::new();
        }
        let concerned = |(uid, entry): (&String, &Entry)| match entry.state {
            State::Unschedulable(since) => concerned(&entry.pod, since).then(|| uid.clone()),
            State::Active | State::Backoff(_) | State::Retry(_) => None,
        };
        self.entries.iter().filter_map(concerned).collect()
    }

    /// Queues the unschedulable pods that a change may concern.
    pub(super) fn wake(&mut self, concerned: impl Fn(&Pod) -> bool) {
        for uid in self.unschedulable(|pod, _| concerned(pod)) {
            self.set_state(&uid, |entry| {
                if let State::Unschedulable(since) = entry.state {
                    entry.state = State::Backoff(since + backoff(entry.failures));
                }
            });
        }
    }

    /// Queues pods that have been unschedulable for too long.
    pub(super) fn flush(&mut self, now: Instant) {
        for uid in self.unschedulable(|_, since| now.duration_since(since) >= MAX_UNSCHEDULABLE) {
            self.set_state(&uid, |entry| entry.state = State::Active);
        }
    }

    /// Returns the number of active, backed-off and unschedulable pods.
    pub(super) fn lengths(&self) -> [usize; 3] {
        self.lengths
    }

    /// Returns the pods that are nominated to a node.
    pub(super) fn nominated_pods(&self) -> Vec<Arc<Pod>> {
        let pod = |uid| self.entries.get(uid).map(|entry| Arc::clone(&entry.pod));
        self.nominated.iter().filter_map(pod).collect()
    }
}

fn is_nominated(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let name = status.and_then(|status| status.nominated_node_name.as_deref());
    name.is_some_and(|name| !name.is_empty())
}

fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    FIRST_BACKOFF
        .saturating_mul(1 << doublings)
        .min(LONGEST_BACKOFF)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, priority: i32) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": name, "uid": name}, "spec": {"containers": [], "priority": priority}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn names(queue: &mut Queue, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| queue.pop(now))
            .map(|pod| pod.metadata.name.clone().unwrap())
            .collect()
    }

    #[test]
    fn the_most_important_comes_first_and_then_who_waits_longest() {
        let mut queue = Queue::default();
        let now = Instant::now();
        for (name, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 5)] {
            queue.add(pod(name, priority));
        }
        assert_eq!(names(&mut queue, now), ["b", "d", "a", "c"]);
        assert_eq!(names(&mut queue, now), [""; 0]);
        queue.wake(|_| true);
        assert_eq!(names(&mut queue, now).len(), 4);
    }

    #[test]
    fn who_failed_is_tried_again_when_something_changes() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.add(pod("a", 0));
        assert_eq!(names(&mut queue, now), ["a"]);
        queue.mark_unschedulable("a", now);
        queue.add(pod("a", 0));
        assert_eq!(
            names(&mut queue, now),
            [""; 0],
            "its own status is no change"
        );
        assert_eq!(queue.lengths(), [0, 0, 1]);
        queue.add(pod("a", 1));
        assert_eq!(names(&mut queue, now), ["a"]);
        queue.flush(now + MAX_UNSCHEDULABLE);
        assert_eq!(names(&mut queue, now), ["a"]);
        queue.remove("a");
        queue.flush(now + MAX_UNSCHEDULABLE);
        assert_eq!(names(&mut queue, now), [""; 0]);
    }

    #[test]
    fn the_wait_doubles_up_to_ten_seconds() {
        let seconds: Vec<_> = [1, 2, 3, 4, 5, 99]
            .map(|failures| backoff(failures).as_secs())
            .into();
        assert_eq!(seconds, [1, 2, 4, 8, 10, 10]);
    }
}
