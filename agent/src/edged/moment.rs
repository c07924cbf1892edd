//! Arithmetic on instants that cannot panic, and the second precision that the Kubernetes API has.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// `at` plus `wait`, or the end of time.
pub(crate) fn after(at: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| at.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
}

/// How long from `now` until `at`; zero when `at` has passed.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// How long ago `at` was. What has not come yet was set down before the clock was set back: that was long ago.
pub(crate) fn since(at: Timestamp, now: Timestamp) -> Duration {
    if at > now { Duration::MAX } else { until(now, at) }
}

/// Whether a wait until `at` is over that was no longer than `longest` when it began: a clock that was set back meanwhile does
/// not make it longer.
pub(crate) fn is_over(at: Timestamp, now: Timestamp, longest: Duration) -> bool {
    at <= now || at > after(now, longest)
}

/// From Unix nanoseconds, as CRI counts; 0 is "has not happened".
pub(crate) fn from_nanos(nanos: i64) -> Option<Timestamp> {
    if nanos == 0 { None } else { Timestamp::from_nanosecond(i128::from(nanos)).ok() }
}

/// As an API field, which holds whole seconds.
pub(crate) fn to_api(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// The earlier of two instants, where either may be missing.
pub(crate) fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_differences_stop_at_the_ends_of_time() {
        assert_eq!(after(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(after(Timestamp::UNIX_EPOCH, Duration::MAX), Timestamp::MAX);
        assert_eq!(until(Timestamp::UNIX_EPOCH, Timestamp::MAX), Duration::ZERO);
        assert_eq!(
            until(after(Timestamp::UNIX_EPOCH, Duration::from_secs(2)), Timestamp::UNIX_EPOCH).as_secs(),
            2
        );
        assert_eq!(from_nanos(0), None);
    }

    #[test]
    fn a_clock_that_is_set_back_holds_up_nothing() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let wait = Duration::from_secs(60);
        for (until, now, over) in
            [(100, 99, false), (100, 100, true), (100, 40, false), (100, 39, true), (100, -9, true)]
        {
            assert_eq!(is_over(at(until), at(now), wait), over, "until {until}, at {now}");
        }
        assert_eq!((since(at(10), at(12)).as_secs(), since(at(12), at(10))), (2, Duration::MAX));
    }
}
