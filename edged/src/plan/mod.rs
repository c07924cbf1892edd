//! Decides what to do for a pod, from its desired and its observed state, and when to decide again. Pure.
//!
//! A plan holds all actions that can be taken at once. After they were carried out, the pod is observed again and the next plan
//! is made.

mod desired;
mod restart;
mod surplus;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;

pub(crate) use self::desired::{
    DesiredContainer, DesiredPod, RestartPolicy, Role, as_container, deadline, spec_of,
};
use self::restart::StartDecision;
use super::{
    observed::{Container, HealthFailure, ObservedPod, ObservedState, Sandbox},
    timestamps,
};

/// What to do for a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Actions to take in this order.
    pub(crate) actions: Vec<Action>,
    /// When to plan again even if nothing changes.
    pub(crate) replan_at: Option<Timestamp>,
    /// Containers in restart back-off, with its duration.
    pub(crate) back_off: BTreeMap<String, std::time::Duration>,
}

/// An action of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Asks the container to end; takes up to its grace period.
    StopContainer {
        /// The runtime's id.
        id: String,
        /// Why it is stopped.
        why: StopReason,
    },
    /// Removes a container that has ended.
    RemoveContainer {
        /// The runtime's id.
        id: String,
    },
    /// Stops a sandbox and releases its network.
    StopSandbox {
        /// The runtime's id.
        id: String,
    },
    /// Removes a sandbox without containers.
    RemoveSandbox {
        /// The runtime's id.
        id: String,
    },
    /// Creates a sandbox.
    CreateSandbox {
        /// How many of its kind the pod had before.
        attempt: u32,
    },
    /// Creates and starts a container in the ready sandbox.
    Start {
        /// Its name in the pod.
        name: String,
        /// How many of its kind the pod had before.
        attempt: u32,
        /// How many restarts in a row lead to it.
        restart_step: u32,
    },
}

/// Why a container is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The pod ends, or does not need the container.
    Ending,
    /// Its specification has changed.
    Changed,
    /// A probe or hook has failed.
    HealthFailure(HealthFailure),
}

/// Plans the next actions for a pod that shall run.
pub(crate) fn plan(desired: &DesiredPod, observed: &ObservedPod, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if desired.is_finished(observed) {
        wind_down(desired, observed, &mut plan);
    } else {
        let runs_elsewhere = stop_other_sandboxes(observed, &mut plan);
        match observed.ready_sandbox() {
            Some(sandbox) => start(desired, observed, sandbox, now, &mut plan),
            // A name, a port or a volume may still be in use: the old containers are stopped first.
            None if runs_elsewhere => {}
            None => {
                let attempt = observed
                    .sandboxes
                    .first()
                    .map_or(0, |last| last.attempt.saturating_add(1));
                plan.actions.push(Action::CreateSandbox { attempt });
            }
        }
    }
    plan.replan_at = timestamps::earlier(plan.replan_at, desired.deadline);
    surplus::remove_surplus(desired, observed, &mut plan);
    plan
}

/// Plans the next actions for a pod that shall end: first its containers are stopped, then its sandboxes.
pub(crate) fn terminate(desired: &DesiredPod, observed: &ObservedPod) -> Plan {
    let mut plan = Plan::default();
    wind_down(desired, observed, &mut plan);
    plan
}

/// Stops sidecars after all other containers, which they serve: one after the other, the last started first.
fn wind_down(desired: &DesiredPod, observed: &ObservedPod, plan: &mut Plan) {
    let sidecars = desired
        .containers
        .iter()
        .rev()
        .filter(|wanted| wanted.role == Role::Sidecar);
    let sidecars: Vec<&str> = sidecars.map(|wanted| wanted.name.as_str()).collect();
    let alive = || {
        observed
            .containers
            .iter()
            .filter(|container| container.is_alive())
    };
    let is_sidecar = |container: &&Container| sidecars.contains(&container.name.as_str());
    let last = sidecars
        .iter()
        .find_map(|name| alive().find(|container| container.name == *name));
    let mut now: Vec<&Container> = alive().filter(|container| !is_sidecar(container)).collect();
    if now.is_empty() {
        now.extend(last);
    }
    plan.actions.extend(
        now.into_iter()
            .map(|container| stop(container, StopReason::Ending)),
    );
    if plan.actions.is_empty() {
        let ready = observed.sandboxes.iter().filter(|sandbox| sandbox.ready);
        plan.actions
            .extend(ready.map(|sandbox| Action::StopSandbox {
                id: sandbox.id.clone(),
            }));
    }
}

