//! Decides when a probe is due, and when its results count. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Probe;

use crate::timestamps;

/// A probe's timing and thresholds, with the API's defaults for missing or invalid values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    /// Time from the container's start to the first probe.
    pub(super) initial_delay: Duration,
    /// Time from one probe to the next.
    pub(super) period: Duration,
    /// Timeout of one probe.
    pub(super) timeout: Duration,
    success_threshold: u32,
    failure_threshold: u32,
}

impl Timing {
    /// Reads the fields of the probe.
    pub(super) fn of(probe: &Probe) -> Self {
        let number = |field: Option<i32>, default: u32| {
            field
                .and_then(|number| u32::try_from(number).ok())
                .filter(|number| *number > 0)
                .unwrap_or(default)
        };
        let seconds = |field, default| Duration::from_secs(number(field, default).into());
        Self {
            initial_delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10),
            timeout: seconds(probe.timeout_seconds, 1),
            success_threshold: number(probe.success_threshold, 1),
            failure_threshold: number(probe.failure_threshold, 3),
        }
    }

    /// Returns the time until the first probe. A container that has run for longer than a period was started before this agent;
    /// its first probe comes after the fraction `share`, from 0 to 1, of a period, so that the probes of many such containers do
    /// not run at the same time.
    pub(super) fn first(&self, started_at: Timestamp, now: Timestamp, share: f64) -> Duration {
        let due = timestamps::after(started_at, self.initial_delay);
        if now > timestamps::after(due, self.period) {
            return self.period.mul_f64(share.clamp(0.0, 1.0));
        }
        // A clock that was set back does not prolong it.
        timestamps::until(due, now).min(self.initial_delay)
    }
}

/// Counts equal results in a row.
#[derive(Debug)]
pub(super) struct ResultStreak {
    timing: Timing,
    last: Option<bool>,
    length: u32,
}

impl ResultStreak {
    /// Returns a streak without results.
    pub(super) fn new(timing: Timing) -> Self {
        Self {
            timing,
            last: None,
            length: 0,
        }
    }

    /// Adds a result, and returns it if the threshold of equal results in a row is reached.
    pub(super) fn add(&mut self, success: bool) -> Option<bool> {
        self.length = if self.last == Some(success) {
            self.length.saturating_add(1)
        } else {
            1
        };
        self.last = Some(success);
        let threshold = if success {
            self.timing.success_threshold
        } else {
            self.timing.failure_threshold
        };
        (self.length >= threshold).then_some(success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(success_threshold: i32, failure_threshold: i32) -> Timing {
        Timing::of(&Probe {
            success_threshold: Some(success_threshold),
            failure_threshold: Some(failure_threshold),
            initial_delay_seconds: Some(5),
            timeout_seconds: Some(-1),
            ..Default::default()
        })
    }

    #[test]
    fn what_is_missing_or_senseless_has_the_apis_default() {
        let timing = timing(0, 0);
        let seconds =
            [timing.initial_delay, timing.period, timing.timeout].map(|field| field.as_secs());
        assert_eq!(seconds, [5, 10, 1]);
        assert_eq!((timing.success_threshold, timing.failure_threshold), (1, 3));
    }

    #[test]
    fn result_counts_after_its_threshold_in_a_row() {
        let mut streak = ResultStreak::new(timing(2, 3));
        let verdicts: Vec<Option<bool>> = [
            true, true, false, false, true, false, false, false, false, true, true,
        ]
        .map(|result| streak.add(result))
        .into();
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(
            verdicts,
            [None, yes, None, None, None, None, None, no, no, None, yes]
        );
    }

    #[test]
    fn the_first_probe_waits_for_the_initial_delay_and_spreads_after_a_restart_of_the_agent() {
        let timing = timing(1, 1);
        let started = Timestamp::UNIX_EPOCH;
        let first = |second| timing.first(started, Timestamp::from_second(second).unwrap(), 0.5);
        assert_eq!(first(0), Duration::from_secs(5));
        assert_eq!(first(7), Duration::ZERO);
        assert_eq!(first(1000), Duration::from_secs(5));
        assert_eq!(
            first(-1000),
            Duration::from_secs(5),
            "the clock was set back"
        );
    }
}
