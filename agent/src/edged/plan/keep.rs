//! What of the past is kept: of each container the newest, and the last that ended before it; of the sandboxes those
//! that hold such a container.

use std::collections::BTreeSet;

use super::{Action, Desired, Plan};
use crate::edged::observed::{Observed, State};

/// Adds the removal of everything else to the plan.
pub(super) fn tidy(desired: &Desired, observed: &Observed, plan: &mut Plan) {
    let mut kept = BTreeSet::new();
    for wanted in &desired.containers {
        let mut all = observed.named(&wanted.name);
        let newest = all.next();
        kept.extend(newest.map(|container| container.id.as_str()));
        if newest.is_some_and(|newest| newest.exit_code().is_none()) {
            kept.extend(all.find(|container| container.exit_code().is_some()).map(|c| c.id.as_str()));
        }
    }
    let taken: BTreeSet<String> = plan.actions.iter().map(|action| action.id().to_owned()).collect();
    let surplus =
        observed.containers.iter().filter(|c| !kept.contains(c.id.as_str()) && !taken.contains(&c.id));
    plan.actions.extend(surplus.map(|container| match container.state {
        State::Running { .. } | State::Unknown => super::stop(container, super::Why::Ending),
        State::Created | State::Exited { .. } => Action::RemoveContainer { id: container.id.clone() },
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
