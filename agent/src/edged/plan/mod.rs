//! From the pod that is wanted and what the runtime has of it: what to do now, and when to look again. Pure.
//!
//! A plan holds every step that can be taken at once; whoever carries it out observes again and asks for the next one.

mod desired;
mod keep;
mod restart;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;

pub(crate) use self::desired::{Desired, RestartPolicy, Role, Wanted, role_of_init};
use self::restart::Admission;
use super::{
    moment,
    observed::{Observed, Sandbox, State},
};

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// In this order.
    pub(crate) actions: Vec<Action>,
    /// When time alone changes the plan.
    pub(crate) wake: Option<Timestamp>,
    /// Containers that wait before they are restarted, with the length of the wait.
    pub(crate) back_off: BTreeMap<String, std::time::Duration>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask the container to end; takes up to its grace period.
    StopContainer {
        /// The runtime's id.
        id: String,
    },
    /// Forget a container that has ended.
    RemoveContainer {
        /// The runtime's id.
        id: String,
    },
    /// Free the sandbox's network.
    StopSandbox {
        /// The runtime's id.
        id: String,
    },
    /// Forget a sandbox without containers.
    RemoveSandbox {
        /// The runtime's id.
        id: String,
    },
    /// Make a sandbox.
    CreateSandbox {
        /// How many there were before.
        attempt: u32,
    },
    /// Make and start a container in the current sandbox.
    Start {
        /// Its name in the pod.
        name: String,
        /// How many there were before.
        attempt: u32,
        /// How many restarts in a row lead to it.
        step: u32,
    },
}

/// The next steps for a pod that is to run.
pub(crate) fn plan(desired: &Desired, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if desired.is_finished(observed) {
        wind_down(observed, &mut plan);
    } else {
        let strays = leave_other_sandboxes(observed, &mut plan);
        match observed.current() {
            Some(sandbox) => start(desired, observed, sandbox, now, &mut plan),
            // A name, a port or a volume may still be in use: first the old ones go.
            None if strays => {}
            None => {
                let attempt = observed.sandboxes.first().map_or(0, |last| last.attempt.saturating_add(1));
                plan.actions.push(Action::CreateSandbox { attempt });
            }
        }
    }
    keep::tidy(desired, observed, &mut plan);
    plan
}

/// The next steps for a pod that is to end: what is alive is stopped, then the sandboxes.
pub(crate) fn terminate(observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    wind_down(observed, &mut plan);
    plan
}

fn wind_down(observed: &Observed, plan: &mut Plan) {
    let alive = observed.containers.iter().filter(|container| container.is_alive());
    plan.actions.extend(alive.map(|container| Action::StopContainer { id: container.id.clone() }));
    if plan.actions.is_empty() {
        let ready = observed.sandboxes.iter().filter(|sandbox| sandbox.ready);
        plan.actions.extend(ready.map(|sandbox| Action::StopSandbox { id: sandbox.id.clone() }));
    }
}

/// Stops what runs outside of the current sandbox, and says whether there was any.
fn leave_other_sandboxes(observed: &Observed, plan: &mut Plan) -> bool {
    let current = observed.current().map(|sandbox| sandbox.id.as_str());
    let elsewhere = |id: &str| current != Some(id);
    let alive = observed.containers.iter().filter(|c| c.is_alive() && elsewhere(&c.sandbox_id));
    plan.actions.extend(alive.map(|c| Action::StopContainer { id: c.id.clone() }));
    let strays = !plan.actions.is_empty();
    let empty =
        |sandbox: &Sandbox| !observed.containers.iter().any(|c| c.is_alive() && c.sandbox_id == sandbox.id);
    let others = observed.sandboxes.iter().filter(|s| s.ready && elsewhere(&s.id) && empty(s));
    plan.actions.extend(others.map(|s| Action::StopSandbox { id: s.id.clone() }));
    strays
}

/// Init containers one after the other, each done (or, if it is a sidecar, running) before the next, then all others.
fn start(desired: &Desired, observed: &Observed, sandbox: &Sandbox, now: Timestamp, plan: &mut Plan) {
    let here = |name: &str| observed.latest(name).filter(|c| c.sandbox_id == sandbox.id);
    let initialised = desired.mains().any(|wanted| here(&wanted.name).is_some());
    for wanted in &desired.containers {
        let state = here(&wanted.name).map(|container| &container.state);
        match (wanted.role, state) {
            (Role::Init, _) if initialised => {}
            (Role::Init, Some(State::Exited { exit_code: 0, .. })) => {}
            (Role::Init, Some(State::Running { .. })) => return,
            (Role::Init, _) => return admit(wanted, observed, now, plan),
            (Role::Sidecar | Role::Main, Some(State::Running { .. })) => {
                replace_if_changed(wanted, observed, plan)
            }
            (Role::Sidecar, _) => {
                admit(wanted, observed, now, plan);
                if !initialised {
                    return;
                }
            }
            (Role::Main, _) => {
                let last = observed.latest(&wanted.name);
                if restart::is_wanted(wanted, last, desired.restart) {
                    admit(wanted, observed, now, plan);
                }
            }
        }
    }
}

/// A container whose image was changed is stopped; when it has ended, the next plan starts the new one.
fn replace_if_changed(wanted: &Wanted, observed: &Observed, plan: &mut Plan) {
    if let Some(last) = observed.latest(&wanted.name).filter(|last| restart::is_changed(wanted, last)) {
        plan.actions.push(Action::StopContainer { id: last.id.clone() });
    }
}

fn admit(wanted: &Wanted, observed: &Observed, now: Timestamp, plan: &mut Plan) {
    match restart::admit(wanted, observed.latest(&wanted.name), now) {
        Admission::Now { attempt, step, remove } => {
            plan.actions.extend(remove.map(|id| Action::RemoveContainer { id }));
            plan.actions.push(Action::Start { name: wanted.name.clone(), attempt, step });
        }
        Admission::Later { at, delay } => {
            plan.wake = moment::earlier(plan.wake, Some(at));
            plan.back_off.insert(wanted.name.clone(), delay);
        }
        Admission::Stop { id } => plan.actions.push(Action::StopContainer { id }),
        Admission::Wait => {}
    }
}
