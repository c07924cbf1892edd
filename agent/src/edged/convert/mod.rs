//! From the Kubernetes API's words to CRI's. Pure.

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

pub use self::security::{MASKED_PATHS, READONLY_PATHS};
pub(crate) use self::{
    container::{Made, container, log_path, termination_message_path},
    dns::{NodeDns, parse_resolv_conf},
    hash::{hash, kubelet_hash},
    hosts::{check_hostname, etc_hosts, host_names, is_host_network},
    resources::{Means, PERIOD, quota, shares},
    sandbox::sandbox,
    security::refuse_root,
};
use super::names;

/// How long the pod's containers may take to end, in seconds.
pub(crate) fn grace_seconds(pod: &Pod) -> i64 {
    pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30).max(0)
}

/// The labels that say whose a sandbox or container is.
fn labels(pod: &Pod) -> BTreeMap<String, String> {
    let meta = &pod.metadata;
    [(names::POD_NAME, &meta.name), (names::POD_NAMESPACE, &meta.namespace), (names::POD_UID, &meta.uid)]
        .into_iter()
        .map(|(label, value)| (label.to_owned(), value.clone().unwrap_or_default()))
        .collect()
}
