//! The statuses of a pod's containers.

use k8s_openapi::api::core::v1::{
    Container as Spec, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, PodStatus, VolumeMount, VolumeMountStatus,
};

use super::{View, Waiting};
use crate::edged::{
    moment,
    observed::{Container, KILLED, State},
    plan::{RestartPolicy, as_container},
    specs,
};

/// All statuses, in the pod's order.
#[derive(Debug)]
pub(super) struct Statuses {
    /// `None` when the pod has no init containers.
    pub(super) inits: Option<Vec<ContainerStatus>>,
    /// The others.
    pub(super) mains: Vec<ContainerStatus>,
    /// `None` when there are none.
    pub(super) ephemeral: Option<Vec<ContainerStatus>>,
}

/// The statuses of all containers.
pub(super) fn all(view: &View<'_>, old: &PodStatus) -> Statuses {
    let spec = view.pod.spec.as_ref();
    let inits = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    let statuses = |old: Option<&Vec<ContainerStatus>>, specs: &[Spec], default: &str, init: bool| {
        specs
            .iter()
            .map(|spec| {
                let last = old.and_then(|all| all.iter().find(|status| status.name == spec.name));
                one(view, spec, last, default, init && !specs::is_sidecar(spec))
            })
            .collect::<Vec<_>>()
    };
    // What has not started waits for the sandbox, or for the init containers.
    let reason = if inits.is_empty() { "ContainerCreating" } else { "PodInitializing" };
    let old_inits = old.init_container_statuses.as_ref();
    let mains = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let ephemeral = spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    let ephemeral: Vec<Spec> = ephemeral.filter_map(as_container).collect();
    Statuses {
        inits: (!inits.is_empty()).then(|| statuses(old_inits, inits, reason, true)),
        mains: statuses(old.container_statuses.as_ref(), mains, reason, false),
        ephemeral: (!ephemeral.is_empty()).then(|| {
            let mut all =
                statuses(old.ephemeral_container_statuses.as_ref(), &ephemeral, "ContainerCreating", false);
            // Nobody waits for them, and nothing is sent to them.
            all.iter_mut().for_each(|status| (status.ready, status.started) = (false, None));
            all
        }),
    }
}

fn one(
    view: &View<'_>,
    spec: &Spec,
    old: Option<&ContainerStatus>,
    default: &str,
    runs_to_its_end: bool,
) -> ContainerStatus {
    let mut all = view.observed.named(&spec.name);
    let waiting = view.waiting.get(&spec.name);
    let Some(newest) = all.next() else { return absent(view, spec, old, default) };
    let mut status = ContainerStatus {
        name: spec.name.clone(),
        image: image(spec, newest),
        image_id: newest.image_id.clone(),
        container_id: Some(id(view, newest)),
        restart_count: i32::try_from(newest.attempt).unwrap_or(i32::MAX),
        started: Some(false),
        volume_mounts: mounts(spec, newest),
        ..Default::default()
    };
    let before = all.find_map(|container| terminated(view, container));
    // What holds up the pod holds up the next one of those that have ended, too.
    let goes_on =
        view.pod.metadata.deletion_timestamp.is_none() && view.failed.is_none() && !specs::is_over(view.pod);
    let held_up = held_up(view, default);
    let waiting = waiting.or(held_up.as_ref().filter(|_| goes_on));
    // A last start that failed is told by how it ended, unless there will be another one.
    let waiting = waiting.filter(|_| !is_final(view, spec, newest, runs_to_its_end));
    match (&newest.state, waiting) {
        (State::Running { .. }, _) if newest.health.starting => {
            status.state = Some(waits(default, ""));
            status.last_state = before.map(ended);
        }
        (State::Running { started_at }, _) => {
            let running = ContainerStateRunning { started_at: Some(moment::to_api(*started_at)) };
            status.state = Some(ContainerState { running: Some(running), ..Default::default() });
            status.last_state = before.map(ended);
            status.ready = !runs_to_its_end && newest.health.ready;
            status.started = Some(newest.health.started);
        }
        (State::Exited { .. }, None) => {
            status.state = terminated(view, newest).map(ended);
            status.last_state = before.map(ended);
            status.ready = runs_to_its_end && newest.exit_code() == Some(0);
        }
        (State::Exited { .. }, Some(waiting)) => {
            status.state = Some(waits(&waiting.reason, &waiting.message));
            status.last_state = terminated(view, newest).map(ended);
        }
        (State::Created | State::Unknown, waiting) => {
            let (reason, message) = waiting.map_or((default, ""), |w| (&w.reason, &w.message));
            status.state = Some(waits(reason, message));
            status.last_state = before.map(ended);
        }
    }
    status
}

