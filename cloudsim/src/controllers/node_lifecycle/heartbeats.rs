//! The time of each node's last heartbeat by this process's clock: timestamps of a node's lease are only compared with its earlier ones,
//! so its clock may be wrong. Pure.

use std::time::Duration;

use clock::{HashMap, Instant};
use jiff::Timestamp;
use limits::is_stalled;

/// The timestamps of a node's heartbeats: the renewal of its lease, and the heartbeat of its status.
pub(super) type HeartbeatTimes = (Option<Timestamp>, Option<Timestamp>);

#[derive(Debug)]
struct Node {
    uid: String,
    times: HeartbeatTimes,
    last_seen: Instant,
    ready: bool,
    /// Whether it was found overdue since its last heartbeat.
    is_overdue: bool,
}

/// The nodes with their last heartbeats.
#[derive(Debug, Default)]
pub(super) struct Heartbeats(HashMap<String, Node>);

/// The state of a node after an observation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Observation {
    /// How long the last heartbeat is still valid; `None` if it is overdue.
    pub(super) left: Option<Duration>,
    /// Whether the node was not known before.
    pub(super) is_new: bool,
    /// Whether it was ready before and is not now.
    pub(super) has_failed: bool,
}

impl Heartbeats {
    /// Records a node's state at `now`. A new node has the whole of `grace`: it could not be observed before. So has one that is
    /// observed long after its heartbeat was due: the caller comes again at that time, and so it stood still itself.
    pub(super) fn observe(
        &mut self,
        (name, uid): (&str, &str),
        times: HeartbeatTimes,
        ready: bool,
        grace: Duration,
        now: Instant,
    ) -> Observation {
        let known = self.0.get_mut(name).filter(|known| known.uid == uid);
        let Some(known) = known else {
            self.0.insert(
                name.to_owned(),
                Node {
                    uid: uid.to_owned(),
                    times,
                    last_seen: now,
                    ready,
                    is_overdue: false,
                },
            );
            return Observation {
                left: Some(grace),
                is_new: true,
                has_failed: false,
            };
        };
        // a node that was marked unknown and reports Ready is alive, even if its status is an old one and its lease is not renewed yet
        if known.times != times || (ready && !known.ready) {
            known.times = times;
            known.last_seen = now;
            known.is_overdue = false;
        }
        let has_failed = known.ready && !ready;
        known.ready = ready;
        if !known.is_overdue && is_stalled(grace, now.saturating_duration_since(known.last_seen)) {
            known.last_seen = now;
        }
        let age = now.saturating_duration_since(known.last_seen);
        let left = grace.checked_sub(age).filter(|left| !left.is_zero());
        known.is_overdue = left.is_none();
        Observation {
            left,
            is_new: false,
            has_failed,
        }
    }

    /// Returns the number of nodes, with deleted ones.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Removes deleted nodes.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_there(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(40);

    #[test]
    fn a_node_with_a_wrong_clock_is_heard_as_well() {
        let (mut seen, begin) = (Heartbeats::default(), Instant::now());
        let mut observe = |lease: &str, after: u64| {
            let times = (Some(lease.parse().unwrap()), None);
            seen.observe(
                ("n", "1"),
                times,
                true,
                GRACE,
                begin + Duration::from_secs(after),
            )
            .left
        };
        // an hour behind, an hour ahead, then backwards: each is a sign of life
        assert_eq!(observe("2025-06-01T00:00:00Z", 0), Some(GRACE));
        assert_eq!(observe("2025-06-01T02:00:00Z", 39), Some(GRACE));
        assert_eq!(observe("2025-05-01T00:00:00Z", 78), Some(GRACE));
        assert_eq!(
            observe("2025-05-01T00:00:00Z", 100),
            Some(Duration::from_secs(18))
        );
        assert_eq!(observe("2025-05-01T00:00:00Z", 118), None);
        assert_eq!(observe("2025-05-01T00:00:01Z", 200), Some(GRACE));
    }

    #[test]
    fn a_controller_that_stood_still_gives_nodes_time_to_report() {
        let (mut seen, begin) = (Heartbeats::default(), Instant::now());
        let mut observe = |after: u64| {
            seen.observe(
                ("n", "1"),
                (None, None),
                true,
                GRACE,
                begin + Duration::from_secs(after),
            )
            .left
        };
        assert_eq!(observe(0), Some(GRACE));
        assert_eq!(observe(10), Some(Duration::from_secs(30)));
        assert_eq!(
            observe(170),
            Some(GRACE),
            "the observation at 40 did not happen"
        );
        assert_eq!(observe(210), None);
        assert_eq!(observe(400), None, "it stays overdue");
    }

    #[test]
    fn a_node_that_is_ready_again_has_been_heard() {
        let (mut seen, begin) = (Heartbeats::default(), Instant::now());
        let mut observe = |ready, after: u64| {
            seen.observe(
                ("n", "1"),
                (None, None),
                ready,
                GRACE,
                begin + Duration::from_secs(after),
            )
            .left
        };
        assert_eq!(observe(true, 0), Some(GRACE));
        assert_eq!(observe(true, 40), None);
        assert_eq!(observe(false, 41), None, "given up");
        assert_eq!(
            observe(true, 42),
            Some(GRACE),
            "reported with the heartbeat of before"
        );
        assert_eq!(observe(true, 82), None);
    }

    #[test]
    fn what_is_new_is_told_once() {
        let (mut seen, now) = (Heartbeats::default(), Instant::now());
        let mut observe = |uid: &str, ready| {
            let Observation {
                is_new, has_failed, ..
            } = seen.observe(("n", uid), (None, None), ready, GRACE, now);
            (is_new, has_failed)
        };
        assert_eq!(observe("1", false), (true, false));
        assert_eq!(observe("1", true), (false, false));
        assert_eq!(observe("1", false), (false, true));
        assert_eq!(observe("1", false), (false, false));
        assert_eq!(
            observe("2", false),
            (true, false),
            "another node of this name"
        );
        seen.retain(|_| false);
        assert!(seen.0.is_empty());
    }
}
