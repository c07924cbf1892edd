//! Reports devices to the cloud.

use std::time::Duration;

use serde_json::Value;
use tracing::warn;
use wire::{
    Down, Downstream, Message, Upstream,
    topic::DeviceId,
    twin::{Event, MembershipQuestion},
};

use super::core::PendingReport;
use crate::edgehub::EdgeHub;

/// How long to wait for a confirmation. EdgeCore waits a minute; but CloudCore drops reports of a device that it has not read
/// yet, as after its start, and newer values wait until the confirmation.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);
/// The wait after the cloud was not reached.
const REPORT_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The wait after the cloud refused a report: the device may be about to be bound to this node, or to be removed.
const REFUSED_RETRY_DELAY: Duration = Duration::from_secs(30);

/// The outcome of a report.
pub(super) enum ReportOutcome {
    /// The cloud has confirmed it.
    Confirmed(PendingReport),
    /// It has to be reported again after this time.
    RetryAfter(Duration),
}

/// Sends a report to the cloud and waits for its confirmation.
pub(super) async fn report(
    hub: EdgeHub,
    id: DeviceId,
    due: PendingReport,
) -> (DeviceId, ReportOutcome) {
    let (what, content) = match &due {
        PendingReport::Twin(update, _) => ("twin/edge_updated", serde_json::to_value(update)),
        // EdgeCore sends this content as text
        PendingReport::State(result, _) => (
            "state/update",
            serde_json::to_string(result).map(Value::from),
        ),
    };
    let report = Upstream::Device {
        path: format!("device/{id}/{what}").into(),
        update: content.unwrap_or_default(),
    };
    let told = match hub
        .request(report.into_message(clock::unix_millis()), CONFIRM_TIMEOUT)
        .await
    {
        Ok(answer) => match Down::from(answer).body {
            Downstream::TwinConfirmed(content) if content.get("ErrStatus").is_none() => {
                ReportOutcome::Confirmed(due)
            }
            other => {
                warn!(
                    device = %id,
                    answer = other.form().as_str(),
                    "cloud rejected a device's report; retrying in {REFUSED_RETRY_DELAY:?}"
                );
                ReportOutcome::RetryAfter(REFUSED_RETRY_DELAY)
            }
        },
        // it is reported again when there is a connection
        Err(_) => ReportOutcome::RetryAfter(REPORT_RETRY_DELAY),
    };
    (id, told)
}

/// Asks the cloud for the devices of this node. KubeEdge's cloud never answers; others may, with a message of its own.
pub(super) async fn request_members(hub: EdgeHub, node: String) {
    let event = Event {
        event_id: Message::new_id(),
        timestamp: clock::unix_millis(),
    };
    let question =
        serde_json::to_string(&MembershipQuestion::new(&node, event)).unwrap_or_default();
    let message = Upstream::MembershipDetail(question.into()).into_message(clock::unix_millis());
    // the objects say the same; this is for a cloud that only knows memberships
    let _ = hub.request(message, CONFIRM_TIMEOUT).await;
}
