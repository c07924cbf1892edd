//! From the pod that is wanted and what the runtime has of it: what to do now, and when to plan again. Pure.
//!
//! A plan holds every step that can be taken at once; whoever carries it out observes again and asks for the next one.

mod desired;
mod keep;
mod restart;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;

pub(crate) use self::desired::{Desired, RestartPolicy, Role, Wanted, as_container, deadline, spec_of};
use self::restart::Admission;
use super::{
    moment,
    observed::{Container, Fault, Observed, Sandbox, State},
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
        /// What for.
        why: Why,
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

/// Why a container is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The pod ends, or has no use for it.
    Ending,
    /// It is to be made from something else.
    Changed,
    /// It is not well.
    Fault(Fault),
}

/// The next steps for a pod that is to run.
pub(crate) fn plan(desired: &Desired, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if desired.is_finished(observed) {
        wind_down(desired, observed, &mut plan);
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
    plan.wake = moment::earlier(plan.wake, desired.deadline);
    keep::tidy(desired, observed, &mut plan);
    plan
}

/// The next steps for a pod that is to end: what is alive is stopped, then the sandboxes.
pub(crate) fn terminate(desired: &Desired, observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    wind_down(desired, observed, &mut plan);
    plan
}

/// Sidecars serve the others to their end: they go last, the last started first.
fn wind_down(desired: &Desired, observed: &Observed, plan: &mut Plan) {
    let sidecars = desired.containers.iter().rev().filter(|wanted| wanted.role == Role::Sidecar);
    let sidecars: Vec<&str> = sidecars.map(|wanted| wanted.name.as_str()).collect();
    let alive = || observed.containers.iter().filter(|container| container.is_alive());
    let is_sidecar = |container: &&Container| sidecars.contains(&container.name.as_str());
    let last = sidecars.iter().find_map(|name| alive().find(|container| container.name == *name));
    let mut now: Vec<&Container> = alive().filter(|container| !is_sidecar(container)).collect();
    if now.is_empty() {
        now.extend(last);
    }
    plan.actions.extend(now.into_iter().map(|container| stop(container, Why::Ending)));
    if plan.actions.is_empty() {
        let ready = observed.sandboxes.iter().filter(|sandbox| sandbox.ready);
        plan.actions.extend(ready.map(|sandbox| Action::StopSandbox { id: sandbox.id.clone() }));
    }
}

fn stop(container: &Container, why: Why) -> Action {
    Action::StopContainer { id: container.id.clone(), why }
}

/// Stops what runs outside of the current sandbox, and says whether there was any.
fn leave_other_sandboxes(observed: &Observed, plan: &mut Plan) -> bool {
    let current = observed.current().map(|sandbox| sandbox.id.as_str());
    let elsewhere = |id: &str| current != Some(id);
    let alive = observed.containers.iter().filter(|c| c.is_alive() && elsewhere(&c.sandbox_id));
    plan.actions.extend(alive.map(|c| stop(c, Why::Ending)));
    let strays = !plan.actions.is_empty();
    let empty =
        |sandbox: &Sandbox| !observed.containers.iter().any(|c| c.is_alive() && c.sandbox_id == sandbox.id);
    let others = observed.sandboxes.iter().filter(|s| s.ready && elsewhere(&s.id) && empty(s));
    plan.actions.extend(others.map(|s| Action::StopSandbox { id: s.id.clone() }));
    strays
}

/// Init containers one after the other, each done (or, if it is a sidecar, started) before the next, then all others; none
/// while the postStart hook of one before it runs.
fn start(desired: &Desired, observed: &Observed, sandbox: &Sandbox, now: Timestamp, plan: &mut Plan) {
    let here = |name: &str| observed.latest(name).filter(|c| c.sandbox_id == sandbox.id);
    let initialised = desired.mains().any(|wanted| here(&wanted.name).is_some());
    let once = desired.containers.iter().filter(|wanted| wanted.role == Role::Ephemeral);
    for wanted in
        once.filter(|wanted| observed.latest(&wanted.name).is_none_or(|c| c.state == State::Created))
    {
        admit(wanted, observed, now, plan);
    }
    for wanted in &desired.containers {
        let last = here(&wanted.name);
        let running = last.filter(|last| matches!(last.state, State::Running { .. }));
        if let Some(running) = running {
            correct(wanted, running, plan);
            let waits = match wanted.role {
                Role::Init => !initialised,
                Role::Sidecar => running.health.starting || !(initialised || running.health.started),
                Role::Main => running.health.starting,
                Role::Ephemeral => false,
            };
            if waits {
                return;
            }
            continue;
        }
        match wanted.role {
            Role::Init if initialised || last.is_some_and(|last| last.exit_code() == Some(0)) => {}
            Role::Init => return admit(wanted, observed, now, plan),
            Role::Sidecar => {
                admit(wanted, observed, now, plan);
                if !initialised {
                    return;
                }
            }
            Role::Main if restart::is_wanted(wanted, observed.latest(&wanted.name)) => {
                admit(wanted, observed, now, plan);
            }
            Role::Main | Role::Ephemeral => {}
        }
    }
}

/// A running container that is not as it should be is stopped; when it has ended, the next plan starts another one.
fn correct(wanted: &Wanted, running: &Container, plan: &mut Plan) {
    if let Some(fault) = running.health.fault {
        plan.actions.push(stop(running, Why::Fault(fault)));
    } else if matches!(wanted.role, Role::Sidecar | Role::Main) && restart::is_changed(wanted, running) {
        plan.actions.push(stop(running, Why::Changed));
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
        Admission::Stop { id } => plan.actions.push(Action::StopContainer { id, why: Why::Ending }),
        Admission::Wait => {}
    }
}
