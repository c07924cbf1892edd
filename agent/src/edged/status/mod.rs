//! A pod's status as the kubelet reports it, from what the runtime has and why the rest is not running yet. Pure.

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
use super::{moment, observed::Observed, specs};

/// Why something that is wanted does not run, or does not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// CamelCase, as the kubelet's: `ImagePullBackOff`, `CrashLoopBackOff`, …
    pub(crate) reason: String,
    /// For people: cause and cure.
    pub(crate) message: String,
}

impl Waiting {
    /// Both texts.
    pub(crate) fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }
}

/// All that a status is made of.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// The pod; its status is the one reported last.
    pub(crate) pod: &'a Pod,
    /// What the runtime has.
    pub(crate) observed: &'a Observed,
    /// Why containers wait, by name.
    pub(crate) waiting: &'a BTreeMap<String, Waiting>,
    /// Why the pod as a whole waits: volumes, sandbox.
    pub(crate) held_up: Option<&'a Waiting>,
    /// The node's addresses.
    pub(crate) host_ips: &'a [String],
    /// What the runtime calls itself: the scheme of container ids.
    pub(crate) runtime_name: &'a str,
    /// The pod is being deleted and all of its containers have ended.
    pub(crate) ended: bool,
    /// Why it fails although its containers may not have: as soon as they have ended, it has.
    pub(crate) failed: Option<&'a Waiting>,
    /// What its status says of its being evicted by the node.
    pub(crate) disrupted: Option<&'a str>,
    /// The instant.
    pub(crate) now: Timestamp,
}

impl View<'_> {
    fn is_host_network(&self) -> bool {
        self.pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false)
    }

    /// The addresses at which the pod can be reached.
    fn pod_ips(&self) -> &[String] {
        match self.observed.current() {
            Some(_) if self.is_host_network() => self.host_ips,
            Some(sandbox) => &sandbox.ips,
            None => &[],
        }
    }
}

/// The status to report. Whatever this agent does not own in the last one is kept.
pub(crate) fn of(view: &View<'_>) -> PodStatus {
    let old = view.pod.status.clone().unwrap_or_default();
    if never_began(view, &old) {
        return PodStatus { observed_generation: view.pod.metadata.generation, ..old };
    }
    let containers = containers::all(view, &old);
    let phase = phase::of(view, &old, &containers);
    let over = matches!(phase, "Succeeded" | "Failed");
    let conditions = conditions::all(view, &old, phase, &containers);
    let mut status = PodStatus {
        conditions: Some(conditions),
        init_container_statuses: containers.inits,
        container_statuses: Some(containers.mains),
        ephemeral_container_statuses: containers.ephemeral,
        phase: Some(phase.to_owned()),
        observed_generation: view.pod.metadata.generation,
        qos_class: old.qos_class.clone().or_else(|| Some(qos(view.pod).to_owned())),
        start_time: old.start_time.clone().or_else(|| Some(moment::to_api(view.now))),
        message: None,
        reason: None,
        ..old.clone()
    };
    if over && old.phase.as_deref() == Some(phase) {
        (status.reason, status.message) = (old.reason, old.message);
    } else if let Some(failed) = view.failed.filter(|_| over) {
        (status.reason, status.message) = (Some(failed.reason.clone()), Some(failed.message.clone()));
    }
    status.host_ip = view.host_ips.first().cloned();
    status.host_ips = Some(view.host_ips.iter().map(|ip| HostIP { ip: ip.clone() }).collect());
    let ips = view.pod_ips();
    // A pod that is over keeps the addresses it had, so that its logs can be matched with others'.
    if !ips.is_empty() || !(over || view.ended) {
        status.pod_ip = ips.first().cloned();
        status.pod_ips = (!ips.is_empty()).then(|| ips.iter().map(|ip| PodIP { ip: ip.clone() }).collect());
    }
    status
}

/// Whether the pod ended before anything of it was made, as one that the node refused does. Nothing is said of its containers then, also
/// when an agent that did not refuse it itself looks at it: they would wait for ever.
fn never_began(view: &View<'_>, old: &PodStatus) -> bool {
    let nothing_is_here = view.observed.sandboxes.is_empty() && view.observed.containers.is_empty();
    specs::is_over(view.pod) && old.container_statuses.is_none() && nothing_is_here
}

/// The quality of service class, which the API server sets; this is for one that does not.
pub(crate) fn qos(pod: &Pod) -> &'static str {
    let (mut any, mut guaranteed) = (false, true);
    for container in specs::containers_of(pod) {
        let resources = container.resources.as_ref();
        let limits = resources.and_then(|r| r.limits.as_ref());
        let requests = resources.and_then(|r| r.requests.as_ref());
        for name in ["cpu", "memory"] {
            let limit = limits.and_then(|map| map.get(name));
            let request = requests.and_then(|map| map.get(name));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
