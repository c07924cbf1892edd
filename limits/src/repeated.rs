//! Faults that come again and again: each is told at once, then at growing intervals, with how often it came.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Between the first and the second time that a fault is told; then twice as long each time …
const FIRST: Duration = Duration::from_secs(10);
/// … up to this.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// Different faults that are kept apart; beyond it all are told anew.
const KEPT: usize = 32;

/// The faults of one undertaking, until it succeeds.
#[derive(Debug, Default)]
pub struct Repeated(BTreeMap<String, Fault>);

#[derive(Debug)]
struct Fault {
    /// How often it came.
    times: u64,
    /// When it is told next …
    next: Instant,
    /// … and how long after the last time that is.
    interval: Duration,
}

impl Repeated {
    /// Whether any fault has come.
    pub fn has_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// A fault has come: how often in all, if it is to be told now.
    pub fn count(&mut self, fault: &str, now: Instant) -> Option<u64> {
        let Some(known) = self.0.get_mut(fault) else {
            if self.0.len() >= KEPT {
                self.0.clear();
            }
            self.0.insert(fault.to_owned(), Fault { times: 1, next: now + FIRST, interval: FIRST });
            return Some(1);
        };
        known.times += 1;
        if now < known.next {
            return None;
        }
        known.interval = (known.interval * 2).min(LONGEST);
        known.next = now + known.interval;
        Some(known.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_told_at_once_and_then_ever_more_rarely_with_its_count() {
        let (mut faults, begun) = (Repeated::default(), Instant::now());
        let told: Vec<(u64, u64)> = (0..2000)
            .filter_map(|second| {
                Some((second, faults.count("refused", begun + Duration::from_secs(second))?))
            })
            .collect();
        assert_eq!(
            told,
            [
                (0, 1),
                (10, 11),
                (30, 31),
                (70, 71),
                (150, 151),
                (310, 311),
                (630, 631),
                (1230, 1231),
                (1830, 1831)
            ]
        );
    }

    #[test]
    fn another_fault_is_told_by_itself_and_what_is_kept_of_all_is_bounded() {
        let (mut faults, now) = (Repeated::default(), Instant::now());
        assert_eq!(
            ["a", "b", "a", "b"].map(|fault| faults.count(fault, now)),
            [Some(1), Some(1), None, None]
        );
        for number in 0..100 {
            assert_eq!(faults.count(&number.to_string(), now), Some(1));
        }
        assert!(faults.0.len() <= KEPT);
    }
}
