//! The objects that a session has still to look at: now, after a failure, or after another acknowledgement. No clock and no I/O. An
//! object's newest state is read when it is looked at, so each path is here once.

use std::{collections::BTreeSet, time::Duration};

use clock::Instant;

use crate::mailbox::ObjectPath;

/// The wait after a failed API call.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The work queue of one session.
#[derive(Debug)]
pub(super) struct WorkQueue {
    /// Paths to look at when the lane is free.
    todo: BTreeSet<ObjectPath>,
    /// Paths that could not be read or recorded, to be tried again …
    failed: BTreeSet<ObjectPath>,
    /// … at this time.
    retry: Option<Instant>,
    /// Paths to look at again when the deletion of their previous object is acknowledged.
    followed: BTreeSet<ObjectPath>,
    /// Whether all initial paths have been looked at.
    began: bool,
}

impl WorkQueue {
    /// Creates a queue with the initial paths.
    pub(super) fn new(todo: BTreeSet<ObjectPath>) -> Self {
        Self {
            todo,
            failed: BTreeSet::new(),
            retry: None,
            followed: BTreeSet::new(),
            began: false,
        }
    }

    /// Adds paths that have changed.
    pub(super) fn add(&mut self, paths: BTreeSet<ObjectPath>) {
        self.todo.extend(paths);
    }

    /// Takes the next path, in the order in which nodes should get objects.
    pub(super) fn next(&mut self, now: Instant) -> Option<ObjectPath> {
        if self.retry.is_some_and(|retry| now >= retry) {
            self.retry = None;
            self.todo.append(&mut self.failed);
        }
        let next = self.todo.pop_first();
        self.began |= next.is_none() && self.failed.is_empty();
        next
    }

    /// Returns when failed paths are to be tried again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.retry
    }

    /// Puts a path off until [`RETRY_INTERVAL`] has passed; others need not wait for it.
    pub(super) fn retry_later(&mut self, path: ObjectPath, now: Instant) {
        self.failed.insert(path);
        self.retry.get_or_insert(now + RETRY_INTERVAL);
    }

    /// Marks a path to be looked at again when the deletion of its previous object is acknowledged.
    pub(super) fn follow(&mut self, path: ObjectPath) {
        self.followed.insert(path);
    }

    /// Handles the acknowledged deletion of the object at `path`: its successor is next.
    pub(super) fn finish_deletion(&mut self, path: &ObjectPath) {
        if let Some(path) = self.followed.take(path) {
            self.todo.insert(path);
        }
    }

    /// Reports whether the node has been sent the state at the time of its connection.
    pub(super) fn is_initial_sync_done(&self) -> bool {
        self.began
    }

    /// Returns the number of paths.
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
        assert_eq!(
            (work_queue.next(start), work_queue.due()),
            (Some(pod("a")), None)
        );
        work_queue.retry_later(pod("a"), start);
        assert_eq!(
            (work_queue.next(start), work_queue.due()),
            (Some(pod("b")), Some(start + RETRY_INTERVAL))
        );
        work_queue.retry_later(pod("b"), start + RETRY_INTERVAL / 2);
        assert_eq!(
            (
                work_queue.next(start),
                work_queue.len(),
                work_queue.is_initial_sync_done()
            ),
            (None, 2, false)
        );
        assert_eq!(work_queue.next(start + RETRY_INTERVAL), Some(pod("a")));
        assert_eq!(
            (work_queue.next(start + RETRY_INTERVAL), work_queue.due()),
            (Some(pod("b")), None)
        );
        assert!(
            !work_queue.is_initial_sync_done(),
            "the last one is still looked at"
        );
        assert_eq!(
            (
                work_queue.next(start + RETRY_INTERVAL),
                work_queue.is_initial_sync_done()
            ),
            (None, true)
        );
    }

    #[test]
    fn a_successor_waits_for_the_end_of_what_was_before() {
        let (now, mut work_queue) = (Instant::now(), of([]));
        work_queue.follow(pod("a"));
        assert_eq!(work_queue.next(now), None);
        work_queue.finish_deletion(&pod("b"));
        assert_eq!(work_queue.next(now), None);
        work_queue.finish_deletion(&pod("a"));
        assert_eq!(work_queue.next(now), Some(pod("a")));
        work_queue.finish_deletion(&pod("a"));
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
