//! Computes when a certificate is renewed. Pure.
//!
//! As EdgeCore does it: somewhere between 70 and 90 % of its lifetime, so that a fleet enrolled on one day does not renew on one
//! day.

use std::time::SystemTime;

/// The part of the lifetime after which the renewal may start.
const MIN_LIFETIME_FRACTION: f64 = 0.7;
/// The part of the lifetime within which it then starts.
const JITTER_FRACTION: f64 = 0.2;

/// Returns the time of the renewal of a certificate that is valid from `begin` to `end`, for `unit` drawn uniformly from
/// 0.0..1.0.
pub(crate) fn due(begin: SystemTime, end: SystemTime, unit: f64) -> SystemTime {
    let lifetime = end.duration_since(begin).unwrap_or_default();
    begin + lifetime.mul_f64(MIN_LIFETIME_FRACTION + JITTER_FRACTION * unit.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn renewals_lie_between_seventy_and_ninety_percent_of_the_lifetime() {
        let day = Duration::from_secs(24 * 60 * 60);
        let begin = SystemTime::UNIX_EPOCH + day * 1000;
        let end = begin + day * 100;
        for (unit, days) in [(0.0, 70), (0.5, 80), (1.0, 90), (7.0, 90)] {
            let at = due(begin, end, unit).duration_since(begin).unwrap();
            assert_eq!(
                (at.as_secs_f64() / day.as_secs_f64()).round() as u64,
                days,
                "{unit}"
            );
        }
        assert_eq!(
            due(end, begin, 0.5),
            end,
            "a certificate that was never valid is renewed"
        );
    }
}
