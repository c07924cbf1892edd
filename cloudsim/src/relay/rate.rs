//! How many streams a node may open in what time. Pure: the time is a parameter.

use std::time::{Duration, Instant};

/// How many streams a node may open at once.
const BURST: u32 = 256;
/// After those, the time between two of them: each makes the other node sign, for TLS.
const INTERVAL: Duration = Duration::from_millis(10);

/// A token bucket.
#[derive(Debug)]
pub(super) struct Rate {
    /// When the bucket is full again.
    full: Instant,
}

impl Rate {
    pub(super) fn new(now: Instant) -> Self {
        Self { full: now }
    }

    /// Takes a token; returns how long to wait before it counts.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        self.full = self.full.max(now) + INTERVAL;
        self.full.saturating_duration_since(now).saturating_sub(INTERVAL * BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_waits_for_nothing_and_what_comes_after_it_waits_for_its_turn() {
        let begun = Instant::now();
        let mut rate = Rate::new(begun);
        for _ in 0..BURST {
            assert_eq!(rate.take(begun), Duration::ZERO);
        }
        assert_eq!(rate.take(begun), INTERVAL);
        assert_eq!(rate.take(begun + INTERVAL), INTERVAL);
        let later = begun + INTERVAL * (BURST / 2);
        let at_once = (0..BURST).take_while(|_| rate.take(later).is_zero()).count();
        assert_eq!(at_once, BURST as usize / 2 - 2, "the bucket fills with time");
    }
}
