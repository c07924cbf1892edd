//! Computes the node's status. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        ContainerImage, DaemonEndpoint, NodeCondition, NodeDaemonEndpoints, NodeFeatures,
        NodeRuntimeHandler, NodeRuntimeHandlerFeatures, NodeStatus, NodeSystemInfo,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use wire::cri;

use super::{object::Description, resources};
use crate::{pressure::Condition, timestamps};

/// The state of the container runtime.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RuntimeHealth {
    /// Name and version: `containerd://1.7.0`.
    pub(super) version: String,
    /// Why no pods can run, if they cannot.
    pub(super) problem: Option<String>,
    /// Images to report, if any are.
    pub(super) images: Option<Vec<ContainerImage>>,
    /// The runtime's handlers with their features.
    pub(super) handlers: Option<Vec<NodeRuntimeHandler>>,
    pub(super) features: Option<NodeFeatures>,
}

impl RuntimeHealth {
    /// Reads the runtime's responses.
    pub(super) fn of(version: &cri::VersionResponse, answer: &cri::StatusResponse) -> Self {
        let status = answer.status.clone().unwrap_or_default();
        let problem = ["RuntimeReady", "NetworkReady"]
            .into_iter()
            .find_map(|kind| {
                let condition = status
                    .conditions
                    .iter()
                    .find(|condition| condition.r#type == kind);
                match condition {
                    Some(condition) if condition.status => None,
                    Some(c) => Some(format!(
                        "container runtime not ready: {kind}=false reason:{} message:{}",
                        c.reason, c.message
                    )),
                    None => Some(format!(
                        "container runtime not ready: {kind} is not reported"
                    )),
                }
            });
        let handlers: Vec<_> = answer.runtime_handlers.iter().map(handler).collect();
        let features = answer.features.map(|has| NodeFeatures {
            supplemental_groups_policy: Some(has.supplemental_groups_policy),
        });
        Self {
            version: format!("{}://{}", version.runtime_name, version.runtime_version),
            problem,
            images: None,
            handlers: (!handlers.is_empty()).then_some(handlers),
            features,
        }
    }

    /// Adds a reason why no pods can run.
    pub(super) fn add_problem(&mut self, text: &str) {
        self.problem = Some(match self.problem.take() {
            // as Go joins errors
            Some(problem) => format!("[{problem}, {text}]"),
            None => text.to_owned(),
        });
    }

    /// Returns the state of a runtime that does not answer.
    pub(super) fn down(error: &str) -> Self {
        Self {
            version: String::new(),
            problem: Some(format!("container runtime is down: {error}")),
            images: None,
            handlers: None,
            features: None,
        }
    }
}

fn handler(handler: &cri::RuntimeHandler) -> NodeRuntimeHandler {
    NodeRuntimeHandler {
        name: Some(handler.name.clone()),
        features: handler.features.map(|has| NodeRuntimeHandlerFeatures {
            recursive_read_only_mounts: Some(has.recursive_read_only_mounts),
            user_namespaces: Some(has.user_namespaces),
        }),
    }
}

impl Description<'_> {
    /// Returns the status to report. Parts of the last status that this agent does not own are kept.
    pub(super) fn status(
        &self,
        old: &NodeStatus,
        health: &RuntimeHealth,
        now: Timestamp,
    ) -> NodeStatus {
        // While the runtime does not answer, the last known values are kept.
        let down = health.version.is_empty();
        let devices = self.devices.borrow().clone();
        NodeStatus {
            addresses: Some(self.addresses.clone()),
            capacity: Some(with_others(
                old.capacity.as_ref(),
                resources::capacity(&self.machine, self.config),
                devices.capacity,
            )),
            allocatable: Some(with_others(
                old.allocatable.as_ref(),
                resources::allocatable(&self.machine, self.config),
                devices.allocatable,
            )),
            conditions: Some(conditions(old, health, &self.pressure.conditions(), now)),
            daemon_endpoints: Some(self.endpoints(old)),
            node_info: Some(self.info(old, health)),
            images: if down {
                old.images.clone()
            } else {
                health.images.clone()
            },
            runtime_handlers: if down {
                old.runtime_handlers.clone()
            } else {
                health.handlers.clone()
            },
            features: if down {
                old.features.clone()
            } else {
                health.features.clone()
            },
            ..old.clone()
        }
    }

