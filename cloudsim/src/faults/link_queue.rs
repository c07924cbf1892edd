//! One direction of a link: which messages arrive, when, and in which order. No clock and no I/O: chance comes from a seed, and the time
//! is an argument.

use clock::Instant;
use std::{collections::BTreeMap, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{Conditions, corruption::Arrival};

/// How many messages may be in flight; further ones are lost, as in a router whose queue is full.
const MAX_IN_FLIGHT: usize = 1024;
/// The additional delay of a message that is to be overtaken.
const REORDER_DELAY: Duration = Duration::from_millis(200);

/// The messages in flight.
#[derive(Debug)]
pub(crate) struct LinkQueue<T> {
    chance: StdRng,
    /// By arrival time, then by the order of sending.
    waiting: BTreeMap<(Instant, u64), Arrival<T>>,
    sent: u64,
    /// Until when the throttled link is busy.
    busy: Option<Instant>,
    /// The arrival time of the last message that keeps its order; none of them may arrive sooner.
    last: Option<Instant>,
}

impl<T: Clone> LinkQueue<T> {
    /// Creates an empty queue; the same seed and the same messages give the same results.
    pub(crate) fn new(seed: u64) -> Self {
        let chance = StdRng::seed_from_u64(seed);
        Self {
            chance,
            waiting: BTreeMap::new(),
            sent: 0,
            busy: None,
            last: None,
        }
    }

    /// Takes a message of `size` bytes.
    pub(crate) fn offer(&mut self, conditions: &Conditions, size: usize, message: T, now: Instant) {
        // always drawn in the same number and order: enabling one fault does not change the chances of the others
        let [lost, twice, overtaken, jitter, corrupt] =
            [(); 5].map(|()| self.chance.random::<f64>());
        let place = self.chance.random::<u64>();
        let happens = |part: Option<f64>, drawn: f64| part.is_some_and(|part| drawn < part);
        let passed = self.pass(conditions, size, now);
        if happens(conditions.drop, lost) {
            return;
        }
        let jitter = conditions.jitter.unwrap_or_default().get().mul_f64(jitter);
        let mut arrival = passed + conditions.delay.unwrap_or_default().get() + jitter;
        if happens(conditions.reorder, overtaken) {
            arrival += REORDER_DELAY;
        } else if conditions.kinds.is_empty() {
            // others do not wait for kinds that are delayed
            arrival = self.last.map_or(arrival, |last| arrival.max(last));
            self.last = Some(arrival);
        }
        let message = Arrival {
            message,
            corruption: happens(conditions.corrupt, corrupt).then_some(place),
        };
        if happens(conditions.duplicate, twice) {
            self.put(arrival, message.clone());
        }
        self.put(arrival, message);
    }

    /// Returns when the last byte of a message has passed the throttled link.
    fn pass(&mut self, conditions: &Conditions, size: usize, now: Instant) -> Instant {
        let Some(rate) = conditions.throttle.filter(|rate| *rate > 0) else {
            return now;
        };
        let nanos = (size as u128).saturating_mul(1_000_000_000) / u128::from(rate);
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let begun = self.busy.map_or(now, |busy| busy.max(now));
        // a time beyond the clock's range counts as never
        let done = begun.checked_add(takes).unwrap_or(begun);
        self.busy = Some(done);
        done
    }

    /// Lets no message in flight arrive later than at this time: the fault that made it late has ended.
    pub(crate) fn hasten(&mut self, latest: Instant) {
        let late = self.waiting.split_off(&(latest, u64::MAX));
        let moved = late.into_iter();
        let moved = moved.map(|((_, number), message)| ((latest, number), message));
        self.waiting.extend(moved);
        self.last = self.last.map(|last| last.min(latest));
        self.busy = None;
    }

    fn put(&mut self, arrival: Instant, message: Arrival<T>) {
        if self.waiting.len() < MAX_IN_FLIGHT {
            self.waiting.insert((arrival, self.sent), message);
            self.sent += 1;
        }
    }

    /// Takes the next message that has arrived.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Arrival<T>> {
        let entry = self
            .waiting
            .first_entry()
            .filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// Returns when the next message arrives.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waiting.keys().next().map(|(arrival, _)| *arrival)
    }

    /// Returns how many messages are in flight.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Drops all messages in flight.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Period, *};

    /// Sends `count` messages of 1000 bytes, a millisecond apart; which arrive, and after how many milliseconds.
    fn arrivals(conditions: &Conditions, count: u64, seed: u64) -> Vec<(u64, u128)> {
        let (begin, mut queue) = (Instant::now(), LinkQueue::new(seed));
        let mut arrived = Vec::new();
        for number in 0..count {
            queue.offer(
                conditions,
                1000,
                number,
                begin + Duration::from_millis(number),
            );
        }
        while let Some(due) = queue.due() {
            assert_eq!(queue.take(due - Duration::from_nanos(1)), None);
            arrived.push((queue.take(due).unwrap().message, (due - begin).as_millis()));
        }
        arrived
    }

    fn none() -> Conditions {
        Conditions::default()
    }

    #[test]
    fn a_perfect_link_hands_over_at_once_and_in_order() {
        let all: Vec<(u64, u128)> = (0..100)
            .map(|number| (number, u128::from(number)))
            .collect();
        assert_eq!(arrivals(&none(), 100, 1), all);
    }

    #[test]
    fn delay_and_jitter_keep_the_order() {
        let delayed = Conditions {
            delay: Some(Period::millis(300)),
            ..none()
        };
        assert_eq!(arrivals(&delayed, 3, 1), [(0, 300), (1, 301), (2, 302)]);
        let jittered = Conditions {
            jitter: Some(Period::millis(50)),
            ..delayed
        };
        let arrived = arrivals(&jittered, 200, 1);
        assert_eq!(
            arrived
                .iter()
                .map(|(number, _)| *number)
                .collect::<Vec<_>>(),
            (0..200).collect::<Vec<_>>()
        );
        assert!(arrived.iter().all(|(number, at)| {
            (u128::from(*number) + 300..=u128::from(*number) + 350 + 50).contains(at)
        }));
        assert!(
            arrived
                .iter()
                .any(|(number, at)| *at > u128::from(*number) + 310)
        );
    }

    #[test]
    fn a_throttle_lets_so_many_bytes_pass_in_a_second() {
        let throttled = Conditions {
            throttle: Some(10_000),
            ..none()
        };
        let arrived = arrivals(&throttled, 50, 1);
        // 1000 bytes take 100 ms each
        let expected: Vec<(u64, u128)> = (0..50)
            .map(|number| (number, u128::from(number + 1) * 100))
            .collect();
        assert_eq!(arrived, expected);
    }

    #[test]
    fn parts_of_messages_are_lost_doubled_or_overtaken() {
        let lossy = arrivals(
            &Conditions {
                drop: Some(0.25),
                ..none()
            },
            1000,
            7,
        );
        assert!((680..=820).contains(&lossy.len()), "{}", lossy.len());
        let doubled = arrivals(
            &Conditions {
                duplicate: Some(0.25),
                ..none()
            },
            800,
            7,
        );
        assert!((940..=1024).contains(&doubled.len()), "{}", doubled.len());
        let mixed = arrivals(
            &Conditions {
                reorder: Some(0.25),
                ..none()
            },
            1000,
            7,
        );
        assert_eq!(mixed.len(), 1000);
        let overtaken = mixed.windows(2).filter(|two| two[0].0 > two[1].0).count();
        assert!((100..=400).contains(&overtaken), "{overtaken}");
        assert_eq!(
            arrivals(
                &Conditions {
                    drop: Some(1.0),
                    ..none()
                },
                100,
                7
            ),
            []
        );
        assert_eq!(
            arrivals(
                &Conditions {
                    drop: Some(0.0),
                    ..none()
                },
                100,
                7
            )
            .len(),
            100
        );
    }

    #[test]
    fn a_seed_makes_the_same_fate_again() {
        let wild = Conditions {
            drop: Some(0.2),
            duplicate: Some(0.2),
            reorder: Some(0.2),
            jitter: Some(Period::millis(40)),
            ..none()
        };
        assert_eq!(arrivals(&wild, 500, 3), arrivals(&wild, 500, 3));
        assert_ne!(arrivals(&wild, 500, 3), arrivals(&wild, 500, 4));
    }

    #[test]
    fn part_of_the_messages_is_corrupted() {
        let (now, mut queue) = (Instant::now(), LinkQueue::new(7));
        let corrupted = Conditions {
            corrupt: Some(0.25),
            ..none()
        };
        for number in 0..1000 {
            queue.offer(&corrupted, 1, number, now);
        }
        let all: Vec<_> = std::iter::from_fn(|| queue.take(now)).collect();
        let count = all.iter().filter(|one| one.corruption.is_some()).count();
        assert_eq!(all.len(), 1000);
        assert!((200..=300).contains(&count), "{count}");
    }

    #[test]
    fn no_more_than_a_queue_of_messages_is_on_its_way() {
        let mut queue = LinkQueue::new(1);
        let endless = Conditions {
            delay: Some(Period::seconds(3600)),
            ..none()
        };
        for number in 0..5000 {
            queue.offer(&endless, 1, number, Instant::now());
        }
        assert_eq!(queue.len(), MAX_IN_FLIGHT);
        queue.clear();
        assert_eq!((queue.len(), queue.due()), (0, None));
    }
}
