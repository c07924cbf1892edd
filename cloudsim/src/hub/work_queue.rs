//! What a session has still to look at: now, later because it could not be looked at, or when something else is acknowledged. No
//! clock, no IO; an object's newest state is read when its turn comes, so that a path stands here once.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::mailbox::ObjectPath;

/// After the API failed; it is in this process or near it.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The work queue of one session.
#[derive(Debug)]
pub(super) struct WorkQueue {
    /// To be looked at when the lane is free.
    todo: BTreeSet<ObjectPath>,
    /// What could not be looked at, or not be announced, and is tried again …
    failed: BTreeSet<ObjectPath>,
    /// … then.
    retry: Option<Instant>,
    /// What there is more to say of when the end of what was there before is acknowledged.
    followed: BTreeSet<ObjectPath>,
    /// Everything that was to do at the beginning has been looked at.
    began: bool,
}

impl WorkQueue {
    /// To begin with.
    pub(super) fn new(todo: BTreeSet<ObjectPath>) -> Self {
        Self { todo, failed: BTreeSet::new(), retry: None, followed: BTreeSet::new(), began: false }
    }

    /// These have changed.
    pub(super) fn add(&mut self, paths: BTreeSet<ObjectPath>) {
        self.todo.extend(paths);
    }

    /// What to look at now, in the order in which a node should get it.
    pub(super) fn next(&mut self, now: Instant) -> Option<ObjectPath> {
        if self.retry.is_some_and(|retry| now >= retry) {
            self.retry = None;
            self.todo.append(&mut self.failed);
        }
        let next = self.todo.pop_first();
        self.began |= next.is_none() && self.failed.is_empty();
        next
    }

    /// When there is something to look at again by itself.
    pub(super) fn due(&self) -> Option<Instant> {
        self.retry
    }

    /// To be looked at again in a while; the others need not wait for it.
    pub(super) fn put_off(&mut self, path: ObjectPath, now: Instant) {
        self.failed.insert(path);
        self.retry.get_or_insert(now + RETRY_INTERVAL);
    }

    /// To be looked at again when the end of what was there before is acknowledged.
    pub(super) fn follow(&mut self, path: ObjectPath) {
        self.followed.insert(path);
    }

    /// The end of what was at `path` is acknowledged; its successor is next.
    pub(super) fn ended(&mut self, path: &ObjectPath) {
        if let Some(path) = self.followed.take(path) {
            self.todo.insert(path);
        }
    }

    /// Whether the node has been brought to where the cloud was when it connected.
    pub(super) fn has_begun(&self) -> bool {
        self.began
    }

    /// How much is to be looked at.
    pub(super) fn len(&self) -> usize {
        self.todo.len() + self.failed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::ObjectKind;

    fn pod(name: &str) -> ObjectPath {
        ObjectPath::new(ObjectKind::Pod, "default", name)
    }

    fn of<const N: usize>(names: [&str; N]) -> WorkQueue {
        WorkQueue::new(names.into_iter().map(pod).collect())
    }

    #[test]
    fn what_fails_comes_again_and_holds_up_nothing_else() {
        let (start, mut work_queue) = (Instant::now(), of(["a", "b"]));
        assert_eq!((work_queue.next(start), work_queue.due()), (Some(pod("a")), None));
        work_queue.put_off(pod("a"), start);
        assert_eq!(
            (work_queue.next(start), work_queue.due()),
            (Some(pod("b")), Some(start + RETRY_INTERVAL))
        );
        work_queue.put_off(pod("b"), start + RETRY_INTERVAL / 2);
        assert_eq!((work_queue.next(start), work_queue.len(), work_queue.has_begun()), (None, 2, false));
        assert_eq!(work_queue.next(start + RETRY_INTERVAL), Some(pod("a")));
        assert_eq!((work_queue.next(start + RETRY_INTERVAL), work_queue.due()), (Some(pod("b")), None));
        assert!(!work_queue.has_begun(), "the last one is still looked at");
        assert_eq!((work_queue.next(start + RETRY_INTERVAL), work_queue.has_begun()), (None, true));
    }

    #[test]
    fn a_successor_waits_for_the_end_of_what_was_before() {
        let (now, mut work_queue) = (Instant::now(), of([]));
        work_queue.follow(pod("a"));
        assert_eq!(work_queue.next(now), None);
        work_queue.ended(&pod("b"));
        assert_eq!(work_queue.next(now), None);
        work_queue.ended(&pod("a"));
        assert_eq!(work_queue.next(now), Some(pod("a")));
        work_queue.ended(&pod("a"));
        assert_eq!(work_queue.next(now), None, "once");
    }

    #[test]
    fn what_has_changed_is_looked_at_once() {
        let (now, mut work_queue) = (Instant::now(), of(["a"]));
        work_queue.add([pod("a"), pod("c")].into());
        let all: Vec<_> = std::iter::from_fn(|| work_queue.next(now)).collect();
        assert_eq!(all, [pod("a"), pod("c")]);
    }
}
