//! Check `contact`: the agent is connected to the cloud.

use super::{inputs::Inputs, report::CheckResult};
use crate::status::StatusReport;

/// The module whose errors tell why the cloud is not connected.
const HUB: &str = "agent::edgehub";
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
            "{what}; {} queued for the cloud",
            wire::text::count(queued, "message")
        ),
    };
    // the agent's own error names the cause, which these checks cannot see: the cloud may refuse this node alone
    let latest = status.errors.iter().rev();
    if let Some(error) = latest.clone().find(|error| error.target.starts_with(HUB)) {
        return CheckResult::bad(
            format!("{what}; latest error at {}: {}", error.time, error.text),
            "follow the remedy in the error; pods continue to run, and the agent connects again by itself",
        );
    }
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
    use crate::log::recent::RecentLine;

    #[test]
    fn latest_error_of_the_connection_is_the_cause() {
        let line = |target: &str, text: &str| RecentLine {
            time: "12:00".to_owned(),
            level: "WARN".to_owned(),
            target: target.to_owned(),
            text: text.to_owned(),
            count: 1,
        };
        let mut status = StatusReport {
            errors: vec![
                line("agent::edgehub::dial", "connection refused"),
                line("agent::edgehub::dial", "403: the certificate was revoked"),
                line("agent::eventbus", "no broker"),
            ],
            ..StatusReport::default()
        };
        let found = judge(&status);
        assert!(matches!(found, CheckResult::Failed { .. }), "{found:?}");
        let (what, _) = found.texts();
        assert!(what.contains("403: the certificate was revoked"), "{what}");
        status.cloud.connected = true;
        assert!(matches!(judge(&status), CheckResult::Passed(_)));
    }

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
            assert!(connected || what.contains("7 messages queued"), "{what}");
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
