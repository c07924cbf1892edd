//! The phase, by the kubelet's rules.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodStatus};

use super::{View, containers::Statuses};
use crate::edged::{plan::RestartPolicy, specs};

/// Where a container stands, for the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// Never ran.
    Waiting,
    /// Runs.
    Running,
    /// Ended with this code, whether or not it waits for a restart.
    Stopped(i32),
}

/// The pod's phase. `Succeeded` and `Failed` are for ever, and only said when nothing of the pod can run any more.
pub(super) fn of(view: &View<'_>, old: &PodStatus, statuses: &Statuses) -> &'static str {
    match (old.phase.as_deref(), reached(view, statuses)) {
        (Some("Succeeded"), _) => "Succeeded",
        (Some("Failed"), _) => "Failed",
        (last, "Succeeded" | "Failed")
            if view.observed.containers.iter().any(|container| container.is_alive()) =>
        {
            // A sidecar is still to end.
            if last == Some("Pending") { "Pending" } else { "Running" }
        }
        (_, phase) => phase,
    }
}

/// What the containers come to.
fn reached(view: &View<'_>, statuses: &Statuses) -> &'static str {
    let policy = RestartPolicy::of(view.pod);
    let mains: Vec<Stand> = statuses.mains.iter().map(stand).collect();
    let stopped_well = mains.iter().all(|stand| *stand == Stand::Stopped(0));
    if view.failed.is_some() && !view.observed.containers.iter().any(|container| container.is_alive()) {
        return "Failed";
    }
    if view.ended {
        return if stopped_well && !mains.is_empty() { "Succeeded" } else { "Failed" };
    }
    match inits(view, statuses, policy) {
        Initialised::Yes => {}
        Initialised::Failed => return "Failed",
        Initialised::NotYet => return "Pending",
    }
    let specs = view.pod.spec.iter().flat_map(|spec| spec.containers.iter());
    let goes_on = specs.zip(&mains).any(|(spec, stand)| match stand {
        Stand::Running => true,
        Stand::Stopped(code) => RestartPolicy::of_container(spec, policy).restarts(*code),
        Stand::Waiting => false,
    });
    if mains.contains(&Stand::Waiting) || mains.is_empty() {
        "Pending"
    } else if goes_on {
        "Running"
    } else if stopped_well {
        "Succeeded"
    } else {
        "Failed"
    }
}

fn stand(status: &ContainerStatus) -> Stand {
    let state = status.state.as_ref();
    let last = status.last_state.as_ref();
    if state.is_some_and(|state| state.running.is_some()) {
        return Stand::Running;
    }
    let ended =
        state.and_then(|s| s.terminated.as_ref()).or_else(|| last.and_then(|l| l.terminated.as_ref()));
    ended.map_or(Stand::Waiting, |ended| Stand::Stopped(ended.exit_code))
}

/// How far the init containers are.
enum Initialised {
    Yes,
    NotYet,
    Failed,
}

fn inits(view: &View<'_>, statuses: &Statuses, policy: RestartPolicy) -> Initialised {
    // Once a main container exists, its init containers are history, and may be gone from the runtime.
    let begun = |status: &ContainerStatus| status.container_id.is_some();
    if statuses.mains.iter().any(begun) {
        return Initialised::Yes;
    }
    let specs = view.pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let mut result = Initialised::Yes;
    for (spec, status) in specs.zip(statuses.inits.iter().flatten()) {
        match stand(status) {
            _ if is_done(spec, status) => {}
            Stand::Stopped(code) if !RestartPolicy::of_container(spec, policy).restarts(code) => {
                return Initialised::Failed;
            }
            _ => result = Initialised::NotYet,
        }
    }
    result
}

/// Names of the init containers that are not done.
pub(super) fn uninitialised(view: &View<'_>, statuses: &Statuses) -> Vec<String> {
    if matches!(inits(view, statuses, RestartPolicy::of(view.pod)), Initialised::Yes) {
        return Vec::new();
    }
    let specs = view.pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let pairs = specs.zip(statuses.inits.iter().flatten());
    pairs.filter(|(spec, status)| !is_done(spec, status)).map(|(spec, _)| spec.name.clone()).collect()
}

/// Whether what comes after this init container need not wait for it.
fn is_done(spec: &Container, status: &ContainerStatus) -> bool {
    if specs::is_sidecar(spec) {
        stand(status) == Stand::Running && status.started == Some(true)
    } else {
        stand(status) == Stand::Stopped(0)
    }
}
