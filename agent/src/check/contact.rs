//! Check `contact`: the agent is connected to the cloud.

use super::{inputs::Inputs, report::CheckResult};
use crate::status::StatusReport;

/// A longer time without a connection is reported as a warning, seconds.
const MAX_SECONDS: u64 = 300;

pub(crate) async fn check(inputs: &Inputs<'_>) -> CheckResult {
    match inputs.agent_status().await {
        Ok(status) => judge(status),
        Err(result) => result,
    }
}

fn judge(status: &StatusReport) -> CheckResult {
    let cloud = &status.cloud;
    if cloud.connected {
        return CheckResult::Passed(format!("connected since {}", cloud.since));
    }
    let what = match cloud.connections {
        0 => format!("not connected since the agent started, {}", cloud.since),
        _ => format!("not connected since {}", cloud.since),
    };
    let what = match status.queued_messages {
        0 => what,
        queued => format!(
            "{what}; {} wait for the cloud",
            wire::text::count(queued, "message")
        ),
    };
    if cloud.seconds < MAX_SECONDS {
        return CheckResult::Remark(what);
    }
    CheckResult::warning(
        what,
        "correct the failed checks of the cloud (dns, cloud, clock, certificate, hub or quic); if all of them pass, `edge-agent \
         status` shows the latest errors; pods continue to run",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_that_is_away_for_five_minutes_is_a_warning() {
        for (connected, seconds, expected) in [
            (true, 9999, "ok"),
            (false, 299, "remark"),
            (false, 300, "warning"),
        ] {
            let mut status = StatusReport::default();
            status.cloud.connected = connected;
            status.cloud.seconds = seconds;
            status.queued_messages = 7;
            let found = judge(&status);
            let (what, _) = found.texts();
            assert!(connected || what.contains("7 messages wait"), "{what}");
            let grade = match found {
                CheckResult::Passed(_) => "ok",
                CheckResult::Remark(_) => "remark",
                CheckResult::Warning { .. } => "warning",
                other => panic!("{other:?}"),
            };
            assert_eq!(grade, expected, "{seconds}");
        }
    }
}
