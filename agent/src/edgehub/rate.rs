//! Rate limit without a clock: when the next upward message may go (`messageQPS`, `messageBurst`).

use std::time::{Duration, Instant};

/// The generic cell rate algorithm: one instant of state, exact for any mix of bursts and pauses.
#[derive(Debug)]
pub(super) struct Rate {
    interval: Duration,
    tolerance: Duration,
    due: Instant,
}

impl Rate {
    /// Creates the limit; a rate of zero means no limit, as in KubeEdge's configuration.
    pub(super) fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        let interval = Duration::from_secs(1).checked_div(per_second).unwrap_or_default();
        Self { interval, tolerance: interval.saturating_mul(burst.max(1) - 1), due: now }
    }

    /// Returns when the next message may go.
    pub(super) fn ready_at(&self) -> Instant {
        self.due.checked_sub(self.tolerance).unwrap_or(self.due)
    }

    /// Returns when the next low-priority message may go: half of the burst is reserved for all others.
    pub(super) fn spare_at(&self) -> Instant {
        self.due.checked_sub(self.tolerance / 2).unwrap_or(self.due)
    }

    /// Records that a message was sent.
    pub(super) fn sent(&mut self, now: Instant) {
        self.due = self.due.max(now) + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_at_once_and_then_the_rate_rules() {
        let start = Instant::now();
        let mut rate = Rate::new(10, 3, start);
        for _ in 0..3 {
            assert!(rate.ready_at() <= start);
            rate.sent(start);
        }
        assert_eq!(rate.ready_at(), start + Duration::from_millis(100));
        rate.sent(start + Duration::from_millis(100));
        assert_eq!(rate.ready_at(), start + Duration::from_millis(200));
    }

    #[test]
    fn half_of_the_burst_is_kept() {
        let start = Instant::now();
        let mut rate = Rate::new(10, 5, start);
        (0..3).for_each(|_| rate.sent(start));
        assert_eq!((rate.ready_at() <= start, rate.spare_at()), (true, start + Duration::from_millis(100)));
    }

    #[test]
    fn zero_means_no_limit() {
        let start = Instant::now();
        let mut rate = Rate::new(0, 0, start);
        (0..1000).for_each(|_| rate.sent(start));
        assert!(rate.ready_at() <= start);
    }
}
