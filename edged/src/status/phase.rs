//! Computes a pod's phase by the kubelet's rules.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodStatus};

use super::{PodStatusInputs, containers::ContainerStatuses};
use crate::{plan::RestartPolicy, specs};

/// The state of a container, as the phase needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunState {
    /// It has never run.
    Waiting,
    /// It runs.
    Running,
    /// It has ended with this exit code, and may wait for a restart.
    Stopped(i32),
}

/// Returns the pod's phase. `Succeeded` and `Failed` are final, and only returned when no container of the pod can run any more.
pub(super) fn of(
    inputs: &PodStatusInputs<'_>,
    old: &PodStatus,
    statuses: &ContainerStatuses,
) -> &'static str {
    match (old.phase.as_deref(), phase_of_containers(inputs, statuses)) {
        (Some("Succeeded"), _) => "Succeeded",
        (Some("Failed"), _) => "Failed",
        (last, "Succeeded" | "Failed")
            if inputs
                .observed
                .containers
                .iter()
                .any(|container| container.is_alive()) =>
        {
            // A sidecar has not ended yet.
            if last == Some("Pending") {
                "Pending"
            } else {
                "Running"
            }
        }
        (_, phase) => phase,
    }
}

/// Returns the phase that follows from the containers.
fn phase_of_containers(inputs: &PodStatusInputs<'_>, statuses: &ContainerStatuses) -> &'static str {
    let policy = RestartPolicy::of(inputs.pod);
    let mains: Vec<RunState> = statuses.mains.iter().map(run_state).collect();
    let stopped_well = mains
        .iter()
        .all(|state_of_main| *state_of_main == RunState::Stopped(0));
    if inputs.failed.is_some()
        && !inputs
            .observed
            .containers
            .iter()
            .any(|container| container.is_alive())
    {
        return "Failed";
    }
    if inputs.ended {
        return if stopped_well && !mains.is_empty() {
            "Succeeded"
        } else {
            "Failed"
        };
    }
    match init_progress(inputs, statuses, policy) {
        InitProgress::Done => {}
        InitProgress::Failed => return "Failed",
        InitProgress::Pending => return "Pending",
    }
    let specs = inputs
        .pod
        .spec
        .iter()
        .flat_map(|spec| spec.containers.iter());
    let continues = specs
        .zip(&mains)
        .any(|(spec, state_of_main)| match state_of_main {
            RunState::Running => true,
            RunState::Stopped(code) => RestartPolicy::of_container(spec, policy).restarts(*code),
            RunState::Waiting => false,
        });
    if mains.contains(&RunState::Waiting) || mains.is_empty() {
        "Pending"
    } else if continues {
        "Running"
    } else if stopped_well {
        "Succeeded"
    } else {
        "Failed"
    }
}

fn run_state(status: &ContainerStatus) -> RunState {
    let state = status.state.as_ref();
    let last = status.last_state.as_ref();
    if state.is_some_and(|state| state.running.is_some()) {
        return RunState::Running;
    }
    let ended = state
        .and_then(|s| s.terminated.as_ref())
        .or_else(|| last.and_then(|l| l.terminated.as_ref()));
    ended.map_or(RunState::Waiting, |ended| {
        RunState::Stopped(ended.exit_code)
    })
}

/// Progress of the init containers.
enum InitProgress {
    Done,
    Pending,
    Failed,
}

fn init_progress(
    inputs: &PodStatusInputs<'_>,
    statuses: &ContainerStatuses,
    policy: RestartPolicy,
) -> InitProgress {
    // Once a main container exists, the init containers have ended, and the runtime may have removed them.
    let begun = |status: &ContainerStatus| status.container_id.is_some();
    if statuses.mains.iter().any(begun) {
        return InitProgress::Done;
    }
    let specs = inputs
        .pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten());
    let mut result = InitProgress::Done;
    for (spec, status) in specs.zip(statuses.inits.iter().flatten()) {
        match run_state(status) {
            _ if is_done(spec, status) => {}
            RunState::Stopped(code)
                if !RestartPolicy::of_container(spec, policy).restarts(code) =>
            {
                return InitProgress::Failed;
            }
            _ => result = InitProgress::Pending,
        }
    }
    result
}

/// Returns the names of the init containers that are not done.
pub(super) fn uninitialised_names(
    inputs: &PodStatusInputs<'_>,
    statuses: &ContainerStatuses,
) -> Vec<String> {
    if matches!(
        init_progress(inputs, statuses, RestartPolicy::of(inputs.pod)),
        InitProgress::Done
    ) {
        return Vec::new();
    }
    let specs = inputs
        .pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten());
    let pairs = specs.zip(statuses.inits.iter().flatten());
    pairs
        .filter(|(spec, status)| !is_done(spec, status))
        .map(|(spec, _)| spec.name.clone())
        .collect()
}

/// Reports whether this init container lets the next one start.
fn is_done(spec: &Container, status: &ContainerStatus) -> bool {
    if specs::is_sidecar(spec) {
        run_state(status) == RunState::Running && status.started == Some(true)
    } else {
        run_state(status) == RunState::Stopped(0)
    }
}
