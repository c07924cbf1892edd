//! Decides whether a pod that was assigned to this node may run on it, as the kubelet does. Pure.
//!
//! The checks run in the kubelet's order: sysctls and operating system, resources, the scheduler's filters, and last AppArmor. A
//! pod that already runs is never checked again.
//!
//! Source: the kubelet's admission handlers, and the scheduler's filters that they call: `NodeResourcesFit`, `NodeAffinity`,
//! `NodeName`, `NodePorts`, `TaintToleration`.

mod affinity;
mod ports;
mod preempt;
mod requests;
mod sysctl;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use componentbase::static_pods::CONFIG_SOURCE_ANNOTATION;
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

pub(crate) use self::{
    affinity::selector_matches,
    requests::{Amounts, amounts, limit_of, limits_of, requests_of},
};
use super::{specs, status::Waiting};

/// Priority from which a pod is critical: Kubernetes' `SystemCriticalPriority`.
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// What admission knows of the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeInfo {
    /// Labels, taints and name.
    pub(crate) node: Node,
    /// Resources that all pods together may use.
    pub(crate) allocatable: Amounts,
    /// Sysctls that pods may set in addition to the safe ones. A `*` at the end matches any suffix.
    pub(crate) unsafe_sysctls: Vec<String>,
    /// Whether the kernel enforces AppArmor.
    pub(crate) apparmor: bool,
}

/// The result of admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdmitResult {
    /// The pod may run.
    Admitted,
    /// The pod may run as soon as these pods, given by uid, have ended.
    Preempts(Vec<String>),
    /// The pod never runs. Holds the reason and message of its status.
    Rejected(Waiting),
}

/// Why a pod does not fit on the node.
#[derive(Debug)]
enum PredicateFailure {
    /// The node has less of a resource than the pod requests.
    InsufficientResource {
        name: String,
        requested: i64,
        used: i64,
        capacity: i64,
    },
    /// One of the scheduler's filters failed: its name and the reason.
    Filter(&'static str, &'static str),
}

impl PredicateFailure {
    fn waiting(&self) -> Waiting {
        match self {
            Self::InsufficientResource {
                name,
                requested,
                used,
                capacity,
            } => Waiting {
                reason: format!("OutOf{name}"),
                message: format!(
                    "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
                ),
            },
            Self::Filter(name, why) => {
                Waiting::new(name, format!("Predicate {name} failed: {why}"))
            }
        }
    }
}

/// Decides about `pod`, given the `others` that have been admitted and have not ended.
pub(crate) fn admit(pod: &Pod, others: &[&Pod], node_info: &NodeInfo) -> AdmitResult {
    if let Some(waiting) =
        sysctl::forbidden(pod, &node_info.unsafe_sysctls).or_else(|| unsupported_os(pod))
    {
        return AdmitResult::Rejected(waiting);
    }
    let predicate_failures = predicate_failures(pod, others, node_info);
    if let Some(first) = predicate_failures.first() {
        if !is_critical(pod) {
            return AdmitResult::Rejected(first.waiting());
        }
        // A critical pod is never rejected only because resources are missing: other pods are preempted for it.
        if let Some(other) = predicate_failures
            .iter()
            .find(|failure| matches!(failure, PredicateFailure::Filter(..)))
        {
            return AdmitResult::Rejected(other.waiting());
        }
        let short = predicate_failures
            .iter()
            .filter_map(|failure| match failure {
                PredicateFailure::InsufficientResource {
                    name,
                    requested,
                    used,
                    capacity,
                } => Some((name.clone(), requested - (capacity - used))),
                PredicateFailure::Filter(..) => None,
            });
        return match preempt::victims(pod, others, short.collect()) {
            Ok(victims) => AdmitResult::Preempts(victims),
            Err(why) => AdmitResult::Rejected(Waiting::new(
                "UnexpectedAdmissionError",
                format!(
                    "Unexpected error while attempting to recover from admission failure: {why}"
                ),
            )),
        };
    }
    if !node_info.apparmor && wants_apparmor(pod) {
        return AdmitResult::Rejected(Waiting::new(
            "AppArmor",
            "Cannot enforce AppArmor: AppArmor is not enabled on the host",
        ));
    }
    AdmitResult::Admitted
}