fn stop(container: &Container, why: StopReason) -> Action {
    Action::StopContainer {
        id: container.id.clone(),
        why,
    }
}

/// Stops containers and sandboxes other than the ready sandbox, and reports whether containers run elsewhere.
fn stop_other_sandboxes(observed: &ObservedPod, plan: &mut Plan) -> bool {
    let current = observed.ready_sandbox().map(|sandbox| sandbox.id.as_str());
    let elsewhere = |id: &str| current != Some(id);
    let alive = observed
        .containers
        .iter()
        .filter(|c| c.is_alive() && elsewhere(&c.sandbox_id));
    plan.actions
        .extend(alive.map(|c| stop(c, StopReason::Ending)));
    let runs_elsewhere = !plan.actions.is_empty();
    let empty = |sandbox: &Sandbox| {
        !observed
            .containers
            .iter()
            .any(|c| c.is_alive() && c.sandbox_id == sandbox.id)
    };
    let others = observed
        .sandboxes
        .iter()
        .filter(|s| s.ready && elsewhere(&s.id) && empty(s));
    plan.actions
        .extend(others.map(|s| Action::StopSandbox { id: s.id.clone() }));
    runs_elsewhere
}

/// Starts init containers one after the other, each when the one before it has ended (or, if it is a sidecar, has started), then
/// all main containers. Nothing starts while the postStart hook of an earlier container runs.
fn start(
    desired: &DesiredPod,
    observed: &ObservedPod,
    sandbox: &Sandbox,
    now: Timestamp,
    plan: &mut Plan,
) {
    let here = |name: &str| observed.latest(name).filter(|c| c.sandbox_id == sandbox.id);
    let initialised = desired.mains().any(|wanted| here(&wanted.name).is_some());
    let once = desired
        .containers
        .iter()
        .filter(|wanted| wanted.role == Role::Ephemeral);
    for wanted in once.filter(|wanted| {
        observed
            .latest(&wanted.name)
            .is_none_or(|c| c.state == ObservedState::Created)
    }) {
        start_if_due(wanted, observed, now, plan);
    }
    for wanted in &desired.containers {
        let last = here(&wanted.name);
        let running = last.filter(|last| matches!(last.state, ObservedState::Running { .. }));
        if let Some(running) = running {
            stop_if_unwanted(wanted, running, plan);
            let waits = match wanted.role {
                Role::Init => !initialised,
                Role::Sidecar => {
                    running.health.starting || !(initialised || running.health.started)
                }
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
            Role::Init => return start_if_due(wanted, observed, now, plan),
            Role::Sidecar => {
                start_if_due(wanted, observed, now, plan);
                if !initialised {
                    return;
                }
            }
            Role::Main if restart::is_wanted(wanted, observed.latest(&wanted.name)) => {
                start_if_due(wanted, observed, now, plan);
            }
            Role::Main | Role::Ephemeral => {}
        }
    }
}

/// Stops a running container that is unhealthy or has changed; after its end the next plan starts another one.
fn stop_if_unwanted(wanted: &DesiredContainer, running: &Container, plan: &mut Plan) {
    if let Some(failure) = running.health.failure {
        plan.actions
            .push(stop(running, StopReason::HealthFailure(failure)));
    } else if matches!(wanted.role, Role::Sidecar | Role::Main)
        && restart::is_changed(wanted, running)
    {
        plan.actions.push(stop(running, StopReason::Changed));
    }
}

fn start_if_due(
    wanted: &DesiredContainer,
    observed: &ObservedPod,
    now: Timestamp,
    plan: &mut Plan,
) {
    match restart::decide(wanted, observed.latest(&wanted.name), now) {
        StartDecision::Now {
            attempt,
            restart_step,
            remove,
        } => {
            plan.actions
                .extend(remove.map(|id| Action::RemoveContainer { id }));
            plan.actions.push(Action::Start {
                name: wanted.name.clone(),
                attempt,
                restart_step,
            });
        }
        StartDecision::Later { at, delay } => {
            plan.replan_at = timestamps::earlier(plan.replan_at, Some(at));
            plan.back_off.insert(wanted.name.clone(), delay);
        }
        StartDecision::Stop { id } => plan.actions.push(Action::StopContainer {
            id,
            why: StopReason::Ending,
        }),
        StartDecision::Wait => {}
    }
}
