//! The desired state of a pod, as planning needs it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container as Spec, ContainerState, ContainerStatus, EphemeralContainer, Pod,
};

use crate::{
    convert::container_hash,
    observed::SIGKILL_EXIT_CODE,
    specs::{self, is_terminal},
    timestamps,
};

/// The desired state of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DesiredPod {
    /// Init containers and sidecars in order, then main containers, then ephemeral ones.
    pub(crate) containers: Vec<DesiredContainer>,
    /// Whether the pod has succeeded or failed already, or has to now, and never starts again.
    pub(crate) is_over: bool,
    /// When the pod has to end by its `activeDeadlineSeconds`.
    pub(crate) deadline: Option<Timestamp>,
}

/// The desired state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DesiredContainer {
    /// Its name in the pod.
    pub(crate) name: String,
    /// Hash of what it is made from.
    pub(crate) hash: String,
    /// When it runs in the pod's life.
    pub(crate) role: Role,
    /// When it is restarted: its own policy, or the pod's.
    pub(crate) restart_policy: RestartPolicy,
    /// Attempt number of the first container if the runtime knows none. It may have lost containers, for example with the
    /// machine's disk; the pod's status still counts them.
    pub(crate) previous_attempts: u32,
    /// Exit code of the last container according to the pod's status; the runtime may have lost that container.
    pub(crate) last_exit_code: Option<i32>,
}

/// When a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to its end before the next container starts.
    Init,
    /// Runs from its turn among the init containers until the pod ends.
    Sidecar,
    /// Runs once the pod is initialised.
    Main,
    /// Runs once in a running pod, for debugging.
    Ephemeral,
}

/// When ended containers are restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    /// Whatever the exit code.
    #[default]
    Always,
    /// After a failure.
    OnFailure,
    /// Never.
    Never,
}

impl DesiredPod {
    /// Returns the desired state of `pod` at time `now`.
    pub(crate) fn of(pod: &Pod, now: Timestamp) -> Self {
        let spec = pod.spec.as_ref();
        let policy = RestartPolicy::of(pod);
        let wanted = |container: &Spec, role| {
            let status = last_status(pod, &container.name);
            DesiredContainer {
                name: container.name.clone(),
                hash: container_hash(container),
                role,
                restart_policy: RestartPolicy::of_container(container, policy),
                previous_attempts: status.map_or(0, previous_attempts),
                last_exit_code: status.and_then(last_exit_code),
            }
        };
        let inits = spec
            .iter()
            .flat_map(|spec| spec.init_containers.iter().flatten());
        let mains = spec.iter().flat_map(|spec| spec.containers.iter());
        let ephemeral = spec
            .iter()
            .flat_map(|spec| spec.ephemeral_containers.iter().flatten());
        let ephemeral = ephemeral.filter_map(as_container);
        let containers = inits
            .map(|container| wanted(container, role_of_init(container)))
            .chain(mains.map(|container| wanted(container, Role::Main)))
            .chain(ephemeral.map(|container| wanted(&container, Role::Ephemeral)))
            .collect();
        let deadline = deadline(pod);
        let is_over = is_terminal(pod) || deadline.is_some_and(|at| at <= now);
        Self {
            containers,
            is_over,
            deadline: deadline.filter(|_| !is_over),
        }
    }

    /// Returns the main containers: neither init containers nor sidecars nor ephemeral ones.
    pub(crate) fn mains(&self) -> impl Iterator<Item = &DesiredContainer> {
        self.containers
            .iter()
            .filter(|wanted| wanted.role == Role::Main)
    }
}

impl RestartPolicy {
    /// Returns the pod's policy.
    pub(crate) fn of(pod: &Pod) -> Self {
        let text = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref());
        text.and_then(Self::parse).unwrap_or_default()
    }

    /// Returns the container's own policy, or the pod's. `Always` of an init container makes it a sidecar.
    pub(crate) fn of_container(container: &Spec, pod: Self) -> Self {
        container
            .restart_policy
            .as_deref()
            .and_then(Self::parse)
            .unwrap_or(pod)
    }

    /// Reports whether a container is restarted after it ended with this code.
    pub(crate) fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "Always" => Some(Self::Always),
            "OnFailure" => Some(Self::OnFailure),
            "Never" => Some(Self::Never),
            _ => None,
        }
    }
}

/// Returns a container's status in the pod's status.
fn last_status<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let mains = status.container_statuses.iter().flatten();
    mains
        .chain(status.init_container_statuses.iter().flatten())
        .find(|last| last.name == name)
}

/// Returns how many containers of this name there were.
fn previous_attempts(last: &ContainerStatus) -> u32 {
    // A container that has vanished is included in the count, and has no id any more.
    let itself = u32::from(last.container_id.is_some());
    u32::try_from(last.restart_count)
        .unwrap_or(0)
        .saturating_add(itself)
}

/// Returns the exit code of the last container. One that ran and has vanished counts as killed, as in the kubelet.
fn last_exit_code(last: &ContainerStatus) -> Option<i32> {
    let code = |state: &ContainerState| state.terminated.as_ref().map(|ended| ended.exit_code);
    let state = last.state.as_ref()?;
    let runs = state.running.as_ref().map(|_| SIGKILL_EXIT_CODE);
    runs.or_else(|| code(state))
        .or_else(|| last.last_state.as_ref().and_then(code))
}

fn role_of_init(container: &Spec) -> Role {
    if specs::is_sidecar(container) {
        Role::Sidecar
    } else {
        Role::Init
    }
}

/// Converts an ephemeral container, which has the fields of a container and one more.
pub(crate) fn as_container(ephemeral: &EphemeralContainer) -> Option<Spec> {
    serde_json::to_value(ephemeral)
        .and_then(serde_json::from_value)
        .ok()
}

/// Returns the container of this name, of any kind.
pub(crate) fn spec_of(pod: &Pod, name: &str) -> Option<Spec> {
    let spec = pod.spec.as_ref()?;
    let mut all = specs::containers(spec);
    let ephemeral = || {
        spec.ephemeral_containers
            .iter()
            .flatten()
            .find(|container| container.name == name)
    };
    all.find(|container| container.name == name)
        .cloned()
        .or_else(|| ephemeral().and_then(as_container))
}

/// Returns when a pod with `activeDeadlineSeconds` has to end; `None` before its status has a start time.
pub(crate) fn deadline(pod: &Pod) -> Option<Timestamp> {
    let seconds = u64::try_from(pod.spec.as_ref()?.active_deadline_seconds?).ok()?;
    let since = pod.status.as_ref()?.start_time.as_ref()?;
    Some(timestamps::after(since.0, Duration::from_secs(seconds)))
}
