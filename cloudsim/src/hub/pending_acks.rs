//! Acknowledgements that are not recorded yet. Recording one late only costs a message that is sent again if the cloud is killed
//! meanwhile. When a node acknowledges much at once, only the last revision of each object must be written, and more urgent API calls go
//! first.

use clock::HashMap;
use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::{controllers::sync::Record, delivery::ObjectRef};

/// An acknowledgement is recorded when its object had no newer one for this long …
const FLUSH_INTERVAL: Duration = Duration::from_millis(250);
/// … and after this long in any case.
const MAX_FLUSH_DELAY: Duration = Duration::from_secs(10);

/// The last acknowledged revision of each object, in the order of their first acknowledgement.
#[derive(Default)]
pub(super) struct PendingAcks {
    revisions: HashMap<String, (ObjectRef, u64)>,
    /// UIDs with the time of their acknowledgement; forgotten ones are skipped.
    order: VecDeque<(String, Instant)>,
    last: Option<Instant>,
}

impl PendingAcks {
    /// Records that the node holds this revision, in place of the one before.
    pub(super) fn holds(&mut self, object: ObjectRef, revision: u64, now: Instant) {
        self.last = Some(now);
        let uid = object.uid.clone();
        if self
            .revisions
            .insert(uid.clone(), (object, revision))
            .is_none()
        {
            self.order.push_back((uid, now));
        }
    }

    /// Forgets an object that the node has deleted.
    pub(super) fn forget(&mut self, uid: &str) {
        self.revisions.remove(uid);
        if self.revisions.is_empty() {
            self.order.clear();
        }
    }

    /// Returns when the next record is due; `None` if there is none.
    pub(super) fn due(&self) -> Option<Instant> {
        let (_, came) = self.order.front()?;
        self.last
            .map(|last| (last + FLUSH_INTERVAL).min(*came + MAX_FLUSH_DELAY))
    }

    /// Takes the next record.
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
        ObjectRef {
            path: ObjectPath::new(ObjectKind::Pod, "default", uid),
            uid: uid.to_owned(),
        }
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
        assert_eq!(pending_acks.due(), Some(after(start, 20) + FLUSH_INTERVAL));
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
        assert_eq!(pending_acks.due(), Some(start + MAX_FLUSH_DELAY));
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
