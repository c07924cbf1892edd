//! Acknowledgements that are not written down yet. One that comes late in the API costs nothing but a message sent again to a node
//! that connects to a cloud that was killed meanwhile; where a node acknowledges much at once, only the last of each object matters,
//! and what waits for the API matters more.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::{controllers::sync::Record, delivery::ObjectRef};

/// After so long without a new one they are written down …
const QUIET: Duration = Duration::from_millis(250);
/// … and each after so long at the latest.
const LONGEST: Duration = Duration::from_secs(10);

/// The last acknowledged revision of each object, in the order in which they were first acknowledged.
#[derive(Default)]
pub(super) struct PendingAcks {
    revisions: HashMap<String, (ObjectRef, u64)>,
    /// UIDs and when they came; among them some that were forgotten, and whose turn is passed over.
    order: VecDeque<(String, Instant)>,
    last: Option<Instant>,
}

impl PendingAcks {
    /// The node holds this revision, and no longer the one before.
    pub(super) fn holds(&mut self, object: ObjectRef, revision: u64, now: Instant) {
        self.last = Some(now);
        let uid = object.uid.clone();
        if self.revisions.insert(uid.clone(), (object, revision)).is_none() {
            self.order.push_back((uid, now));
        }
    }

    /// The node has deleted it.
    pub(super) fn forget(&mut self, uid: &str) {
        self.revisions.remove(uid);
        if self.revisions.is_empty() {
            self.order.clear();
        }
    }

    /// When the next is to be written down; `None` when there is none.
    pub(super) fn due(&self) -> Option<Instant> {
        let (_, came) = self.order.front()?;
        self.last.map(|last| (last + QUIET).min(*came + LONGEST))
    }

    /// The next.
    pub(super) fn next(&mut self) -> Option<Record> {
        loop {
            let (uid, _) = self.order.pop_front()?;
            if let Some((object, revision)) = self.revisions.remove(&uid) {
                return Some(Record::Holds(object, revision));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::{ObjectKind, ObjectPath};

    fn object(uid: &str) -> ObjectRef {
        ObjectRef { path: ObjectPath::new(ObjectKind::Pod, "default", uid), uid: uid.to_owned() }
    }

    fn after(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    fn next(pending_acks: &mut PendingAcks) -> Option<(String, u64)> {
        match pending_acks.next()? {
            Record::Holds(object, revision) => Some((object.uid, revision)),
            Record::Sent(_) | Record::Dropped(_) => unreachable!("it is no acknowledgement"),
        }
    }

    #[test]
    fn only_the_last_revision_of_each_object_is_written_down() {
        let (mut pending_acks, start) = (PendingAcks::default(), Instant::now());
        assert_eq!(pending_acks.due(), None);
        pending_acks.holds(object("a"), 1, start);
        pending_acks.holds(object("b"), 2, after(start, 10));
        pending_acks.holds(object("a"), 3, after(start, 20));
        assert_eq!(pending_acks.due(), Some(after(start, 20) + QUIET));
        assert_eq!(next(&mut pending_acks), Some(("a".into(), 3)));
        assert_eq!(next(&mut pending_acks), Some(("b".into(), 2)));
        assert_eq!((next(&mut pending_acks), pending_acks.due()), (None, None));
    }

    #[test]
    fn an_object_that_goes_on_being_acknowledged_is_written_down_at_last() {
        let (mut pending_acks, start) = (PendingAcks::default(), Instant::now());
        for (revision, millis) in (0..30_000).step_by(100).enumerate() {
            pending_acks.holds(object("a"), revision as u64, after(start, millis));
        }
        assert_eq!(pending_acks.due(), Some(start + LONGEST));
    }

    #[test]
    fn what_the_node_has_deleted_is_not_written_down() {
        let (mut pending_acks, start) = (PendingAcks::default(), Instant::now());
        pending_acks.holds(object("a"), 1, start);
        pending_acks.holds(object("b"), 2, start);
        pending_acks.forget("a");
        assert_eq!(next(&mut pending_acks), Some(("b".into(), 2)));
        assert_eq!(next(&mut pending_acks), None);
        pending_acks.holds(object("c"), 3, start);
        pending_acks.forget("c");
        assert_eq!(pending_acks.due(), None, "nothing is waited for");
    }
}
