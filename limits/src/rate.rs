//! A rate limit without a clock: when the next event may happen.

use std::time::Duration;

use clock::Instant;

/// The generic cell rate algorithm: one instant of state, exact for any mix of bursts and pauses.
#[derive(Debug)]
pub struct Rate {
    interval: Duration,
    tolerance: Duration,
    due: Instant,
}

impl Rate {
    /// Creates the limit: `burst` events at once, then `per_second`. A rate of zero means no limit.
    pub fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        let interval = Duration::from_secs(1)
            .checked_div(per_second)
            .unwrap_or_default();
        Self::every(interval, burst, now)
    }

    /// Creates the limit: `burst` events at once, then one each `interval`.
    pub fn every(interval: Duration, burst: u32, now: Instant) -> Self {
        Self {
            interval,
            tolerance: interval.saturating_mul(burst.max(1) - 1),
            due: now,
        }
    }

    /// Records an event if one may happen at `now`, and reports whether it may.
    pub fn take(&mut self, now: Instant) -> bool {
        let may = self.is_ready(now);
        if may {
            self.record(now);
        }
        may
    }

    /// Reports whether an event may happen at `now`.
    pub fn is_ready(&self, now: Instant) -> bool {
        self.ready_at() <= now
    }

    /// Returns when the next event may happen.
    pub fn ready_at(&self) -> Instant {
        self.due.checked_sub(self.tolerance).unwrap_or(self.due)
    }

    /// Returns when the next low-priority event may happen: half of the burst is reserved for all others.
    pub fn spare_at(&self) -> Instant {
        self.due.checked_sub(self.tolerance / 2).unwrap_or(self.due)
    }

    /// Records an event.
    pub fn record(&mut self, now: Instant) {
        self.due = self.due.max(now) + self.interval;
    }

    /// Takes back an event that was recorded and did not happen.
    pub fn give_back(&mut self) {
        self.due = self.due.checked_sub(self.interval).unwrap_or(self.due);
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
            rate.record(start);
        }
        assert_eq!(rate.ready_at(), start + Duration::from_millis(100));
        rate.record(start + Duration::from_millis(100));
        assert_eq!(rate.ready_at(), start + Duration::from_millis(200));
    }

    #[test]
    fn the_bucket_fills_with_time() {
        let (begun, interval) = (Instant::now(), Duration::from_millis(10));
        let mut rate = Rate::new(100, 256, begun);
        let mut take = |now: Instant| {
            let wait = rate.ready_at().saturating_duration_since(now);
            rate.record(now);
            wait
        };
        for _ in 0..256 {
            assert_eq!(take(begun), Duration::ZERO);
        }
        assert_eq!(take(begun), interval);
        assert_eq!(take(begun + interval), interval);
        let later = begun + interval * 128;
        let at_once = (0..256).take_while(|_| take(later).is_zero()).count();
        assert_eq!(at_once, 256 / 2 - 2);
    }

    #[test]
    fn half_of_the_burst_is_kept() {
        let start = Instant::now();
        let mut rate = Rate::new(10, 5, start);
        (0..3).for_each(|_| rate.record(start));
        assert_eq!(
            (rate.ready_at() <= start, rate.spare_at()),
            (true, start + Duration::from_millis(100))
        );
    }

    #[test]
    fn an_event_that_may_not_happen_uses_nothing_up() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let mut rate = Rate::every(Duration::from_secs(300), 25, start);
        assert_eq!((0..1000).filter(|_| rate.take(start)).count(), 25);
        assert!(!rate.take(later(299)) && rate.take(later(300)));
        assert!(!rate.is_ready(later(301)) && rate.is_ready(later(600)));
    }

    #[test]
    fn an_event_that_did_not_happen_may_happen_later() {
        let start = Instant::now();
        let mut rate = Rate::new(20, 20, start);
        assert_eq!((0..100).filter(|_| rate.take(start)).count(), 20);
        rate.give_back();
        assert!(rate.take(start) && !rate.take(start));
    }

    #[test]
    fn zero_means_no_limit() {
        let start = Instant::now();
        let mut rate = Rate::new(0, 0, start);
        (0..1000).for_each(|_| rate.record(start));
        assert!(rate.ready_at() <= start);
    }
}
