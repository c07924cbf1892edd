//! Decides how often the lists of a runtime without events are compared. Pure.

use std::time::Duration;

use clock::Instant;

/// Interval while the kernel reports ended containers and comparisons find nothing new.
const WATCHED_INTERVAL: Duration = Duration::from_secs(5);
/// How many comparisons in a row must find nothing new before that interval is used.
const UNCHANGED_LIMIT: u32 = 3;
/// Minimum delay of the next comparison after a change …
const MIN_DELAY: Duration = Duration::from_millis(50);
/// … and as a multiple of the duration of the last comparison.
const DELAY_FACTOR: u32 = 10;
/// After a change, each following comparison comes after this fraction of the time since the change, so that the end of a
/// container is noticed after at most this fraction of the time for which it ran.
const ELAPSED_FRACTION: u32 = 8;
/// Time after a change within which the kernel reports it.
const KERNEL_REPORT_TIME: Duration = Duration::from_secs(2);

/// The interval between comparisons of the lists.
#[derive(Debug)]
pub(super) struct RelistInterval {
    /// The interval while nothing else reports changes.
    every: Duration,
    /// How many comparisons in a row found nothing new.
    unchanged: u32,
    /// When the kernel last reported a change.
    last_report: Option<Instant>,
    /// When something last changed, while the next comparisons are about that change.
    changed_at: Option<Instant>,
    /// How long the last comparison took.
    took: Duration,
    /// Whether a container has ended without a report from the kernel: this runtime keeps the control groups of ended containers.
    keeps_groups: bool,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Comparison {
    /// Whether anything differs.
    pub(super) changed: bool,
    /// Whether a container has ended since the last comparison.
    pub(super) ended: bool,
    /// Whether the kernel watches the groups of all containers.
    pub(super) watched: bool,
}

impl RelistInterval {
    /// Returns an interval that starts as `every`.
    pub(super) fn new(every: Duration) -> Self {
        Self {
            every,
            unchanged: 0,
            last_report: None,
            changed_at: None,
            took: Duration::ZERO,
            keeps_groups: false,
        }
    }

    /// Returns the interval while nothing else reports changes.
    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// Returns how long to wait after a comparison that ends `now` and took `took`.
    pub(super) fn after_comparison(
        &mut self,
        comparison: Comparison,
        took: Duration,
        now: Instant,
    ) -> Duration {
        self.took = took;
        self.unchanged = if comparison.changed {
            0
        } else {
            self.unchanged.saturating_add(1)
        };
        self.keeps_groups |= comparison.ended
            && comparison.watched
            && self
                .last_report
                .is_none_or(|at| now.duration_since(at) > WATCHED_INTERVAL);
        let is_watched = comparison.watched && !self.keeps_groups;
        let wait = if is_watched && self.unchanged >= UNCHANGED_LIMIT {
            self.every.max(WATCHED_INTERVAL)
        } else {
            self.every
        };
        let since = self.changed_at.map(|at| now.saturating_duration_since(at));
        match since
            .filter(|since| !is_watched || *since < KERNEL_REPORT_TIME)
            .map(|since| since / ELAPSED_FRACTION)
        {
            Some(soon) if soon < self.every => soon.max(self.min_delay()).min(wait),
            _ => {
                self.changed_at = None;
                wait
            }
        }
    }

    /// Notes that the kernel reported the removal of a control group.
    pub(super) fn group_gone(&mut self, now: Instant) {
        (self.unchanged, self.last_report) = (0, Some(now));
        self.state_changed(now);
    }

    /// Notes that something was started or has ended.
    pub(super) fn state_changed(&mut self, now: Instant) {
        self.changed_at = Some(now);
    }

