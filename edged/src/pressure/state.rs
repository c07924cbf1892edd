//! Decides from readings over time: grace periods of soft thresholds, minimum reclaim, and conditions that are kept for a while
//! so that they do not flap. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/>.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::signals::{Condition, Reading};
use crate::{
    settings::{Eviction, Signal, Threshold},
    timestamps,
};

/// The state between two readings.
#[derive(Debug, Default)]
pub(crate) struct PressureState {
    /// Since when each threshold has been met, by its index.
    since: BTreeMap<usize, Timestamp>,
    /// When each condition's cause was last seen.
    last_seen: BTreeMap<Condition, Timestamp>,
    /// Indexes of thresholds that called for action and whose minimum reclaim is not reached.
    unresolved: BTreeSet<usize>,
}

/// What to do after a reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EvictionDecision {
    /// The node's conditions.
    pub(crate) conditions: BTreeSet<Condition>,
    /// The thresholds that call for action, the most urgent first.
    pub(crate) met: Vec<Threshold>,
}

impl PressureState {
    /// Updates the state with a reading and returns what to do.
    pub(crate) fn update(
        &mut self,
        config: &Eviction,
        reading: &Reading,
        now: Timestamp,
    ) -> EvictionDecision {
        let all = || config.thresholds.iter().enumerate();
        // Times in the future were stored before the clock was set back.
        self.since
            .values_mut()
            .chain(self.last_seen.values_mut())
            .for_each(|at| *at = now.min(*at));
        let low: BTreeSet<usize> = all()
            .filter(|(index, threshold)| {
                let with_reclaim = self.unresolved.contains(index);
                is_met(threshold, reading, with_reclaim)
            })
            .map(|(index, _)| index)
            .collect();
        self.since.retain(|index, _| low.contains(index));
        for (index, threshold) in all().filter(|(index, _)| low.contains(index)) {
            self.since.entry(index).or_insert(now);
            self.last_seen.insert(threshold.signal.condition(), now);
        }
        let period = config.transition_period;
        self.last_seen.retain(|condition, at| {
            let holds =
                all().any(|(index, t)| low.contains(&index) && t.signal.condition() == *condition);
            holds || timestamps::until(now, *at) < period
        });
        let since = &self.since;
        let is_due = |(index, threshold): &(usize, &Threshold)| {
            since
                .get(index)
                .is_some_and(|at| timestamps::until(now, *at) >= threshold.grace)
        };
        self.unresolved = all().filter(is_due).map(|(index, _)| index).collect();
        let mut met: Vec<Threshold> = all()
            .filter(is_due)
            .map(|(_, threshold)| *threshold)
            .collect();
        // memory first, as it is the most urgent
        met.sort_by_key(|threshold| threshold.signal != Signal::MemoryAvailable);
        EvictionDecision {
            conditions: self.last_seen.keys().copied().collect(),
            met,
        }
    }
}

