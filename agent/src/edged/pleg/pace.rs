//! How often a runtime without events is asked what there is. Pure.

use std::time::{Duration, Instant};

/// How long it is left alone while the kernel tells what ends …
const LONG: Duration = Duration::from_secs(5);
/// … once so many comparisons have found nothing new.
const QUIET: u32 = 3;
/// Something has changed: the next comparison comes after this, or after this many times as long as the last one took …
const MIN_DELAY: Duration = Duration::from_millis(50);
const SHARE: u32 = 10;
/// … and the one after it in this part of the time since. What ends is seen to have ended when it has done so for no longer than
/// this part of the time for which it ran.
const PART: u32 = 8;
/// By then the kernel tells of whatever has moved, where it does.
const WATCHED_BY: Duration = Duration::from_secs(2);

/// How often the lists are compared.
#[derive(Debug)]
pub(super) struct Pace {
    /// While nobody else tells.
    every: Duration,
    /// Looks in a row that found nothing new.
    quiet: u32,
    /// When the kernel told last.
    told: Option<Instant>,
    /// When something was started, or somebody told that something has ended, while the next comparisons are about that.
    moved: Option<Instant>,
    /// How long the last comparison took.
    took: Duration,
    /// Containers have ended and the kernel did not tell: this runtime keeps the groups of those that have ended.
    silent: bool,
}

/// What a comparison has found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Something new.
    pub(super) changed: bool,
    /// A container that has ended since the last comparison.
    pub(super) ended: bool,
    /// The kernel was to tell of all of them.
    pub(super) watched: bool,
}

impl Pace {
    /// Nothing is known yet.
    pub(super) fn new(every: Duration) -> Self {
        Self { every, quiet: 0, told: None, moved: None, took: Duration::ZERO, silent: false }
    }

    /// While nobody else tells.
    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// How long to wait after a comparison that ends now and took so long.
    pub(super) fn after(&mut self, found: Found, took: Duration, now: Instant) -> Duration {
        self.took = took;
        self.quiet = if found.changed { 0 } else { self.quiet.saturating_add(1) };
        self.silent |=
            found.ended && found.watched && self.told.is_none_or(|at| now.duration_since(at) > LONG);
        let is_told = found.watched && !self.silent;
        let wait = if is_told && self.quiet >= QUIET { self.every.max(LONG) } else { self.every };
        let since = self.moved.map(|at| now.saturating_duration_since(at));
        match since.filter(|since| !is_told || *since < WATCHED_BY).map(|since| since / PART) {
            Some(soon) if soon < self.every => soon.max(self.soon()).min(wait),
            _ => {
                self.moved = None;
                wait
            }
        }
    }

    /// The kernel has told.
    pub(super) fn group_gone(&mut self, now: Instant) {
        (self.quiet, self.told) = (0, Some(now));
        self.moved(now);
    }

    /// Something was started, or somebody else has told.
    pub(super) fn moved(&mut self, now: Instant) {
        self.moved = Some(now);
    }

    /// How long to wait then: comparisons take no more than a tenth of all time, and the runtime needs a moment until it knows, too.
    pub(super) fn soon(&self) -> Duration {
        MIN_DELAY.max(self.took.saturating_mul(SHARE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_left_alone_while_the_kernel_tells() {
        let begun = Instant::now();
        let mut pace = Pace::new(Duration::from_secs(1));
        let idle = Found::default();
        let watched = Found { watched: true, ..idle };
        let ended = Found { changed: true, ended: true, watched: true };
        // second, found: seconds until the next comparison
        let table = [
            (1, idle, 1),
            (2, idle, 1),
            (3, idle, 1),
            (4, Found { changed: true, ..watched }, 1),
            (5, watched, 1),
            (6, watched, 1),
            (7, watched, 5),
            // the kernel tells, and the runtime does not know yet
            (10, watched, 1),
            (11, ended, 1),
            (12, watched, 1),
            (13, watched, 1),
            (14, watched, 5),
            (19, watched, 5),
            // nobody told
            (24, ended, 1),
            (25, watched, 1),
            (26, watched, 1),
            (27, watched, 1),
            (28, watched, 1),
        ];
        for (second, found, wait) in table {
            let now = begun + Duration::from_secs(second);
            if second == 10 {
                pace.group_gone(now);
            }
            let found = pace.after(found, Duration::ZERO, now).as_secs_f64().ceil();
            assert_eq!(found, f64::from(wait), "after {second} s");
        }
    }

    /// When the lists are compared after a start, in milliseconds, until nothing is in motion any more; `took`: each comparison.
    fn looks(pace: &mut Pace, found: Found, took: Duration) -> Vec<u128> {
        let begun = Instant::now();
        pace.moved(begun);
        let (mut now, mut looks) = (begun + pace.soon(), Vec::new());
        while pace.moved.is_some() {
            looks.push((now - begun).as_millis());
            now += took + pace.after(found, took, now + took);
        }
        looks
    }

    #[test]
    fn what_was_started_is_looked_at_in_a_part_of_the_time_that_it_has_run() {
        let mut pace = Pace::new(Duration::from_secs(1));
        let looks_of = |pace: &mut Pace, watched| {
            looks(pace, Found { watched, ..Found::default() }, Duration::from_millis(1))
        };
        let unwatched = looks_of(&mut pace, false);
        assert_eq!(unwatched[..4], [50, 101, 152, 203]);
        for pair in unwatched.windows(2) {
            let (ran, seen_after) = (pair[0], pair[1] - pair[0]);
            assert!(seen_after <= 55.max(ran / 8 + 5), "{pair:?}");
        }
        let last = *unwatched.last().unwrap();
        assert!((7000..9000).contains(&last) && unwatched.len() < 40, "{unwatched:?}");
        let watched = looks_of(&mut pace, true);
        assert!(
            watched.last().is_some_and(|last| (2000..2500).contains(last)) && watched.len() < 25,
            "{watched:?}"
        );
        // and then it is left alone
        let idle = Found { watched: true, ..Found::default() };
        assert_eq!(pace.after(idle, Duration::ZERO, Instant::now()), LONG);
    }

    #[test]
    fn comparisons_take_a_tenth_of_the_time_and_no_more() {
        let mut pace = Pace::new(Duration::from_secs(1));
        let took = Duration::from_millis(30);
        pace.after(Found::default(), took, Instant::now());
        let slow = looks(&mut pace, Found::default(), took);
        assert!(slow.windows(2).all(|pair| pair[1] - pair[0] >= 330), "{slow:?}");
        // a list that takes as long as that is asked for no less often than ever
        let took = Duration::from_secs(2);
        pace.after(Found::default(), took, Instant::now());
        pace.moved(Instant::now());
        assert_eq!(pace.after(Found::default(), took, Instant::now()), Duration::from_secs(1));
    }
}
