//! Check `clock`: the clock of this machine agrees with the cloud's.

use std::time::{Duration, SystemTime};

use super::{inputs::Inputs, report::CheckResult};
use crate::status::duration;

/// A larger difference is reported: the cloud gives whole seconds.
const TOLERANCE: Duration = Duration::from_secs(10);
/// With a larger difference, tokens and new certificates are refused.
const MAX_SKEW: Duration = Duration::from_mins(5);

pub(crate) async fn check(inputs: &Inputs<'_>) -> CheckResult {
    let times = inputs.cloud_answers().await.iter().filter_map(|answer| {
        let date = answer.answer.as_ref().ok()?.date?;
        Some((answer.server.to_string(), date, answer.local))
    });
    match times.min_by_key(|(_, date, local)| difference(*date, *local)) {
        Some((server, date, local)) => judge(&server, date, local),
        None => CheckResult::Skipped(
            "the cloud's time is unknown: no HTTPS server of this cloud responds".into(),
        ),
    }
}

fn difference(one: SystemTime, other: SystemTime) -> Duration {
    let difference = one.duration_since(other);
    difference.unwrap_or_else(|error| error.duration())
}

fn judge(server: &str, date: SystemTime, local: SystemTime) -> CheckResult {
    let skew = difference(date, local);
    if skew <= TOLERANCE {
        return CheckResult::Passed(format!("within {} s of {server}", TOLERANCE.as_secs()));
    }
    let direction = if local > date { "fast" } else { "slow" };
    let what = format!(
        "the clock of this machine is {} {direction}, compared with {server}",
        duration(skew.as_secs())
    );
    let cure = "set the clock and keep it exact: timedatectl set-ntp true; if the clock of the cloud is wrong, set that one";
    if skew > MAX_SKEW {
        CheckResult::bad(what, cure)
    } else {
        CheckResult::warning(what, cure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_clock_is_reported_with_its_direction() {
        let now = clock::system_now();
        for (ahead, behind, expected) in [
            (0, 0, "within"),
            (9, 0, "within"),
            (30, 0, "slow"),
            (0, 30, "fast"),
            (3600, 0, "slow"),
        ] {
            let date = now + Duration::from_secs(ahead) - Duration::from_secs(behind);
            let found = judge("cloud:10002", date, now);
            assert!(found.texts().0.contains(expected), "{found:?}");
            let is_error = matches!(found, CheckResult::Failed { .. });
            assert_eq!(is_error, ahead > 300, "{found:?}");
        }
    }
}
