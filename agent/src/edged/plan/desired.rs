//! What a plan needs to know of the pod that is wanted.

use k8s_openapi::api::core::v1::{Container as Spec, Pod};

use super::restart;
use crate::edged::{
    convert::hash,
    observed::{Observed, State},
};

/// A pod, as far as planning goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Desired {
    /// Init containers in order, then the others.
    pub(crate) containers: Vec<Wanted>,
    /// When ended containers are started again.
    pub(crate) restart: RestartPolicy,
    /// It has succeeded or failed already, and never starts again.
    pub(crate) over: bool,
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
    pub(crate) fn of(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let inits = spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let wanted =
            |container: &Spec, role| Wanted { name: container.name.clone(), hash: hash(container), role };
        let inits = inits.map(|container| wanted(container, role_of_init(container)));
        let mains = spec
            .iter()
            .flat_map(|spec| spec.containers.iter())
            .map(|container| wanted(container, Role::Main));
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        Self {
            containers: inits.chain(mains).collect(),
            restart: RestartPolicy::of(pod),
            over: matches!(phase, Some("Succeeded" | "Failed")),
        }
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
        let failed_init = self.restart == RestartPolicy::Never
            && self.containers.iter().filter(|wanted| wanted.role == Role::Init).any(|wanted| {
                observed.latest(&wanted.name).and_then(|c| c.exit_code()).is_some_and(|code| code != 0)
            });
        failed_init
            || self.mains().all(|wanted| {
                let last = observed.latest(&wanted.name);
                let ended = last.is_some_and(|last| matches!(last.state, State::Exited { .. }));
                ended && !restart::is_wanted(wanted, last, self.restart)
            })
    }
}

impl RestartPolicy {
    /// The pod's.
    pub(crate) fn of(pod: &Pod) -> Self {
        match pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }
}

/// A restartable init container is a sidecar.
pub(crate) fn role_of_init(container: &Spec) -> Role {
    if container.restart_policy.as_deref() == Some("Always") { Role::Sidecar } else { Role::Init }
}
