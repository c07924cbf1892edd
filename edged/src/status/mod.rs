//! Computes a pod's status as the kubelet reports it, from the observed containers and the reasons why others do not run. Pure.

mod conditions;
mod containers;
mod difference;
mod phase;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, Pod, PodIP, PodStatus};

pub(crate) use self::difference::difference;
use super::{
    observed::ObservedPod,
    resize::{KnownResources, ResizeStatus},
    specs, timestamps,
};

/// Why a container or pod does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Reason in CamelCase, as the kubelet's: `ImagePullBackOff`, `CrashLoopBackOff`, …
    pub(crate) reason: String,
    /// Message for people: cause and cure.
    pub(crate) message: String,
}

impl Waiting {
    /// Creates a reason with a message.
    pub(crate) fn new(reason: &str, message: impl Into<String>) -> Self {
        Self {
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// What a pod's status is computed from.
#[derive(Debug)]
pub(crate) struct PodStatusInputs<'a> {
    /// The pod with the last reported status.
    pub(crate) pod: &'a Pod,
    /// The observed pod.
    pub(crate) observed: &'a ObservedPod,
    /// Reasons why containers wait, by name.
    pub(crate) waiting: &'a BTreeMap<String, Waiting>,
    /// Reason that delays the whole pod: volumes or sandbox.
    pub(crate) held_up: Option<&'a Waiting>,
    /// The resources of containers.
    pub(crate) resources: &'a KnownResources,
    /// The state of a resize.
    pub(crate) resize: Option<&'a ResizeStatus>,
    /// The node's IP addresses.
    pub(crate) host_ips: &'a [String],
    /// The runtime's name, the scheme of container ids.
    pub(crate) runtime_name: &'a str,
    /// Whether the pod is being deleted and all its containers have ended.
    pub(crate) ended: bool,
    /// Why the pod fails, once its containers have ended, whatever their exit codes.
    pub(crate) failed: Option<&'a Waiting>,
    /// Message of the condition `DisruptionTarget`, if the node ends the pod.
    pub(crate) disrupted: Option<&'a str>,
    /// The current time.
    pub(crate) now: Timestamp,
}

impl PodStatusInputs<'_> {
    fn is_host_network(&self) -> bool {
        self.pod
            .spec
            .as_ref()
            .and_then(|spec| spec.host_network)
            .unwrap_or(false)
    }

    /// Returns the pod's IP addresses.
    fn pod_ips(&self) -> &[String] {
        match self.observed.ready_sandbox() {
            Some(_) if self.is_host_network() => self.host_ips,
            Some(sandbox) => &sandbox.ips,
            None => &[],
        }
    }
}

/// Returns the status to report. Parts of the last status that this agent does not own are kept.
pub(crate) fn of(inputs: &PodStatusInputs<'_>) -> PodStatus {
    let old = inputs.pod.status.clone().unwrap_or_default();
    if was_never_started(inputs, &old) {
        return PodStatus {
            observed_generation: inputs.pod.metadata.generation,
            ..old
        };
    }
    let containers = containers::all(inputs, &old);
    let phase = phase::of(inputs, &old, &containers);
    let is_over = matches!(phase, "Succeeded" | "Failed");
    let conditions = conditions::all(inputs, &old, phase, &containers);
    let mut status = PodStatus {
        conditions: Some(conditions),
        init_container_statuses: containers.inits,
        container_statuses: Some(containers.mains),
        ephemeral_container_statuses: containers.ephemeral,
        phase: Some(phase.to_owned()),
        observed_generation: inputs.pod.metadata.generation,
        qos_class: old
            .qos_class
            .clone()
            .or_else(|| Some(specs::qos(inputs.pod).to_owned())),
        start_time: old
            .start_time
            .clone()
            .or_else(|| Some(timestamps::to_api(inputs.now))),
        message: None,
        reason: None,
        ..old.clone()
    };
    if is_over && old.phase.as_deref() == Some(phase) {
        (status.reason, status.message) = (old.reason, old.message);
    } else if let Some(failed) = inputs.failed.filter(|_| is_over) {
        (status.reason, status.message) =
            (Some(failed.reason.clone()), Some(failed.message.clone()));
    }
    status.host_ip = inputs.host_ips.first().cloned();
    status.host_ips = Some(
        inputs
            .host_ips
            .iter()
            .map(|ip| HostIP { ip: ip.clone() })
            .collect(),
    );
    let ips = inputs.pod_ips();
    // A pod that has ended keeps its addresses, so that its logs can be matched with others'.
    if !ips.is_empty() || !(is_over || inputs.ended) {
        status.pod_ip = ips.first().cloned();
        status.pod_ips =
            (!ips.is_empty()).then(|| ips.iter().map(|ip| PodIP { ip: ip.clone() }).collect());
    }
    status
}

/// Reports whether the pod ended before anything of it was created, as a rejected pod does. Its containers then get no status,
/// also after a restart of the agent: they would appear to wait forever.
fn was_never_started(inputs: &PodStatusInputs<'_>, old: &PodStatus) -> bool {
    let nothing_is_here =
        inputs.observed.sandboxes.is_empty() && inputs.observed.containers.is_empty();
    specs::is_terminal(inputs.pod) && old.container_statuses.is_none() && nothing_is_here
}
