//! Limits reports of repeated faults: each is reported at once, then at growing intervals, with the number of occurrences.

use std::{collections::BTreeMap, time::Duration};

use clock::Instant;

/// The interval between the first and the second report of a fault. It doubles with each report.
const FIRST: Duration = Duration::from_secs(10);
/// The longest interval between two reports of a fault.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// The number of different faults that are counted separately. Beyond it, all counts are reset.
const KEPT: usize = 32;

/// The faults of one operation, until it succeeds.
#[derive(Debug, Default)]
pub struct Repeated(BTreeMap<String, Fault>);

#[derive(Debug)]
struct Fault {
    /// The number of occurrences.
    times: u64,
    /// The time of the next report.
    next: Instant,
    /// The interval between the last report and the next one.
    interval: Duration,
}

impl Repeated {
    /// Forgets all faults after a success; reports whether there were any, so that the recovery is logged as visibly as they were.
    pub fn recover(&mut self) -> bool {
        !std::mem::take(&mut self.0).is_empty()
    }

    /// Counts a fault. Returns the number of its occurrences if it is to be reported now.
    pub fn count(&mut self, fault: &str, now: Instant) -> Option<u64> {
        let Some(known) = self.0.get_mut(fault) else {
            if self.0.len() >= KEPT {
                self.0.clear();
            }
            self.0.insert(
                fault.to_owned(),
                Fault {
                    times: 1,
                    next: now + FIRST,
                    interval: FIRST,
                },
            );
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
                Some((
                    second,
                    faults.count("refused", begun + Duration::from_secs(second))?,
                ))
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
