//! Computes the statuses of a pod's containers.

use k8s_openapi::api::core::v1::{
    Container as Spec, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, PodStatus, VolumeMount, VolumeMountStatus,
};

use super::{PodStatusInputs, Waiting};
use crate::{
    observed::{Container, ObservedState, SIGKILL_EXIT_CODE},
    plan::{RestartPolicy, as_container},
    resize, specs, timestamps,
};

/// The statuses of all containers, in the order of the specification.
#[derive(Debug)]
pub(super) struct ContainerStatuses {
    /// Statuses of init containers; `None` if there are none.
    pub(super) inits: Option<Vec<ContainerStatus>>,
    /// Statuses of main containers.
    pub(super) mains: Vec<ContainerStatus>,
    /// Statuses of ephemeral containers; `None` if there are none.
    pub(super) ephemeral: Option<Vec<ContainerStatus>>,
}

/// Computes the statuses of all containers.
pub(super) fn all(inputs: &PodStatusInputs<'_>, old: &PodStatus) -> ContainerStatuses {
    let spec = inputs.pod.spec.as_ref();
    let inits = spec
        .and_then(|spec| spec.init_containers.as_deref())
        .unwrap_or_default();
    let statuses =
        |old: Option<&Vec<ContainerStatus>>, specs: &[Spec], default: &str, init: bool| {
            specs
                .iter()
                .map(|spec| {
                    let last =
                        old.and_then(|all| all.iter().find(|status| status.name == spec.name));
                    container_status(
                        inputs,
                        spec,
                        last,
                        default,
                        init && !specs::is_sidecar(spec),
                    )
                })
                .collect::<Vec<_>>()
        };
    // Containers that have not started wait for the sandbox, or for the init containers.
    let reason = if inits.is_empty() {
        "ContainerCreating"
    } else {
        "PodInitializing"
    };
    let old_inits = old.init_container_statuses.as_ref();
    let mains = spec
        .map(|spec| spec.containers.as_slice())
        .unwrap_or_default();
    let ephemeral = spec
        .iter()
        .flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    let ephemeral: Vec<Spec> = ephemeral.filter_map(as_container).collect();
    ContainerStatuses {
        inits: (!inits.is_empty()).then(|| statuses(old_inits, inits, reason, true)),
        mains: statuses(old.container_statuses.as_ref(), mains, reason, false),
        ephemeral: (!ephemeral.is_empty()).then(|| {
            let mut all = statuses(
                old.ephemeral_container_statuses.as_ref(),
                &ephemeral,
                "ContainerCreating",
                false,
            );
            // Ephemeral containers are never ready.
            all.iter_mut().for_each(|status| {
                (status.ready, status.started) = (false, None);
                (status.resources, status.allocated_resources) = (None, None);
            });
            all
        }),
    }
}

fn container_status(
    inputs: &PodStatusInputs<'_>,
    spec: &Spec,
    old: Option<&ContainerStatus>,
    default: &str,
    runs_to_its_end: bool,
) -> ContainerStatus {
    let mut all = inputs.observed.containers_named(&spec.name);
    let waiting = inputs.waiting.get(&spec.name);
    let Some(newest) = all.next() else {
        return missing_container_status(inputs, spec, old, default);
    };
    let mut status = ContainerStatus {
        name: spec.name.clone(),
        image: image(spec, newest),
        image_id: newest.image_id.clone(),
        container_id: Some(container_id(inputs, newest)),
        restart_count: i32::try_from(newest.attempt).unwrap_or(i32::MAX),
        started: Some(false),
        volume_mounts: mounts(spec, newest),
        ..Default::default()
    };
    let before = all.find_map(|container| terminated_status(inputs, container));
    // A reason that delays the whole pod also delays the restart of its containers.
    let continues = inputs.pod.metadata.deletion_timestamp.is_none()
        && inputs.failed.is_none()
        && !specs::is_terminal(inputs.pod);
    let held_up = held_up(inputs, default);
    let waiting = waiting.or(held_up.as_ref().filter(|_| continues));
    // A container that will not be started again shows how it ended, not why its last start failed.
    let waiting = waiting.filter(|_| !is_final(inputs, spec, newest, runs_to_its_end));
    match (&newest.state, waiting) {
        (ObservedState::Running { .. }, _) if newest.health.starting => {
            status.state = Some(waiting_state(default, ""));
            status.last_state = before.map(terminated_state);
        }
        (ObservedState::Running { started_at }, _) => {
            let running = ContainerStateRunning {
                started_at: Some(timestamps::to_api(*started_at)),
            };
            status.state = Some(ContainerState {
                running: Some(running),
                ..Default::default()
            });
            status.last_state = before.map(terminated_state);
            status.ready = !runs_to_its_end && newest.health.ready;
            let resources = resize::of_container(inputs.pod, spec, newest, inputs.resources);
            status.resources = Some(resources);
            status.allocated_resources = spec
                .resources
                .as_ref()
                .and_then(|resources| resources.requests.clone())
                .filter(|requests| !requests.is_empty());
            status.started = Some(newest.health.started);
        }
        (ObservedState::Exited { .. }, None) => {
            status.state = terminated_status(inputs, newest).map(terminated_state);
            status.last_state = before.map(terminated_state);
            status.ready = runs_to_its_end && newest.exit_code() == Some(0);
        }
        (ObservedState::Exited { .. }, Some(waiting)) => {
            status.state = Some(waiting_state(&waiting.reason, &waiting.message));
            status.last_state = terminated_status(inputs, newest).map(terminated_state);
        }
        (ObservedState::Created | ObservedState::Unknown, waiting) => {
            let (reason, message) = waiting.map_or((default, ""), |w| (&w.reason, &w.message));
            status.state = Some(waiting_state(reason, message));
            status.last_state = before.map(terminated_state);
        }
    }
    status
}

