//! Which calls of the kernel a pod is kept from, at both levels.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::{Setters, bad_texts, containers, is_set, name, plural, quote_names};
use crate::admission::pod_security::pod::{Pod, Violation};

const REASON: &str = "seccompProfile";

const OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";

const OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// The annotations in which profiles stood before Kubernetes 1.19.
pub(super) fn annotations(pod: &Pod<'_>) -> Option<Violation> {
    let names: BTreeSet<_> = pod.containers().map(name).collect();
    let is_allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let is_meant = |key: &str| {
        key == OF_POD
            || key
                .strip_prefix(OF_CONTAINER)
                .is_some_and(|name| names.contains(name))
    };
    let forbidden: BTreeSet<_> = pod
        .annotations()
        .filter(|(key, value)| is_meant(key) && !is_allowed(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    (!forbidden.is_empty()).then(|| Violation {
        reason: REASON,
        detail: format!(
            "forbidden {} {}",
            plural("annotation", "annotations", forbidden.len()),
            forbidden.into_iter().collect::<Vec<_>>().join(", ")
        ),
    })
}

fn is_bad(profile: &Value) -> bool {
    is_set(profile) && !matches!(profile.as_str(), Some("RuntimeDefault" | "Localhost"))
}

/// If any profile, then the runtime's or one of the node.
pub(super) fn baseline(pod: &Pod<'_>) -> Option<Violation> {
    let all = pod.contexts("/seccompProfile/type");
    let setters = Setters::of(&all, is_bad);
    (!setters.is_empty()).then(|| Violation {
        reason: REASON,
        detail: format!(
            "{} must not set securityContext.seccompProfile.type to {}",
            setters.join(),
            quote_names(bad_texts(&all, is_bad))
        ),
    })
}

/// The runtime's profile or one of the node, for every container.
pub(super) fn check_restricted(pod: &Pod<'_>) -> Option<Violation> {
    if let Some(found) = baseline(pod) {
        return Some(found);
    }
    let (of_pod, of_containers) = pod.contexts("/seccompProfile/type");
    let silent = of_containers
        .iter()
        .filter(|(_, value)| !is_set(value) && !is_set(of_pod));
    let silent: Vec<_> = silent.map(|(name, _)| *name).collect();
    (!silent.is_empty()).then(|| Violation {
        reason: REASON,
        detail: format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers(&silent)
        ),
    })
}
