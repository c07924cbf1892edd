//! Checks that a mirror pod names no service account, and no object that its author could read by naming it. Pure.
//!
//! Source: Kubernetes' admission plugin `ServiceAccount`.

use serde_json::Value;

use kubeapi::object::{items, text_or_empty};

const SECRETS: &str = "reference secrets";
const CONFIG_MAPS: &str = "reference configmaps";

/// Volume types that refer to a Secret, with the path of its name.
const SECRET_VOLUMES: [&str; 10] = [
    "/secret",
    "/azureFile/secretName",
    "/cephfs/secretRef",
    "/cinder/secretRef",
    "/csi/nodePublishSecretRef",
    "/flexVolume/secretRef",
    "/iscsi/secretRef",
    "/rbd/secretRef",
    "/scaleIO/secretRef",
    "/storageos/secretRef",
];

/// Returns what a mirror pod may not refer to; `None` where it refers to nothing.
pub(super) fn of_mirror(pod: &Value) -> Option<&'static str> {
    for account in ["/spec/serviceAccountName", "/spec/serviceAccount"] {
        if !text_or_empty(pod, account).is_empty() {
            return Some("reference service accounts");
        }
    }
    if !items(pod, "/spec/imagePullSecrets").is_empty() {
        return Some(SECRETS);
    }
    let containers = [
        "/spec/initContainers",
        "/spec/containers",
        "/spec/ephemeralContainers",
    ];
    let containers = containers.into_iter().flat_map(|list| items(pod, list));
    containers
        .into_iter()
        .find_map(environment)
        .or_else(|| items(pod, "/spec/volumes").iter().find_map(volume))
}

fn has(object: &Value, pointer: &str) -> bool {
    object
        .pointer(pointer)
        .is_some_and(|value| !value.is_null())
}

fn environment(container: &Value) -> Option<&'static str> {
    let any = |list: &str, field: &str| {
        items(container, list)
            .iter()
            .any(|source| has(source, field))
    };
    if any("/env", "/valueFrom/secretKeyRef") || any("/envFrom", "/secretRef") {
        return Some(SECRETS);
    }
    let maps = any("/env", "/valueFrom/configMapKeyRef") || any("/envFrom", "/configMapRef");
    maps.then_some(CONFIG_MAPS)
}

fn volume(volume: &Value) -> Option<&'static str> {
    let projects = |field: &str| {
        items(volume, "/projected/sources")
            .iter()
            .any(|source| has(source, field))
    };
    if SECRET_VOLUMES.iter().any(|field| has(volume, field)) || projects("/secret") {
        Some(SECRETS)
    } else if has(volume, "/configMap") || projects("/configMap") {
        Some(CONFIG_MAPS)
    } else if projects("/serviceAccountToken") {
        Some("use ServiceAccountToken volume projections")
    } else if has(volume, "/persistentVolumeClaim") || has(volume, "/ephemeral") {
        Some("reference persistentvolumeclaims")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mirror_pod_names_nothing_of_the_api() {
        let container = |fields: Value| {
            let mut container = json!({"name": "c"});
            container
                .as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            json!({"containers": [container]})
        };
        let volume = |source: Value| json!({"volumes": [source]});
        let projected = |source: Value| volume(json!({"projected": {"sources": [source]}}));
        for (spec, expected) in [
            (
                json!({"containers": [{"name": "c", "env": [{"name": "A", "value": "x"}]}]}),
                None,
            ),
            (volume(json!({"hostPath": {"path": "/x"}})), None),
            (volume(json!({"emptyDir": {}})), None),
            (projected(json!({"downwardAPI": {}})), None),
            (
                json!({"serviceAccountName": "a"}),
                Some("reference service accounts"),
            ),
            (
                json!({"serviceAccount": "a"}),
                Some("reference service accounts"),
            ),
            (json!({"imagePullSecrets": [{"name": "s"}]}), Some(SECRETS)),
            (
                container(json!({"env": [{"valueFrom": {"secretKeyRef": {}}}]})),
                Some(SECRETS),
            ),
            (
                container(json!({"envFrom": [{"configMapRef": {}}]})),
                Some(CONFIG_MAPS),
            ),
            (volume(json!({"secret": {}})), Some(SECRETS)),
            (
                volume(json!({"iscsi": {"secretRef": {"name": "s"}}})),
                Some(SECRETS),
            ),
            (volume(json!({"configMap": {}})), Some(CONFIG_MAPS)),
            (projected(json!({"secret": {}})), Some(SECRETS)),
            (
                projected(json!({"serviceAccountToken": {}})),
                Some("use ServiceAccountToken volume projections"),
            ),
            (
                volume(json!({"persistentVolumeClaim": {}})),
                Some("reference persistentvolumeclaims"),
            ),
        ] {
            assert_eq!(of_mirror(&json!({"spec": spec})), expected, "{spec}");
        }
    }
}