/// Returns the reason that delays the whole pod, for a container without a reason of its own.
fn held_up(inputs: &PodStatusInputs<'_>, default: &str) -> Option<Waiting> {
    inputs
        .held_up
        .map(|held_up| Waiting::new(default, &held_up.message))
}

/// Reports whether the container has ended and is not restarted.
fn is_final(
    inputs: &PodStatusInputs<'_>,
    spec: &Spec,
    newest: &Container,
    runs_to_its_end: bool,
) -> bool {
    let policy = RestartPolicy::of_container(spec, RestartPolicy::of(inputs.pod));
    newest
        .exit_code()
        .is_some_and(|code| !policy.restarts(code) || (code == 0 && runs_to_its_end))
}

/// Returns the readable name of the container's image.
fn image(spec: &Spec, newest: &Container) -> String {
    if newest.image.is_empty() || newest.image.starts_with("sha256:") {
        return spec.image.clone().unwrap_or_default();
    }
    newest.image.clone()
}

/// Returns the statuses of volume mounts.
fn mounts(spec: &Spec, newest: &Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts = spec
        .volume_mounts
        .as_ref()
        .filter(|mounts| !mounts.is_empty())?;
    let status = |mount: &VolumeMount| {
        let read_only = mount.read_only == Some(true);
        let recursive = newest.recursive_read_only.contains(&mount.mount_path);
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: read_only.then_some(true),
            recursive_read_only: read_only
                .then(|| if recursive { "Enabled" } else { "Disabled" }.to_owned()),
        }
    };
    Some(mounts.iter().map(status).collect())
}

/// Returns the status of a container that the runtime does not have, or has no longer.
fn missing_container_status(
    inputs: &PodStatusInputs<'_>,
    spec: &Spec,
    old: Option<&ContainerStatus>,
    default: &str,
) -> ContainerStatus {
    let is_over = inputs.ended || specs::is_terminal(inputs.pod);
    let held_up = held_up(inputs, default);
    let waiting = inputs.waiting.get(&spec.name).or(held_up.as_ref());
    let (reason, message) =
        waiting.map_or((default, ""), |w| (w.reason.as_str(), w.message.as_str()));
    let new = ContainerStatus {
        name: spec.name.clone(),
        image: spec.image.clone().unwrap_or_default(),
        started: Some(false),
        state: Some(waiting_state(reason, message)),
        ..Default::default()
    };
    let Some(old) = old else { return new };
    let state = old.state.clone().unwrap_or_default();
    let (last_state, restart_count) = (old.last_state.clone(), old.restart_count);
    let counted = ContainerStatus {
        last_state,
        restart_count,
        ..new
    };
    if state.terminated.is_some() {
        if is_over || waiting.is_none() {
            return old.clone();
        }
        let (container_id, image_id) = (old.container_id.clone(), old.image_id.clone());
        return ContainerStatus {
            last_state: Some(state),
            container_id,
            image_id,
            ..counted
        };
    }
    if state.running.is_none() {
        return counted;
    }
    if is_over
        || !RestartPolicy::of_container(spec, RestartPolicy::of(inputs.pod))
            .restarts(SIGKILL_EXIT_CODE)
    {
        return ContainerStatus {
            state: Some(terminated_state(vanished_state(is_over))),
            ..counted
        };
    }
    let next = i32::from(inputs.pod.metadata.deletion_timestamp.is_none());
    let restart_count = restart_count.saturating_add(next);
    ContainerStatus {
        last_state: Some(terminated_state(vanished_state(is_over))),
        restart_count,
        ..counted
    }
}

/// Returns the final state of a container that was running and is gone, in the kubelet's words.
fn vanished_state(is_over: bool) -> ContainerStateTerminated {
    let message = if is_over {
        "The container could not be located when the pod was terminated"
    } else {
        // the kubelet uses this text also for pods that are not deleted
        "The container could not be located when the pod was deleted.  The container used to be Running"
    };
    ContainerStateTerminated {
        exit_code: SIGKILL_EXIT_CODE,
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some(message.to_owned()),
        ..Default::default()
    }
}

fn waiting_state(reason: &str, message: &str) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message: (!message.is_empty()).then(|| message.to_owned()),
    };
    ContainerState {
        waiting: Some(waiting),
        ..Default::default()
    }
}

fn terminated_state(terminated: ContainerStateTerminated) -> ContainerState {
    ContainerState {
        terminated: Some(terminated),
        ..Default::default()
    }
}

fn terminated_status(
    inputs: &PodStatusInputs<'_>,
    container: &Container,
) -> Option<ContainerStateTerminated> {
    let ObservedState::Exited {
        started_at,
        finished_at,
        exit_code,
        reason,
        message,
    } = &container.state
    else {
        return None;
    };
    let usual = if *exit_code == 0 {
        "Completed"
    } else {
        "Error"
    };
    Some(ContainerStateTerminated {
        container_id: Some(container_id(inputs, container)),
        exit_code: *exit_code,
        reason: Some(if reason.is_empty() {
            usual.to_owned()
        } else {
            reason.clone()
        }),
        message: (!message.is_empty()).then(|| message.clone()),
        started_at: started_at.map(timestamps::to_api),
        finished_at: Some(timestamps::to_api(*finished_at)),
        signal: None,
    })
}

fn container_id(inputs: &PodStatusInputs<'_>, container: &Container) -> String {
    format!("{}://{}", inputs.runtime_name, container.id)
}
