//! Builds the node object. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Node, NodeAddress, NodeSpec, NodeStatus, Taint},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::machine::Machine;
use crate::{NodeConfig, device_manager::DeviceCounts, pressure::Pressure};

/// What the node object is built from.
pub(crate) struct Description<'a> {
    pub(crate) name: &'a str,
    pub(crate) config: &'a NodeConfig,
    pub(crate) addresses: Vec<NodeAddress>,
    pub(crate) machine: Machine,
    pub(crate) pressure: Pressure,
    pub(crate) devices: watch::Receiver<DeviceCounts>,
}

impl Description<'_> {
    /// Returns the labels of an edge node and those of the configuration.
    fn labels(&self) -> BTreeMap<String, String> {
        let arch = self.machine.architecture;
        let own = [
            ("kubernetes.io/hostname", self.name),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", arch),
            ("beta.kubernetes.io/os", "linux"),
            ("beta.kubernetes.io/arch", arch),
            ("node-role.kubernetes.io/edge", ""),
            ("node-role.kubernetes.io/agent", ""),
        ];
        let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
        own.into_iter().chain(self.config.labels.clone()).collect()
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        let attach = (
            "volumes.kubernetes.io/controller-managed-attach-detach".to_owned(),
            "true".to_owned(),
        );
        std::iter::once(attach)
            .chain(self.config.annotations.clone())
            .collect()
    }

    /// Returns the node to register.
    pub(crate) fn node(&self, status: NodeStatus) -> Node {
        let mut taints = self.config.taints.clone();
        let cordoned = !self.config.register_schedulable;
        if cordoned {
            let key = "node.kubernetes.io/unschedulable".to_owned();
            taints.push(Taint {
                key,
                effect: "NoSchedule".into(),
                ..Default::default()
            });
        }
        let metadata = ObjectMeta {
            name: Some(self.name.to_owned()),
            labels: Some(self.labels()),
            annotations: Some(self.annotations()),
            ..Default::default()
        };
        let spec = NodeSpec {
            taints: (!taints.is_empty()).then_some(taints),
            unschedulable: cordoned.then_some(true),
            ..Default::default()
        };
        Node {
            metadata,
            spec: Some(spec),
            status: Some(status),
        }
    }

    /// Returns a patch with the labels and annotations that an existing node lacks, `None` if it has all. Others are kept.
    pub(super) fn metadata_patch(&self, node: &Node) -> Option<Value> {
        let lacking = |wanted: BTreeMap<String, String>, has: &Option<BTreeMap<String, String>>| {
            let lacks = |key: &String, value: &String| {
                has.as_ref().and_then(|has| has.get(key)) != Some(value)
            };
            wanted
                .into_iter()
                .filter(|(key, value)| lacks(key, value))
                .collect::<BTreeMap<_, _>>()
        };
        let labels = lacking(self.labels(), &node.metadata.labels);
        let annotations = lacking(self.annotations(), &node.metadata.annotations);
        let complete = labels.is_empty() && annotations.is_empty();
        (!complete).then(|| json!({"metadata": {"labels": labels, "annotations": annotations}}))
    }
}