/// Why nothing of the pod starts, as it is said of a container that waits for nothing else.
fn held_up(view: &View<'_>, default: &str) -> Option<Waiting> {
    view.held_up.map(|held_up| Waiting::new(default, &held_up.message))
}

/// Whether the container has ended and the pod starts no other in its place.
fn is_final(view: &View<'_>, spec: &Spec, newest: &Container, runs_to_its_end: bool) -> bool {
    let policy = RestartPolicy::of_container(spec, RestartPolicy::of(view.pod));
    newest.exit_code().is_some_and(|code| !policy.restarts(code) || (code == 0 && runs_to_its_end))
}

/// What the container was made from, by the name that a person knows.
fn image(spec: &Spec, newest: &Container) -> String {
    if newest.image.is_empty() || newest.image.starts_with("sha256:") {
        return spec.image.clone().unwrap_or_default();
    }
    newest.image.clone()
}

/// The volumes as they are mounted.
fn mounts(spec: &Spec, newest: &Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts = spec.volume_mounts.as_ref().filter(|mounts| !mounts.is_empty())?;
    let status = |mount: &VolumeMount| {
        let read_only = mount.read_only == Some(true);
        let recursive = newest.recursive_read_only.contains(&mount.mount_path);
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: read_only.then_some(true),
            recursive_read_only: read_only.then(|| if recursive { "Enabled" } else { "Disabled" }.to_owned()),
        }
    };
    Some(mounts.iter().map(status).collect())
}

/// The status of a container that the runtime does not have: it never had it, or has it no more.
fn absent(view: &View<'_>, spec: &Spec, old: Option<&ContainerStatus>, default: &str) -> ContainerStatus {
    let over = view.ended || specs::is_over(view.pod);
    let held_up = held_up(view, default);
    let waiting = view.waiting.get(&spec.name).or(held_up.as_ref());
    let (reason, message) = waiting.map_or((default, ""), |w| (w.reason.as_str(), w.message.as_str()));
    let new = ContainerStatus {
        name: spec.name.clone(),
        image: spec.image.clone().unwrap_or_default(),
        started: Some(false),
        state: Some(waits(reason, message)),
        ..Default::default()
    };
    let Some(old) = old else { return new };
    let state = old.state.clone().unwrap_or_default();
    let (last_state, restart_count) = (old.last_state.clone(), old.restart_count);
    let counted = ContainerStatus { last_state, restart_count, ..new };
    if state.terminated.is_some() {
        if over || waiting.is_none() {
            return old.clone();
        }
        let (container_id, image_id) = (old.container_id.clone(), old.image_id.clone());
        return ContainerStatus { last_state: Some(state), container_id, image_id, ..counted };
    }
    if state.running.is_none() {
        return counted;
    }
    if over || !RestartPolicy::of_container(spec, RestartPolicy::of(view.pod)).restarts(KILLED) {
        return ContainerStatus { state: Some(ended(vanished(over))), ..counted };
    }
    let next = i32::from(view.pod.metadata.deletion_timestamp.is_none());
    let restart_count = restart_count.saturating_add(next);
    ContainerStatus { last_state: Some(ended(vanished(over))), restart_count, ..counted }
}

/// How a container has ended that ran when it was last seen, in the kubelet's words.
fn vanished(over: bool) -> ContainerStateTerminated {
    let message = if over {
        "The container could not be located when the pod was terminated"
    } else {
        // so the kubelet says of pods that are not deleted, too
        "The container could not be located when the pod was deleted.  The container used to be Running"
    };
    ContainerStateTerminated {
        exit_code: KILLED,
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some(message.to_owned()),
        ..Default::default()
    }
}

fn waits(reason: &str, message: &str) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message: (!message.is_empty()).then(|| message.to_owned()),
    };
    ContainerState { waiting: Some(waiting), ..Default::default() }
}

fn ended(terminated: ContainerStateTerminated) -> ContainerState {
    ContainerState { terminated: Some(terminated), ..Default::default() }
}

fn terminated(view: &View<'_>, container: &Container) -> Option<ContainerStateTerminated> {
    let State::Exited { started_at, finished_at, exit_code, reason, message } = &container.state else {
        return None;
    };
    let usual = if *exit_code == 0 { "Completed" } else { "Error" };
    Some(ContainerStateTerminated {
        container_id: Some(id(view, container)),
        exit_code: *exit_code,
        reason: Some(if reason.is_empty() { usual.to_owned() } else { reason.clone() }),
        message: (!message.is_empty()).then(|| message.clone()),
        started_at: started_at.map(moment::to_api),
        finished_at: Some(moment::to_api(*finished_at)),
        signal: None,
    })
}

fn id(view: &View<'_>, container: &Container) -> String {
    format!("{}://{}", view.runtime_name, container.id)
}
