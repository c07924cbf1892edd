//! Exponential waits with full jitter, as a value without a clock.

use std::time::Duration;

/// Full jitter: the wait is uniform in 0..=min(cap, base × 2ⁿ), so that a fleet cut off at one instant does not return at one
/// instant (<https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>).
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    tries: u32,
}

impl Backoff {
    /// Creates a backoff whose first wait is at most `base`, and whose waits never exceed `cap`.
    pub fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            tries: 0,
        }
    }

    /// Returns the next wait, for `unit` drawn uniformly from 0.0..1.0.
    pub fn next(&mut self, unit: f64) -> Duration {
        let ceiling = self
            .base
            .saturating_mul(2_u32.saturating_pow(self.tries))
            .min(self.cap);
        self.tries = self.tries.saturating_add(1);
        ceiling.mul_f64(unit.clamp(0.0, 1.0))
    }

    /// Starts again after a success.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_start_over_after_a_reset() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let waits: Vec<u128> = (0..6).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
        backoff.reset();
        assert_eq!(backoff.next(0.5).as_millis(), 50);
    }

    #[test]
    fn a_very_long_outage_does_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));
        for _ in 0..10_000 {
            assert!(backoff.next(1.0) <= Duration::from_secs(30));
        }
    }
}