    /// Returns how long to wait after a change: comparisons take no more than a tenth of the time, and the runtime needs a moment
    /// to notice it too.
    pub(super) fn min_delay(&self) -> Duration {
        MIN_DELAY.max(self.took.saturating_mul(DELAY_FACTOR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_compared_rarely_while_the_kernel_watches() {
        let begun = Instant::now();
        let mut interval = RelistInterval::new(Duration::from_secs(1));
        let idle = Comparison::default();
        let watched = Comparison {
            watched: true,
            ..idle
        };
        let ended = Comparison {
            changed: true,
            ended: true,
            watched: true,
        };
        // second, result: seconds until the next comparison
        let table = [
            (1, idle, 1),
            (2, idle, 1),
            (3, idle, 1),
            (
                4,
                Comparison {
                    changed: true,
                    ..watched
                },
                1,
            ),
            (5, watched, 1),
            (6, watched, 1),
            (7, watched, 5),
            // the kernel reports a change before the runtime knows it
            (10, watched, 1),
            (11, ended, 1),
            (12, watched, 1),
            (13, watched, 1),
            (14, watched, 5),
            (19, watched, 5),
            // the kernel has reported nothing
            (24, ended, 1),
            (25, watched, 1),
            (26, watched, 1),
            (27, watched, 1),
            (28, watched, 1),
        ];
        for (second, comparison, wait) in table {
            let now = begun + Duration::from_secs(second);
            if second == 10 {
                interval.group_gone(now);
            }
            let comparison = interval
                .after_comparison(comparison, Duration::ZERO, now)
                .as_secs_f64()
                .ceil();
            assert_eq!(comparison, f64::from(wait), "after {second} s");
        }
    }

    /// Returns when the lists are compared after a start, in milliseconds, until nothing changes any more. `took` is the duration of each.
    fn looks(interval: &mut RelistInterval, comparison: Comparison, took: Duration) -> Vec<u128> {
        let begun = Instant::now();
        interval.state_changed(begun);
        let (mut now, mut looks) = (begun + interval.min_delay(), Vec::new());
        while interval.changed_at.is_some() {
            looks.push((now - begun).as_millis());
            now += took + interval.after_comparison(comparison, took, now + took);
        }
        looks
    }

    #[test]
    fn comparisons_after_a_start_slow_down_with_its_age() {
        let mut interval = RelistInterval::new(Duration::from_secs(1));
        let looks_of = |interval: &mut RelistInterval, watched| {
            looks(
                interval,
                Comparison {
                    watched,
                    ..Comparison::default()
                },
                Duration::from_millis(1),
            )
        };
        let unwatched = looks_of(&mut interval, false);
        assert_eq!(unwatched[..4], [50, 101, 152, 203]);
        for pair in unwatched.windows(2) {
            let (ran, seen_after) = (pair[0], pair[1] - pair[0]);
            assert!(seen_after <= 55.max(ran / 8 + 5), "{pair:?}");
        }
        let last = *unwatched.last().unwrap();
        assert!(
            (7000..9000).contains(&last) && unwatched.len() < 40,
            "{unwatched:?}"
        );
        let watched = looks_of(&mut interval, true);
        assert!(
            watched
                .last()
                .is_some_and(|last| (2000..2500).contains(last))
                && watched.len() < 25,
            "{watched:?}"
        );
        // then comparisons are rare again
        let idle = Comparison {
            watched: true,
            ..Comparison::default()
        };
        assert_eq!(
            interval.after_comparison(idle, Duration::ZERO, Instant::now()),
            WATCHED_INTERVAL
        );
    }

    #[test]
    fn comparisons_take_a_tenth_of_the_time_and_no_more() {
        let mut interval = RelistInterval::new(Duration::from_secs(1));
        let took = Duration::from_millis(30);
        interval.after_comparison(Comparison::default(), took, Instant::now());
        let slow = looks(&mut interval, Comparison::default(), took);
        assert!(
            slow.windows(2).all(|pair| pair[1] - pair[0] >= 330),
            "{slow:?}"
        );
        // a list that takes as long as that is asked for no less often than before
        let took = Duration::from_secs(2);
        interval.after_comparison(Comparison::default(), took, Instant::now());
        interval.state_changed(Instant::now());
        assert_eq!(
            interval.after_comparison(Comparison::default(), took, Instant::now()),
            Duration::from_secs(1)
        );
    }
}
