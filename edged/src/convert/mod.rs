//! Converts Kubernetes API objects to CRI messages. Pure.

mod container;
mod dns;
mod hash;
mod hosts;
mod resources;
mod sandbox;
mod security;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

pub use self::dns::parse_resolv_conf;
pub use self::security::{MASKED_PATHS, READONLY_PATHS};
pub(crate) use self::{
    container::{ContainerInputs, container, log_path, termination_message_path},
    dns::NodeDns,
    hash::{container_hash, kubelet_hash},
    hosts::{check_hostname, etc_hosts, host_names, is_host_network},
    resources::{
        CPU_QUOTA_PERIOD, MachineResources, cpu_quota, cpu_shares,
        of_container as container_resources,
    },
    sandbox::sandbox,
    security::refuse_root,
};
use super::names;

/// Returns the pod's termination grace period in seconds.
pub(crate) fn grace_seconds(pod: &Pod) -> i64 {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.termination_grace_period_seconds)
        .unwrap_or(30)
        .max(0)
}

/// Returns the labels that identify the pod of a sandbox or container.
fn labels(pod: &Pod) -> BTreeMap<String, String> {
    let meta = &pod.metadata;
    [
        (names::POD_NAME, &meta.name),
        (names::POD_NAMESPACE, &meta.namespace),
        (names::POD_UID, &meta.uid),
    ]
    .into_iter()
    .map(|(label, value)| (label.to_owned(), value.clone().unwrap_or_default()))
    .collect()
}
