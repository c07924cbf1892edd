//! What has no place in the pod any more: containers that are none of its own or stand in for a newer one, and sandboxes
//! that hold nothing. Those that have ended by themselves are its past, and stay.

use std::collections::BTreeSet;

use super::{Action, Desired, Plan};
use crate::edged::observed::{Observed, State};

/// Adds the removal of everything else to the plan.
pub(super) fn tidy(desired: &Desired, observed: &Observed, plan: &mut Plan) {
    let newest = desired.containers.iter().filter_map(|wanted| observed.latest(&wanted.name));
    let kept: BTreeSet<&str> = newest.map(|container| container.id.as_str()).collect();
    let taken: BTreeSet<String> = plan.actions.iter().map(|action| action.id().to_owned()).collect();
    let surplus =
        observed.containers.iter().filter(|c| !kept.contains(c.id.as_str()) && !taken.contains(&c.id));
    plan.actions.extend(surplus.filter_map(|container| match container.state {
        State::Running { .. } | State::Unknown => Some(super::stop(container, super::Why::Ending)),
        State::Created => Some(Action::RemoveContainer { id: container.id.clone() }),
        // How much of the past is kept is the node's to say: see `housekeeping`.
        State::Exited { .. } => None,
    }));
    let empty = observed.sandboxes.iter().skip(1).filter(|sandbox| {
        !sandbox.ready && !observed.containers.iter().any(|container| container.sandbox_id == sandbox.id)
    });
    plan.actions.extend(empty.map(|sandbox| Action::RemoveSandbox { id: sandbox.id.clone() }));
}

impl Action {
    /// The runtime's id of what it is about; empty for what does not exist yet.
    fn id(&self) -> &str {
        match self {
            Action::StopContainer { id, .. }
            | Action::RemoveContainer { id }
            | Action::StopSandbox { id }
            | Action::RemoveSandbox { id } => id,
            Action::CreateSandbox { .. } | Action::Start { .. } => "",
        }
    }
}
