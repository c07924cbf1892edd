//! What is said to the cloud, and what comes of it.

use std::time::Duration;

use serde_json::Value;
use tracing::warn;
use wire::{
    Down, Downstream, Message, Upstream,
    topic::DeviceId,
    twin::{Event, MembershipQuestion},
};

use super::core::Due;
use crate::edgehub::EdgeHub;
use crate::rt::unix_millis;

/// How long to wait for a confirmation. EdgeCore waits a minute; but CloudCore drops what it hears of a device that it has not read yet,
/// as after its start, and until the confirmation newer values wait.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);
/// After the cloud was not reached.
const REPORT_RETRY_DELAY: Duration = Duration::from_secs(1);
/// After the cloud refused: the device may be about to become this node's, or to go.
const REFUSED_RETRY_DELAY: Duration = Duration::from_secs(30);

/// What became of a report.
pub(super) enum ReportOutcome {
    /// The cloud has it.
    Confirmed(Due),
    /// It is to be told again after this.
    RetryAfter(Duration),
}

/// Tells the cloud.
pub(super) async fn report(hub: EdgeHub, id: DeviceId, due: Due) -> (DeviceId, ReportOutcome) {
    let (what, content) = match &due {
        Due::Twin(update, _) => ("twin/edge_updated", serde_json::to_value(update)),
        // EdgeCore sends this one as text
        Due::State(result, _) => ("state/update", serde_json::to_string(result).map(Value::from)),
    };
    let report =
        Upstream::Device { path: format!("device/{id}/{what}").into(), update: content.unwrap_or_default() };
    let told = match hub.request(report.into_message(unix_millis()), CONFIRM_TIMEOUT).await {
        Ok(answer) => match Down::from(answer).body {
            Downstream::TwinConfirmed(content) if content.get("ErrStatus").is_none() => {
                ReportOutcome::Confirmed(due)
            }
            other => {
                warn!(device = %id, answer = other.kind(), "the cloud does not take a device's report; it is reported again in {REFUSED_RETRY_DELAY:?}");
                ReportOutcome::RetryAfter(REFUSED_RETRY_DELAY)
            }
        },
        // it is told again when there is a connection
        Err(_) => ReportOutcome::RetryAfter(REPORT_RETRY_DELAY),
    };
    (id, told)
}

/// Asks the cloud for the devices of this node. KubeEdge's never answers, and others may: what comes back is a message of its own.
pub(super) async fn ask_for_members(hub: EdgeHub, node: String) {
    let event = Event { event_id: Message::new_id(), timestamp: unix_millis() };
    let question = serde_json::to_string(&MembershipQuestion::new(&node, event)).unwrap_or_default();
    let message = Upstream::MembershipDetail(question.into()).into_message(unix_millis());
    // the objects tell the same; this is for a cloud that only knows memberships
    let _ = hub.request(message, CONFIRM_TIMEOUT).await;
}
