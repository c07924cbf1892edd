//! Shows the state as CRI messages.

use std::collections::BTreeMap;

use wire::cri::{self, ContainerState, PodSandboxState};

use super::{Container, RuntimeState, Sandbox, container::Phase};

impl Sandbox {
    fn state(&self) -> PodSandboxState {
        if self.ready {
            PodSandboxState::SandboxReady
        } else {
            PodSandboxState::SandboxNotready
        }
    }

    pub(crate) fn status(&self) -> cri::PodSandboxStatus {
        let ip = self.ip.map(|ip| ip.to_string()).unwrap_or_default();
        cri::PodSandboxStatus {
            id: self.id.clone(),
            metadata: Some(self.metadata()),
            state: self.state().into(),
            created_at: self.created_at,
            network: Some(cri::PodSandboxNetworkStatus {
                ip,
                additional_ips: Vec::new(),
            }),
            linux: Some(cri::LinuxPodSandboxStatus {
                namespaces: Some(cri::Namespace {
                    options: Some(self.namespaces()),
                }),
            }),
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            runtime_handler: self.runtime_handler.clone(),
        }
    }

    fn to_list_item(&self) -> cri::PodSandbox {
        cri::PodSandbox {
            id: self.id.clone(),
            metadata: Some(self.metadata()),
            state: self.state().into(),
            created_at: self.created_at,
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            runtime_handler: self.runtime_handler.clone(),
        }
    }

    fn matches(&self, filter: &cri::PodSandboxFilter) -> bool {
        is_or_any(&filter.id, &self.id)
            && filter
                .state
                .as_ref()
                .is_none_or(|wanted| wanted.state() == self.state())
            && has_labels(&self.config.labels, &filter.label_selector)
    }
}

impl Container {
    fn state(&self) -> ContainerState {
        match self.phase {
            Phase::Created => ContainerState::ContainerCreated,
            Phase::Running { .. } => ContainerState::ContainerRunning,
            Phase::Exited { .. } => ContainerState::ContainerExited,
        }
    }

    fn image_spec(&self) -> cri::ImageSpec {
        let asked = self.config.image.clone().unwrap_or_default();
        cri::ImageSpec {
            image: self.image.to_string(),
            ..asked
        }
    }

    pub(crate) fn status(&self) -> cri::ContainerStatus {
        let resources = self
            .config
            .linux
            .as_ref()
            .and_then(|linux| linux.resources.clone());
        let mut status = cri::ContainerStatus {
            id: self.id.clone(),
            metadata: self.config.metadata.clone(),
            state: self.state().into(),
            created_at: self.created_at,
            image: Some(self.image_spec()),
            image_ref: self.image.by_digest(),
            image_id: self.image.id(),
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            mounts: self.config.mounts.clone(),
            log_path: self
                .log_path
                .as_ref()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            resources: Some(cri::ContainerResources { linux: resources }),
            ..Default::default()
        };
        match &self.phase {
            Phase::Created => {}
            Phase::Running { started_at, .. } => status.started_at = *started_at,
            Phase::Exited {
                started_at,
                finished_at,
                exit,
            } => {
                status.started_at = *started_at;
                status.finished_at = *finished_at;
                status.exit_code = exit.code;
                status.reason = exit.reason.clone();
                status.message = exit.message.clone();
            }
        }
        status
    }

    fn to_list_item(&self) -> cri::Container {
        cri::Container {
            id: self.id.clone(),
            pod_sandbox_id: self.sandbox_id.clone(),
            metadata: self.config.metadata.clone(),
            image: Some(self.image_spec()),
            image_ref: self.image.by_digest(),
            image_id: self.image.id(),
            state: self.state().into(),
            created_at: self.created_at,
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
        }
    }

    pub(super) fn matches(&self, filter: &cri::ContainerFilter) -> bool {
        is_or_any(&filter.id, &self.id)
            && is_or_any(&filter.pod_sandbox_id, &self.sandbox_id)
            && filter
                .state
                .as_ref()
                .is_none_or(|wanted| wanted.state() == self.state())
            && has_labels(&self.config.labels, &filter.label_selector)
    }
}

impl RuntimeState {
    pub(crate) fn list_sandboxes(&self, filter: &cri::PodSandboxFilter) -> Vec<cri::PodSandbox> {
        self.sandboxes
            .values()
            .filter(|s| s.matches(filter))
            .map(Sandbox::to_list_item)
            .collect()
    }

    pub(crate) fn list_containers(&self, filter: &cri::ContainerFilter) -> Vec<cri::Container> {
        self.containers
            .values()
            .filter(|c| c.matches(filter))
            .map(Container::to_list_item)
            .collect()
    }

    pub(crate) fn container_ids_of(&self, pod_uid: &str) -> Vec<String> {
        let sandboxes = self
            .sandboxes
            .values()
            .filter(|sandbox| sandbox.uid() == pod_uid);
        sandboxes
            .flat_map(|sandbox| sandbox.containers.iter().cloned())
            .collect()
    }

    pub(crate) fn statuses_in(&self, sandbox: &Sandbox) -> Vec<cri::ContainerStatus> {
        sandbox
            .containers
            .iter()
            .filter_map(|id| self.containers.get(id))
            .map(Container::status)
            .collect()
    }
}

/// Reports whether a filter matches; an empty filter matches everything.
pub(super) fn is_or_any(wanted: &str, is: &str) -> bool {
    wanted.is_empty() || wanted == is
}

pub(super) fn has_labels(
    labels: &BTreeMap<String, String>,
    wanted: &BTreeMap<String, String>,
) -> bool {
    wanted
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}
