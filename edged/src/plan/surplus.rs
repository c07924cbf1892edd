//! Removes what is surplus: containers that are not the pod's or have been replaced by a newer one, and sandboxes without
//! containers. Containers that have ended by themselves are kept as history.

use std::collections::BTreeSet;

use super::{Action, DesiredPod, Plan};
use crate::observed::{ObservedPod, ObservedState};

/// Adds the removal of surplus containers and sandboxes to the plan.
pub(super) fn remove_surplus(desired: &DesiredPod, observed: &ObservedPod, plan: &mut Plan) {
    let newest = desired
        .containers
        .iter()
        .filter_map(|container| observed.latest(&container.name));
    let kept: BTreeSet<&str> = newest.map(|container| container.id.as_str()).collect();
    let acted_on: BTreeSet<String> = plan
        .actions
        .iter()
        .map(|action| action.id().to_owned())
        .collect();
    let surplus = observed
        .containers
        .iter()
        .filter(|c| !kept.contains(c.id.as_str()) && !acted_on.contains(&c.id));
    plan.actions
        .extend(surplus.filter_map(|container| match container.state {
            ObservedState::Running { .. } | ObservedState::Unknown => {
                Some(super::stop(container, super::StopReason::Ending))
            }
            ObservedState::Created => Some(Action::RemoveContainer {
                id: container.id.clone(),
            }),
            // How many ended containers are kept is decided by `housekeeping`.
            ObservedState::Exited { .. } => None,
        }));
    let empty = observed.sandboxes.iter().skip(1).filter(|sandbox| {
        !sandbox.ready
            && !observed
                .containers
                .iter()
                .any(|container| container.sandbox_id == sandbox.id)
    });
    plan.actions
        .extend(empty.map(|sandbox| Action::RemoveSandbox {
            id: sandbox.id.clone(),
        }));
}

impl Action {
    /// Returns the runtime's id of the action's object, empty if it does not exist yet.
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
