//! When each node was last heard of, by the clock of this process: what a node writes into its lease is only compared with
//! what it wrote before, so that the clock of an edge may be wrong. Pure.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use jiff::Timestamp;

/// What a node writes to say that it is there: its lease's renewal, its status' heartbeat.
pub(super) type Signs = (Option<Timestamp>, Option<Timestamp>);

#[derive(Debug)]
struct Node {
    uid: String,
    signs: Signs,
    heard: Instant,
    ready: bool,
}

/// The nodes that are known.
#[derive(Debug, Default)]
pub(super) struct Seen(HashMap<String, Node>);

/// What is new about a node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct News {
    /// How long its last sign of life still counts; `None`: it is overdue.
    pub(super) left: Option<Duration>,
    /// It was not known before.
    pub(super) is_new: bool,
    /// It was ready and is not any more.
    pub(super) has_failed: bool,
}

impl Seen {
    /// Takes in a node as it is at `now`. One that is new has all of `grace`: it could not be heard before.
    pub(super) fn observe(
        &mut self,
        (name, uid): (&str, &str),
        signs: Signs,
        ready: bool,
        grace: Duration,
        now: Instant,
    ) -> News {
        let known = self.0.get_mut(name).filter(|known| known.uid == uid);
        let Some(known) = known else {
            self.0.insert(name.to_owned(), Node { uid: uid.to_owned(), signs, heard: now, ready });
            return News { left: Some(grace), is_new: true, has_failed: false };
        };
        // one that was given up and says that it is ready lives, also where its status is that of before, and its lease not renewed yet
        if known.signs != signs || (ready && !known.ready) {
            known.signs = signs;
            known.heard = now;
        }
        let has_failed = known.ready && !ready;
        known.ready = ready;
        let age = now.saturating_duration_since(known.heard);
        News { left: grace.checked_sub(age).filter(|left| !left.is_zero()), is_new: false, has_failed }
    }

    /// Forgets the nodes that are no more.
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
        let (mut seen, begin) = (Seen::default(), Instant::now());
        let mut observe = |lease: &str, after: u64| {
            let signs = (Some(lease.parse().unwrap()), None);
            seen.observe(("n", "1"), signs, true, GRACE, begin + Duration::from_secs(after)).left
        };
        // an hour behind, an hour ahead, then backwards: each is a sign of life
        assert_eq!(observe("2025-06-01T00:00:00Z", 0), Some(GRACE));
        assert_eq!(observe("2025-06-01T02:00:00Z", 39), Some(GRACE));
        assert_eq!(observe("2025-05-01T00:00:00Z", 78), Some(GRACE));
        assert_eq!(observe("2025-05-01T00:00:00Z", 100), Some(Duration::from_secs(18)));
        assert_eq!(observe("2025-05-01T00:00:00Z", 118), None);
        assert_eq!(observe("2025-05-01T00:00:01Z", 200), Some(GRACE));
    }

    #[test]
    fn a_node_that_is_ready_again_has_been_heard() {
        let (mut seen, begin) = (Seen::default(), Instant::now());
        let mut observe = |ready, after: u64| {
            seen.observe(("n", "1"), (None, None), ready, GRACE, begin + Duration::from_secs(after)).left
        };
        assert_eq!(observe(true, 0), Some(GRACE));
        assert_eq!(observe(true, 40), None);
        assert_eq!(observe(false, 41), None, "given up");
        assert_eq!(observe(true, 42), Some(GRACE), "reported with the heartbeat of before");
        assert_eq!(observe(true, 82), None);
    }

    #[test]
    fn what_is_new_is_told_once() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        let mut observe = |uid: &str, ready| {
            let News { is_new, has_failed, .. } = seen.observe(("n", uid), (None, None), ready, GRACE, now);
            (is_new, has_failed)
        };
        assert_eq!(observe("1", false), (true, false));
        assert_eq!(observe("1", true), (false, false));
        assert_eq!(observe("1", false), (false, true));
        assert_eq!(observe("1", false), (false, false));
        assert_eq!(observe("2", false), (true, false), "another node of this name");
        seen.retain(|_| false);
        assert!(seen.0.is_empty());
    }
}
