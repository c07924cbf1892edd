//! Computes rates of counters from samples. Pure.

use std::collections::HashMap;

/// Minimum time between two samples in nanoseconds, as the kernel accounts in time slices.
const MIN_INTERVAL_NANOS: i64 = 100_000_000;
/// Maximum time between two samples in nanoseconds; a mean over a longer time says nothing about the present.
pub(super) const MAX_INTERVAL_NANOS: i64 = 300_000_000_000;

/// The last sample of each counter, by name.
#[derive(Debug, Default)]
pub(super) struct Rates(HashMap<String, Sample>);

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Unix nanoseconds.
    at: i64,
    sum: u64,
    /// Growth per second between this sample and the one before it.
    rate: Option<u64>,
}

impl Rates {
    /// Adds a sample taken at `at` (Unix nanoseconds), and returns the counter's growth per second once it is known.
    pub(super) fn sample(&mut self, name: &str, at: i64, sum: u64) -> Option<u64> {
        let Some(last) = self.0.get_mut(name) else {
            self.0.insert(
                name.to_owned(),
                Sample {
                    at,
                    sum,
                    rate: None,
                },
            );
            return None;
        };
        let elapsed = at.saturating_sub(last.at);
        if elapsed.abs() < MIN_INTERVAL_NANOS {
            return last.rate;
        }
        // After a clock was set back or a counter restarted, this is a first sample.
        let grown = sum
            .checked_sub(last.sum)
            .filter(|_| (0..=MAX_INTERVAL_NANOS).contains(&elapsed));
        let rate = grown.and_then(|grown| {
            let in_a_second = u128::from(grown) * 1_000_000_000 / u128::try_from(elapsed).ok()?;
            u64::try_from(in_a_second).ok()
        });
        *last = Sample { at, sum, rate };
        rate
    }

    /// Removes counters without a sample since `at`.
    pub(super) fn forget_before(&mut self, at: i64) {
        self.0.retain(|_, sample| sample.at >= at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn rate_is_computed_between_two_samples() {
        let mut rates = Rates::default();
        assert_eq!(rates.sample("a", SECOND, 100), None, "one sample");
        assert_eq!(rates.sample("a", 3 * SECOND, 300), Some(100));
        assert_eq!(
            rates.sample("a", 3 * SECOND + 5, 900),
            Some(100),
            "too soon: the last one counts"
        );
        assert_eq!(rates.sample("b", 3 * SECOND, 1), None, "another sum");
        assert_eq!(
            rates.sample("a", 4 * SECOND, 300),
            Some(0),
            "nothing was used"
        );
    }

    #[test]
    fn restarted_counter_has_no_rate() {
        for (at, sum, why) in [
            (20 * SECOND, 1, "the sum was smaller"),
            (SECOND, 2_000, "the clock was set back"),
            (
                10 * SECOND + MAX_INTERVAL_NANOS + 1,
                2_000,
                "a long time ago",
            ),
        ] {
            let mut rates = Rates::default();
            rates.sample("a", 10 * SECOND, 1_000);
            assert_eq!(rates.sample("a", at, sum), None, "{why}");
        }
        let mut rates = Rates::default();
        rates.sample("old", SECOND, 1);
        rates.sample("new", 5 * SECOND, 1);
        rates.forget_before(2 * SECOND);
        assert_eq!(rates.sample("old", 6 * SECOND, 2), None);
        assert_eq!(rates.sample("new", 6 * SECOND, 2), Some(1));
    }
}
