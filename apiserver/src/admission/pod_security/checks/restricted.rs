//! The controls that the level `restricted` adds.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::{Setters, containers, context, is_set, name, plural, quote_names};
use crate::admission::pod_security::pod::{Pod, Violation};
use kubeapi::object::items;

/// No way to more rights than a container starts with.
pub(super) fn escalation(pod: &Pod<'_>) -> Option<Violation> {
    let bad = pod.containers_where(|container| {
        context(container, "/allowPrivilegeEscalation").as_bool() != Some(false)
    });
    (!bad.is_empty()).then(|| Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!(
            "{} must set securityContext.allowPrivilegeEscalation=false",
            containers(&bad)
        ),
    })
}

/// No capabilities but that for ports below 1024, and this only where it is asked for.
pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let listed = |container: &Value, list: &str| {
        let list = items(context(container, "/capabilities"), list)
            .iter()
            .filter_map(Value::as_str);
        list.map(str::to_owned).collect::<Vec<_>>()
    };
    let keeping =
        pod.containers_where(|container| !listed(container, "/drop").iter().any(|it| it == "ALL"));
    let mut forbidden = BTreeSet::new();
    let adding = pod.containers_where(|container| {
        let others: Vec<_> = listed(container, "/add")
            .into_iter()
            .filter(|it| it != "NET_BIND_SERVICE")
            .collect();
        let is_bad = !others.is_empty();
        forbidden.extend(others);
        is_bad
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            containers(&keeping)
        ));
    }
    if !adding.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&adding),
            quote_names(&forbidden)
        ));
    }
    (!details.is_empty()).then(|| Violation {
        reason: "unrestricted capabilities",
        detail: details.join("; "),
    })
}

const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

const OTHER_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

/// Volumes of what the API holds or a claim gives.
pub(super) fn volumes(pod: &Pod<'_>) -> Option<Violation> {
    let kind = |volume: &Value, of: &[&'static str]| {
        of.iter()
            .copied()
            .find(|name| volume.get(name).is_some_and(is_set))
    };
    let bad: Vec<_> = pod
        .volumes()
        .iter()
        .filter(|volume| kind(volume, &VOLUMES).is_none())
        .collect();
    let kinds: BTreeSet<_> = bad
        .iter()
        .map(|volume| kind(volume, &OTHER_VOLUMES).unwrap_or("unknown"))
        .collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "restricted volume types",
        detail: format!(
            "{} {} {} {} {}",
            plural("volume", "volumes", bad.len()),
            quote_names(bad.iter().map(|volume| name(volume))),
            plural("uses", "use", bad.len()),
            plural(
                "restricted volume type",
                "restricted volume types",
                kinds.len()
            ),
            quote_names(&kinds)
        ),
    })
}

/// Processes that are not root's, which the runtime sees to.
pub(super) fn non_root(pod: &Pod<'_>) -> Option<Violation> {
    let all = pod.contexts("/runAsNonRoot");
    let setters = Setters::of(&all, |value| value.as_bool() == Some(false));
    let reason = "runAsNonRoot != true";
    if !setters.is_empty() {
        let detail = format!(
            "{} must not set securityContext.runAsNonRoot=false",
            setters.join()
        );
        return Some(Violation { reason, detail });
    }
    let (of_pod, of_containers) = all;
    let silent = of_containers
        .iter()
        .filter(|(_, value)| !is_set(value) && of_pod.as_bool() != Some(true));
    let silent: Vec<_> = silent.map(|(name, _)| *name).collect();
    (!silent.is_empty()).then(|| Violation {
        reason,
        detail: format!(
            "pod or {} must set securityContext.runAsNonRoot=true",
            containers(&silent)
        ),
    })
}

/// No user 0.
pub(super) fn user(pod: &Pod<'_>) -> Option<Violation> {
    let setters = Setters::of(&pod.contexts("/runAsUser"), |value| {
        value.as_i64() == Some(0)
    });
    (!setters.is_empty()).then(|| Violation {
        reason: "runAsUser=0",
        detail: format!("{} must not set runAsUser=0", setters.join()),
    })
}
