//! The queue of pods that wait for a node, with back-off and unschedulable pods. Pure.

use std::{cmp::Reverse, sync::Arc, time::Duration};

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

/// Pods by uid.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: HashMap<String, Entry>,
    next: u64,
}

impl Queue {
    /// Adds or updates a pod that wants a node. It is tried again if its requirements have changed.
    pub(super) fn add(&mut self, pod: Arc<Pod>) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        if let Some(entry) = self.entries.get_mut(&uid) {
            let asks_same =
                entry.pod.spec == pod.spec && entry.pod.metadata.labels == pod.metadata.labels;
            entry.pod = pod;
            if !asks_same {
                entry.state = State::Active;
            }
            return;
        }
        self.next += 1;
        self.entries.insert(
            uid,
            Entry {
                pod,
                since: self.next,
                failures: 0,
                state: State::Active,
            },
        );
    }

    /// Removes a pod that has its node or no longer exists.
    pub(super) fn remove(&mut self, uid: &str) {
        self.entries.remove(uid);
    }

    /// Takes the active pod of the highest priority, and of these the one that waits longest. A pod in back-off is taken early if none is
    /// active.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Arc<Pod>> {
        let rank = |entry: &Entry| (priority(&entry.pod), Reverse(entry.since));
        let is_due = |entry: &&Entry| match entry.state {
            State::Active => true,
            State::Backoff(at) | State::Retry(at) => at <= now,
            State::Unschedulable(_) => false,
        };
        let waits = |entry: &&Entry| matches!(entry.state, State::Backoff(_));
        let next = self
            .entries
            .values()
            .filter(is_due)
            .max_by_key(|entry| rank(entry));
        let next = next.or_else(|| {
            self.entries
                .values()
                .filter(waits)
                .max_by_key(|entry| rank(entry))
        })?;
        let next = next.pod.metadata.uid.clone();
        let entry = self.entries.get_mut(next.as_deref().unwrap_or_default())?;
        entry.state = State::Unschedulable(now);
        Some(Arc::clone(&entry.pod))
    }

    /// Marks the pod as unschedulable.
    pub(super) fn mark_unschedulable(&mut self, uid: &str, now: Instant) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.failures = entry.failures.saturating_add(1);
            entry.state = State::Unschedulable(now);
        }
    }

    /// Queues a pod again after an attempt that was not completed.
    pub(super) fn retry_later(&mut self, uid: &str, now: Instant) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.failures = entry.failures.saturating_add(1);
            entry.state = State::Retry(now + backoff(entry.failures));
        }
    }

    /// Returns when the next pod is due whose API call failed.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = |entry: &Entry| match entry.state {
            State::Retry(at) => Some(at),
            State::Active | State::Backoff(_) | State::Unschedulable(_) => None,
        };
        self.entries.values().filter_map(due).min()
    }

    /// Queues the unschedulable pods that a change may concern.
    pub(super) fn wake(&mut self, concerned: impl Fn(&Pod) -> bool) {
        for entry in self
            .entries
            .values_mut()
            .filter(|entry| concerned(&entry.pod))
        {
            if let State::Unschedulable(since) = entry.state {
                entry.state = State::Backoff(since + backoff(entry.failures));
            }
        }
    }

    /// Queues pods that have been unschedulable for too long.
    pub(super) fn flush(&mut self, now: Instant) {
        for entry in self.entries.values_mut() {
            if matches!(entry.state, State::Unschedulable(since) if now.duration_since(since) >= MAX_UNSCHEDULABLE)
            {
                entry.state = State::Active;
            }
        }
    }

    /// Returns the number of active, backed-off and unschedulable pods.
    pub(super) fn lengths(&self) -> [usize; 3] {
        let mut lengths = [0; 3];
        for entry in self.entries.values() {
            let index = match entry.state {
                State::Active => 0,
                State::Backoff(_) | State::Retry(_) => 1,
                State::Unschedulable(_) => 2,
            };
            lengths[index] += 1;
        }
        lengths
    }

    /// Returns the pods that are nominated to a node.
    pub(super) fn nominated_pods(&self) -> Vec<Arc<Pod>> {
        let is_nominated = |pod: &&Arc<Pod>| {
            pod.status.as_ref().is_some_and(|status| {
                status
                    .nominated_node_name
                    .as_ref()
                    .is_some_and(|name| !name.is_empty())
            })
        };
        self.entries
            .values()
            .map(|entry| &entry.pod)
            .filter(is_nominated)
            .cloned()
            .collect()
    }
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
