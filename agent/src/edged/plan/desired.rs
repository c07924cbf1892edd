//! What a plan needs to know of the pod that is wanted.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container as Spec, ContainerState, ContainerStatus, EphemeralContainer, Pod,
};

use super::restart;
use crate::edged::{
    convert::hash,
    moment,
    observed::{KILLED, Observed},
    specs::{self, is_over},
};

/// A pod, as far as planning goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Desired {
    /// Init containers in order, then the others, then ephemeral ones.
    pub(crate) containers: Vec<Wanted>,
    /// It has succeeded or failed already, or has to now, and never starts again.
    pub(crate) over: bool,
    /// When it has to end although it runs.
    pub(crate) deadline: Option<Timestamp>,
}

/// A container that the pod is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Its name in the pod.
    pub(crate) name: String,
    /// What it is made from.
    pub(crate) hash: String,
    /// When it runs.
    pub(crate) role: Role,
    /// When it is started again after it has ended: its own policy, or the pod's.
    pub(crate) restart: RestartPolicy,
    /// How many there were before the first that the runtime does not know of: it may have lost them, as with the machine's
    /// disk, but the pod's status counts on.
    pub(crate) forgotten: u32,
    /// How the last one has ended, as far as the pod's status knows: the runtime may not have it any more.
    pub(crate) ended: Option<i32>,
}

/// When a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// To its end before the next one starts.
    Init,
    /// From its place among the init containers until the pod ends.
    Sidecar,
    /// Once the pod is initialised.
    Main,
    /// Once, in a pod that runs, for whoever looks into it.
    Ephemeral,
}

/// When ended containers are started again.
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

impl Desired {
    /// Reads the pod.
    pub(crate) fn of(pod: &Pod, now: Timestamp) -> Self {
        let spec = pod.spec.as_ref();
        let policy = RestartPolicy::of(pod);
        let wanted = |container: &Spec, role| {
            let told = last_status(pod, &container.name);
            Wanted {
                name: container.name.clone(),
                hash: hash(container),
                role,
                restart: RestartPolicy::of_container(container, policy),
                forgotten: told.map_or(0, forgotten),
                ended: told.and_then(ended),
            }
        };
        let inits = spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let mains = spec.iter().flat_map(|spec| spec.containers.iter());
        let ephemeral = spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
        let ephemeral = ephemeral.filter_map(as_container);
        let containers = inits
            .map(|container| wanted(container, role_of_init(container)))
            .chain(mains.map(|container| wanted(container, Role::Main)))
            .chain(ephemeral.map(|container| wanted(&container, Role::Ephemeral)))
            .collect();
        let deadline = deadline(pod);
        let over = is_over(pod) || deadline.is_some_and(|at| at <= now);
        Self { containers, over, deadline: deadline.filter(|_| !over) }
    }

    /// The containers that are neither init containers nor sidecars.
    pub(crate) fn mains(&self) -> impl Iterator<Item = &Wanted> {
        self.containers.iter().filter(|wanted| wanted.role == Role::Main)
    }

    /// Whether no container will be started any more and no other than sidecars runs.
    pub(crate) fn is_finished(&self, observed: &Observed) -> bool {
        if self.over {
            return true;
        }
        let once = |wanted: &&Wanted| wanted.role == Role::Init && wanted.restart == RestartPolicy::Never;
        let failed_init = self.containers.iter().filter(once).any(|wanted| {
            observed.latest(&wanted.name).and_then(|c| c.exit_code()).is_some_and(|code| code != 0)
        });
        failed_init || self.mains().all(|wanted| !restart::is_wanted(wanted, observed.latest(&wanted.name)))
    }
}

impl RestartPolicy {
    /// The pod's.
    pub(crate) fn of(pod: &Pod) -> Self {
        let text = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        text.and_then(Self::parse).unwrap_or_default()
    }

    /// The container's own, else the pod's. An init container's own `Always` makes it a sidecar.
    pub(crate) fn of_container(container: &Spec, pod: Self) -> Self {
        container.restart_policy.as_deref().and_then(Self::parse).unwrap_or(pod)
    }

    /// Whether a container is started again after it has ended with this code.
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

/// What the pod's status says of a container.
fn last_status<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let mains = status.container_statuses.iter().flatten();
    mains.chain(status.init_container_statuses.iter().flatten()).find(|last| last.name == name)
}

/// How many containers of this name there were.
fn forgotten(last: &ContainerStatus) -> u32 {
    // One that has vanished is counted, and has no id any more.
    let itself = u32::from(last.container_id.is_some());
    u32::try_from(last.restart_count).unwrap_or(0).saturating_add(itself)
}

/// The exit code of the last one; one that ran and has vanished was killed, as the kubelet sees it.
fn ended(last: &ContainerStatus) -> Option<i32> {
    let code = |state: &ContainerState| state.terminated.as_ref().map(|ended| ended.exit_code);
    let state = last.state.as_ref()?;
    let runs = state.running.as_ref().map(|_| KILLED);
    runs.or_else(|| code(state)).or_else(|| last.last_state.as_ref().and_then(code))
}

fn role_of_init(container: &Spec) -> Role {
    if specs::is_sidecar(container) { Role::Sidecar } else { Role::Init }
}

/// An ephemeral container has the fields of a container, and one more.
pub(crate) fn as_container(ephemeral: &EphemeralContainer) -> Option<Spec> {
    serde_json::to_value(ephemeral).and_then(serde_json::from_value).ok()
}

/// The container of this name, of whatever kind.
pub(crate) fn spec_of(pod: &Pod, name: &str) -> Option<Spec> {
    let spec = pod.spec.as_ref()?;
    let mut all = specs::containers(spec);
    let ephemeral = || spec.ephemeral_containers.iter().flatten().find(|container| container.name == name);
    all.find(|container| container.name == name).cloned().or_else(|| ephemeral().and_then(as_container))
}

/// When a pod with a limit on its time has to end. Before its status says when it started, it has only just begun.
pub(crate) fn deadline(pod: &Pod) -> Option<Timestamp> {
    let seconds = u64::try_from(pod.spec.as_ref()?.active_deadline_seconds?).ok()?;
    let since = pod.status.as_ref()?.start_time.as_ref()?;
    Some(moment::after(since.0, Duration::from_secs(seconds)))
}
