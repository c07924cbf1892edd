//! Arithmetic on timestamps that cannot panic, and conversion to the whole seconds of the Kubernetes API.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Returns `at` plus `wait`, at most [`Timestamp::MAX`].
pub(crate) fn after(at: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait)
        .ok()
        .and_then(|wait| at.checked_add(wait).ok())
        .unwrap_or(Timestamp::MAX)
}

/// Returns the time from `now` until `at`, zero if `at` has passed.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// Returns how long ago `at` was. If `at` is in the future, the clock was set back, and the result is [`Duration::MAX`].
pub(crate) fn since(at: Timestamp, now: Timestamp) -> Duration {
    if at > now {
        Duration::MAX
    } else {
        until(now, at)
    }
}

/// Reports whether a wait until `at` has ended, which was at most `longest` when it began. A clock that was set back meanwhile does
/// not prolong it.
pub(crate) fn has_elapsed(at: Timestamp, now: Timestamp, longest: Duration) -> bool {
    at <= now || at > after(now, longest)
}

/// Converts CRI's Unix nanoseconds, in which 0 means that the event has not happened.
pub(crate) fn from_nanos(nanos: i64) -> Option<Timestamp> {
    if nanos == 0 {
        None
    } else {
        Timestamp::from_nanosecond(i128::from(nanos)).ok()
    }
}

/// Converts a timestamp to a field of the API, which holds whole seconds.
pub(crate) fn to_api(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// Returns the earlier of two timestamps, of which either may be missing.
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
    fn arithmetic_saturates() {
        assert_eq!(
            after(Timestamp::MAX, Duration::from_secs(1)),
            Timestamp::MAX
        );
        assert_eq!(after(Timestamp::UNIX_EPOCH, Duration::MAX), Timestamp::MAX);
        assert_eq!(until(Timestamp::UNIX_EPOCH, Timestamp::MAX), Duration::ZERO);
        assert_eq!(
            until(
                after(Timestamp::UNIX_EPOCH, Duration::from_secs(2)),
                Timestamp::UNIX_EPOCH
            )
            .as_secs(),
            2
        );
        assert_eq!(from_nanos(0), None);
    }

    #[test]
    fn clock_set_back_prolongs_no_wait() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let wait = Duration::from_secs(60);
        for (until, now, over) in [
            (100, 99, false),
            (100, 100, true),
            (100, 40, false),
            (100, 39, true),
            (100, -9, true),
        ] {
            assert_eq!(
                has_elapsed(at(until), at(now), wait),
                over,
                "until {until}, at {now}"
            );
        }
        assert_eq!(
            (since(at(10), at(12)).as_secs(), since(at(12), at(10))),
            (2, Duration::MAX)
        );
    }
}
