//! Applies a node's report of an action to the job's status. Pure.

use crds::operations::{ActionStatus, ImageStatus, JobStatus, NodeStatus};
use jiff::Timestamp;
use wire::node_job::{self, Action, ImageOutcome, JobKind, Next};

use super::plan::{FAILURE, IN_PROGRESS, SUCCESSFUL, UNKNOWN, is_in};

/// The longest reason that is stored, characters.
const MAX_REASON: usize = 512;
/// The most images of one node that are stored.
const MAX_IMAGES: usize = 256;
/// Why a repeated report is ignored: agents repeat their reports when they are asked.
pub(super) const REPEATED: &str = "the action was reported before";

/// Reports whether the node is at work, and has done actions before this one whose reports were lost, for example with a killed cloud.
pub(super) fn misses_earlier(
    kind: JobKind,
    status: &JobStatus,
    node: &str,
    report: &node_job::ActionStatus,
) -> bool {
    let entry = status
        .node_status
        .iter()
        .find(|entry| entry.node_name.as_deref() == Some(node));
    let Some(entry) = entry.filter(|entry| is_in(entry, IN_PROGRESS)) else {
        return false;
    };
    let flow = &entry.action_flow;
    let action_of =
        |known: &ActionStatus| Action::parse(known.action.as_deref().unwrap_or_default());
    let Some(action) = Action::parse(&report.action) else {
        return false;
    };
    let expected = match flow.last() {
        None => Some(Next::Action(Action::Check)),
        Some(last) => action_of(last)
            .and_then(|known| kind.next(known, last.status.as_deref() == Some("True"))),
    };
    let is_known = flow.iter().any(|known| action_of(known) == Some(action));
    !is_known && expected != Some(Next::Action(action))
}

/// Returns the status after a report; the error says why it is ignored.
pub(super) fn apply(
    kind: JobKind,
    status: &JobStatus,
    node: &str,
    report: &node_job::ActionStatus,
    now: Timestamp,
) -> Result<JobStatus, &'static str> {
    let mut status = status.clone();
    let nodes = &mut status.node_status;
    let entry = nodes
        .iter_mut()
        .find(|entry| entry.node_name.as_deref() == Some(node));
    let entry = entry.ok_or("the job does not select the node")?;
    let action = Action::parse(&report.action).ok_or("the action is unknown")?;
    let next = kind
        .next(action, report.succ)
        .ok_or("jobs of this kind have no such action")?;
    // a node that was too late may still report how it ended
    if !is_in(entry, IN_PROGRESS) && !is_in(entry, UNKNOWN) {
        return Err("the node is not at work for the job");
    }
    let finish: Option<Timestamp> = report.finish_time.parse().ok();
    let done = ActionStatus {
        action: Some(action.as_str().to_owned()),
        status: Some(if report.succ { "True" } else { "False" }.to_owned()),
        reason: Some(short(&report.reason)).filter(|reason| !reason.is_empty()),
        time: Some(finish.unwrap_or(now).to_string()),
    };
    // an agent that began anew reports its actions again
    let before = entry
        .action_flow
        .iter()
        .position(|known| known.action == done.action);
    match before {
        Some(place)
            if entry
                .action_flow
                .get(place)
                .is_some_and(|known| known.status == done.status) =>
        {
            return Err(REPEATED);
        }
        Some(place) => entry.action_flow.truncate(place),
        None => {}
    }
    entry.action_flow.push(done);
    note_details(entry, action, report);
    match next {
        Next::Action(_) => {}
        Next::End(true) => (entry.phase, entry.reason) = (Some(SUCCESSFUL.to_owned()), None),
        Next::End(false) => {
            (entry.phase, entry.reason) = (Some(FAILURE.to_owned()), Some(failure(entry)));
        }
    }
    Ok(status)
}

/// Returns why the job has failed on a node: the reason of the action that failed, not that of the rollback.
fn failure(node: &NodeStatus) -> String {
    let failed = |action: &&ActionStatus| action.status.as_deref() == Some("False");
    let describe = |action: &ActionStatus| {
        let name = action.action.as_deref().unwrap_or_default();
        match action.reason.as_deref() {
            Some(reason) => format!("{name}: {reason}"),
            None => format!("{name} failed"),
        }
    };
    let is_rollback =
        |action: &&ActionStatus| action.action.as_deref() == Some(Action::RollBack.as_str());
    let cause = node
        .action_flow
        .iter()
        .find(|action| failed(action) && !is_rollback(action));
    let rollback = node.action_flow.iter().find(is_rollback);
    let cause = cause.map(describe);
    match (cause, rollback.filter(failed)) {
        (Some(cause), None) => cause,
        (Some(cause), Some(rollback)) => format!("{cause}; {}", describe(rollback)),
        (None, Some(rollback)) => describe(rollback),
        (None, None) => "rolled back".to_owned(),
    }
}

/// Takes versions and images from the report.
fn note_details(node: &mut NodeStatus, action: Action, report: &node_job::ActionStatus) {
    match action {
        Action::BackUp | Action::Upgrade => {
            let (from, to) = report.extend.split_once(',').unwrap_or_default();
            let given = |version: &str| Some(short(version)).filter(|version| !version.is_empty());
            node.historic_version = given(from).or(node.historic_version.take());
            node.current_version = given(to).or(node.current_version.take());
        }
        Action::Pull => {
            let images: Option<Vec<ImageOutcome>> =
                serde_json::from_str(&report.extend).unwrap_or_default();
            let images = images.unwrap_or_default().into_iter().take(MAX_IMAGES);
            node.image_status = images
                .map(|image| ImageStatus {
                    image: Some(short(&image.image)),
                    status: Some(short(&image.status)),
                    reason: Some(short(&image.reason)).filter(|reason| !reason.is_empty()),
                })
                .collect();
        }
        Action::Check | Action::WaitingConfirmation | Action::Update | Action::RollBack => {}
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_REASON) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
