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
}