/// Returns reason and message of the condition `PodResizePending` if the pod `before` cannot become `wanted` beside the `others`.
pub(crate) fn refusal_of_resize(
    before: &Pod,
    wanted: &Pod,
    others: &[&Pod],
    allocatable: &Amounts,
) -> Option<(&'static str, String)> {
    let (had, wants) = (requests_of(before), requests_of(wanted));
    let grows = |name: &str| wants.get(name) > had.get(name);
    let failures = requests::insufficient_resources(wanted, others, allocatable);
    failures.into_iter().find_map(|failure| match failure {
        PredicateFailure::InsufficientResource {
            name,
            requested,
            used,
            capacity,
        } if grows(&name) => Some(if requested > capacity {
            let message = format!(
                "Node didn't have enough capacity: {name}, requested: {requested}, capacity: {capacity}"
            );
            ("Infeasible", message)
        } else {
            let message = format!(
                "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
            );
            ("Deferred", message)
        }),
        PredicateFailure::InsufficientResource { .. } | PredicateFailure::Filter(..) => None,
    })
}

fn predicate_failures(pod: &Pod, others: &[&Pod], node_info: &NodeInfo) -> Vec<PredicateFailure> {
    let mut all = requests::insufficient_resources(pod, others, &node_info.allocatable);
    let (node, spec) = (&node_info.node, pod.spec.as_ref());
    let mut filter = |passes: bool, name, why| {
        if !passes {
            all.push(PredicateFailure::Filter(name, why));
        }
    };
    filter(
        affinity::matches(pod, node),
        "NodeAffinity",
        "node(s) didn't match Pod's node affinity/selector",
    );
    let wanted = spec
        .and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default();
    filter(
        wanted.is_empty() || Some(wanted) == node.metadata.name.as_deref(),
        "NodeName",
        "node(s) didn't match the requested node name",
    );
    filter(
        ports::are_free(pod, others),
        "NodePorts",
        "node(s) didn't have free ports for the requested pod ports",
    );
    let taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    let tolerations = spec
        .and_then(|spec| spec.tolerations.as_deref())
        .unwrap_or_default();
    let mut evicting = taints.filter(|taint| taint.effect == "NoExecute");
    filter(
        is_static(pod) || evicting.all(|taint| tolerations.iter().any(|one| tolerates(one, taint))),
        "TaintToleration",
        "node(s) had taints that the pod didn't tolerate",
    );
    all
}

/// Rejects a pod that is meant for an operating system other than Linux.
fn unsupported_os(pod: &Pod) -> Option<Waiting> {
    let label = pod
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get("kubernetes.io/os"));
    if label.is_some_and(|label| label != "linux") {
        return Some(Waiting::new(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ));
    }
    let os = pod.spec.as_ref().and_then(|spec| spec.os.as_ref());
    os.filter(|os| os.name != "linux").map(|_| {
        Waiting::new(
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        )
    })
}

/// Reports whether the pod is a static pod, defined by a file of this node.
fn is_static(pod: &Pod) -> bool {
    let source = pod
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(CONFIG_SOURCE_ANNOTATION));
    source.is_some_and(|source| source != "api")
}

/// Reports whether the pod is critical, so that it may preempt pods that are not.
pub(crate) fn is_critical(pod: &Pod) -> bool {
    is_static(pod) || priority(pod).is_some_and(|priority| priority >= SYSTEM_CRITICAL_PRIORITY)
}

fn priority(pod: &Pod) -> Option<i32> {
    pod.spec.as_ref().and_then(|spec| spec.priority)
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    let exists = toleration.operator.as_deref() == Some("Exists");
    (effect.is_empty() || effect == taint.effect)
        && (key == taint.key || (key.is_empty() && exists))
        && (exists || text(&toleration.value) == text(&taint.value))
}

fn wants_apparmor(pod: &Pod) -> bool {
    let confines = |kind: Option<&str>| kind.is_some_and(|kind| kind != "Unconfined");
    let annotations = pod.metadata.annotations.iter().flatten();
    let mut annotated = annotations
        .filter(|(name, _)| name.starts_with("container.apparmor.security.beta.kubernetes.io/"));
    let spec = pod.spec.as_ref();
    let own = spec.and_then(|spec| spec.security_context.as_ref()?.app_armor_profile.as_ref());
    let mut of_containers = specs::containers_of(pod).filter_map(|container| {
        container
            .security_context
            .as_ref()?
            .app_armor_profile
            .as_ref()
    });
    confines(own.map(|profile| profile.type_.as_str()))
        || of_containers.any(|profile| confines(Some(&profile.type_)))
        || annotated.any(|(_, profile)| !matches!(profile.as_str(), "" | "unconfined"))
}

/// Returns the node's labels.
fn labels(node: &Node) -> BTreeMap<String, String> {
    node.metadata.labels.clone().unwrap_or_default()
}
