//! Detects two clients with one identifier, each of which ends the other's connection. Pure.

use std::{collections::BTreeMap, sync::Arc};

/// The longest time between two take-overs of such clients, milliseconds. A client that lost its network takes over its own
/// connection less often.
const WINDOW: u64 = 60_000;
/// The number of take-overs in a row that two clients need.
const SUSPICIOUS: u64 = 3;
/// The most identifiers that are counted.
const MAX_CLIENTS: usize = 32;

/// Take-overs in a row, by client identifier.
#[derive(Debug, Default)]
pub(super) struct TakeOvers(BTreeMap<Arc<str>, TakeOverCount>);

#[derive(Debug)]
struct TakeOverCount {
    times: u64,
    /// The time of the last one, milliseconds since 1970.
    last: u64,
}

impl TakeOvers {
    /// Counts a take-over at `now`; returns the number in a row if two clients must have the identifier.
    pub(super) fn count(&mut self, client: &Arc<str>, now: u64) -> Option<u64> {
        let is_recent = |count: &TakeOverCount| now.saturating_sub(count.last) <= WINDOW;
        if self.0.len() >= MAX_CLIENTS && !self.0.contains_key(client) {
            self.0.retain(|_, count| is_recent(count));
            if self.0.len() >= MAX_CLIENTS {
                self.0.clear();
            }
        }
        let count = self.0.entry(Arc::clone(client)).or_insert(TakeOverCount {
            times: 0,
            last: now,
        });
        count.times = if is_recent(count) { count.times + 1 } else { 1 };
        count.last = now;
        (count.times >= SUSPICIOUS).then_some(count.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_take_overs_within_a_minute_of_each_other_are_two_clients() {
        let (mut counts, client) = (TakeOvers::default(), Arc::<str>::from("sensor"));
        for (second, expected) in [
            (0, None),
            (50, None),
            (200, None),
            (201, None),
            (202, Some(3)),
            (262, Some(4)),
            (400, None),
        ] {
            assert_eq!(counts.count(&client, second * 1000), expected, "{second}");
        }
    }

    #[test]
    fn number_of_counted_identifiers_is_limited() {
        let mut counts = TakeOvers::default();
        for number in 0..1000 {
            counts.count(&number.to_string().into(), 0);
            assert!(counts.0.len() <= MAX_CLIENTS);
        }
    }
}