    /// Returns the node's own kubelet port, unless the cloud has replaced it: CloudCore does when the stream tunnel is connected,
    /// through which alone API servers reach the node. EdgeCore also sets its port only at registration.
    fn endpoints(&self, old: &NodeStatus) -> NodeDaemonEndpoints {
        let known = old
            .daemon_endpoints
            .as_ref()
            .and_then(|known| known.kubelet_endpoint.as_ref());
        let own = DaemonEndpoint {
            port: i32::from(self.config.kubelet_port),
        };
        let endpoint = known
            .filter(|known| known.port != 0)
            .cloned()
            .unwrap_or(own);
        NodeDaemonEndpoints {
            kubelet_endpoint: Some(endpoint),
        }
    }

    fn info(&self, old: &NodeStatus, health: &RuntimeHealth) -> NodeSystemInfo {
        let machine = &self.machine;
        let known = old
            .node_info
            .as_ref()
            .map(|info| info.container_runtime_version.clone());
        NodeSystemInfo {
            architecture: machine.architecture.to_owned(),
            boot_id: machine.boot_id.clone(),
            container_runtime_version: if health.version.is_empty() {
                known.unwrap_or_default()
            } else {
                health.version.clone()
            },
            kernel_version: machine.kernel.clone(),
            kubelet_version: self.config.kubelet_version.clone(),
            machine_id: machine.machine_id.clone(),
            operating_system: "linux".into(),
            os_image: machine.os_image.clone(),
            system_uuid: machine.system_uuid.clone(),
            ..Default::default()
        }
    }
}

/// Adds devices of plugins, and keeps extended resources that others have added, whose names contain a domain.
fn with_others(
    old: Option<&BTreeMap<String, Quantity>>,
    own: BTreeMap<String, Quantity>,
    devices: BTreeMap<String, i64>,
) -> BTreeMap<String, Quantity> {
    let others = old
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.contains('/'));
    others
        .map(|(name, quantity)| (name.clone(), quantity.clone()))
        .chain(own)
        .chain(
            devices
                .into_iter()
                .map(|(name, count)| (name, Quantity(count.to_string()))),
        )
        .collect()
}

fn conditions(
    old: &NodeStatus,
    health: &RuntimeHealth,
    pressure: &BTreeSet<Condition>,
    now: Timestamp,
) -> Vec<NodeCondition> {
    let ready = match &health.problem {
        None => ("Ready", "True", "EdgeReady", "edge is posting ready status"),
        Some(problem) => ("Ready", "False", "EdgeNotReady", problem.as_str()),
    };
    let pressures = Condition::ALL.map(|condition| {
        let holds = pressure.contains(&condition);
        let text = condition.text(holds);
        (
            text.kind,
            if holds { "True" } else { "False" },
            text.reason,
            text.message,
        )
    });
    let own = pressures.into_iter().chain([ready]);
    let mut all = old.conditions.clone().unwrap_or_default();
    for (kind, status, reason, message) in own {
        let last = all.iter_mut().find(|condition| condition.type_ == kind);
        let same = last.as_ref().filter(|last| last.status == status);
        let since = same.and_then(|last| last.last_transition_time.clone());
        let condition = NodeCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(timestamps::to_api(now)),
            last_transition_time: since.or_else(|| Some(timestamps::to_api(now))),
        };
        match last {
            Some(last) => *last = condition,
            None => all.push(condition),
        }
    }
    all
}

/// Reports whether anything except the heartbeat times differs.
pub(super) fn differs(old: &NodeStatus, new: &NodeStatus) -> bool {
    let timeless = |status: &NodeStatus| {
        let mut status = status.clone();
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_heartbeat_time = None;
        }
        status
    };
    let mut old = timeless(old);
    // a cloud puts an address before those of the node, at which API servers reach it through a tunnel
    if let (Some(known), Some(own)) = (&old.addresses, &new.addresses)
        && known.len() == own.len() + 1
        && known[1..] == own[..]
    {
        old.addresses = Some(own.clone());
    }
    old != timeless(new)
}