/// Reports whether the threshold is met.
pub(crate) fn is_met(threshold: &Threshold, reading: &Reading, with_reclaim: bool) -> bool {
    let Some(seen) = reading.signals.get(&threshold.signal) else {
        return false;
    };
    let least = threshold.value.of(seen.capacity);
    let more = threshold
        .reclaim
        .filter(|_| with_reclaim)
        .map_or(0, |more| more.of(seen.capacity));
    seen.available < least.saturating_add(more)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{pressure::signals::Observation, settings::ThresholdValue};

    fn threshold(signal: Signal, least: i64, grace: u64, reclaim: Option<i64>) -> Threshold {
        Threshold {
            signal,
            value: ThresholdValue::Quantity(least),
            grace: Duration::from_secs(grace),
            reclaim: reclaim.map(ThresholdValue::Quantity),
        }
    }

    fn reading(values: &[(Signal, i64)]) -> Reading {
        let signals = values.iter().map(|(signal, available)| {
            (
                *signal,
                Observation {
                    available: *available,
                    capacity: 1000,
                },
            )
        });
        Reading {
            signals: signals.collect(),
            image_disk: false,
        }
    }

    /// Each step: second, memory, disk; what is said and done.
    fn run(thresholds: Vec<Threshold>, transition: u64, steps: &[(i64, i64, i64, &str)]) {
        let config = Eviction {
            thresholds,
            transition_period: Duration::from_secs(transition),
            ..Eviction::default()
        };
        let mut state = PressureState::default();
        for (second, memory, disk, wanted) in steps {
            let reading = reading(&[
                (Signal::MemoryAvailable, *memory),
                (Signal::NodeFsAvailable, *disk),
            ]);
            let verdict = state.update(&config, &reading, Timestamp::from_second(*second).unwrap());
            let conditions = verdict.conditions.iter().map(|c| format!("{c:?}"));
            let met = verdict.met.iter().map(|t| t.signal.name().to_owned());
            let seen = conditions.chain(met).collect::<Vec<_>>().join(" ");
            assert_eq!(seen, *wanted, "at {second}");
        }
    }

    #[test]
    fn hard_threshold_acts_at_once_and_its_condition_persists() {
        let hard = vec![threshold(Signal::MemoryAvailable, 100, 0, None)];
        run(
            hard,
            300,
            &[
                (0, 100, 900, ""),
                (10, 99, 900, "Memory memory.available"),
                (20, 100, 900, "Memory"),
                (309, 500, 900, "Memory"),
                (310, 500, 900, ""),
                (320, 1, 900, "Memory memory.available"),
            ],
        );
    }

    #[test]
    fn soft_threshold_waits_for_its_grace_period() {
        let soft = vec![threshold(Signal::MemoryAvailable, 100, 30, None)];
        run(
            soft,
            0,
            &[
                (0, 50, 900, "Memory"),
                (20, 50, 900, "Memory"),
                (25, 200, 900, ""),
                (30, 50, 900, "Memory"),
                (59, 50, 900, "Memory"),
                (60, 50, 900, "Memory memory.available"),
            ],
        );
    }

    #[test]
    fn a_clock_that_is_set_back_prolongs_nothing() {
        let soft = vec![threshold(Signal::MemoryAvailable, 100, 30, None)];
        run(
            soft,
            60,
            &[
                (9000, 50, 900, "Memory"),
                (10, 50, 900, "Memory"),
                (40, 50, 900, "Memory memory.available"),
                (-500, 900, 900, "Memory"),
                (-440, 900, 900, ""),
            ],
        );
    }

    #[test]
    fn threshold_stays_met_until_minimum_reclaim() {
        let hard = vec![threshold(Signal::NodeFsAvailable, 100, 0, Some(50))];
        run(
            hard,
            0,
            &[
                (0, 900, 120, ""),
                (10, 900, 99, "Disk nodefs.available"),
                (20, 900, 149, "Disk nodefs.available"),
                (30, 900, 150, ""),
                (40, 900, 120, ""),
            ],
        );
    }

    #[test]
    fn memory_goes_before_the_disk() {
        let hard = vec![
            threshold(Signal::NodeFsAvailable, 100, 0, None),
            threshold(Signal::MemoryAvailable, 100, 0, None),
        ];
        run(
            hard,
            0,
            &[(0, 1, 1, "Memory Disk memory.available nodefs.available")],
        );
    }

    #[test]
    fn unreadable_signal_is_never_met() {
        let t = threshold(Signal::PidAvailable, 100, 0, None);
        assert!(!is_met(&t, &Reading::default(), false));
        let part = Threshold {
            value: ThresholdValue::Percentage(0.1),
            ..t
        };
        assert!(is_met(
            &part,
            &reading(&[(Signal::PidAvailable, 99)]),
            false
        ));
        assert!(!is_met(
            &part,
            &reading(&[(Signal::PidAvailable, 100)]),
            false
        ));
    }
}
