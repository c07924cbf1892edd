//! Defaults of pods.

use serde_json::{Map, Value, json};

use super::{
    container,
    fields::{default_text, map_at, maps, text_at},
};
use crate::object::default_to;

/// The mode of files in volumes.
const DEFAULT_MODE: i64 = 0o644;

/// Fills in a pod without what admission adds.
pub fn fill_unadmitted(spec: &mut Map<String, Value>) {
    template(spec);
    default_to(spec, "enableServiceLinks", true);
    // not in templates: there the port of the host stays open
    if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
        for list in ["containers", "initContainers"] {
            maps(spec, list).for_each(container::fill_host_ports);
        }
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        maps(spec, list).for_each(container::fill_requests);
    }
}

/// Fills in the spec of a pod or of a pod template.
pub fn template(spec: &mut Map<String, Value>) {
    default_text(spec, "restartPolicy", "Always");
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "schedulerName", "default-scheduler");
    default_to(spec, "terminationGracePeriodSeconds", 30);
    default_to(spec, "securityContext", json!({}));
    account_names(spec);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        maps(spec, list).for_each(container::fill);
    }
    maps(spec, "volumes").for_each(volume);
}

/// Sets both fields for the service account; `serviceAccount` is the legacy one.
pub fn account_names(spec: &mut Map<String, Value>) {
    let old = text_at(spec, "serviceAccount").to_owned();
    if !old.is_empty() {
        default_text(spec, "serviceAccountName", &old);
    }
    let account = text_at(spec, "serviceAccountName").to_owned();
    if !account.is_empty() {
        spec.insert("serviceAccount".into(), account.into());
    }
}

fn volume(volume: &mut Map<String, Value>) {
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".into(), json!({}));
    }
    for source in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(source) = map_at(volume, source) {
            default_to(source, "defaultMode", DEFAULT_MODE);
        }
    }
    if let Some(path) = map_at(volume, "hostPath") {
        default_to(path, "type", "");
    }
    if let Some(iscsi) = map_at(volume, "iscsi") {
        default_text(iscsi, "iscsiInterface", "default");
    }
    let claim =
        map_at(volume, "ephemeral").and_then(|ephemeral| map_at(ephemeral, "volumeClaimTemplate"));
    if let Some(spec) = claim.and_then(|claim| map_at(claim, "spec")) {
        default_text(spec, "volumeMode", "Filesystem");
    }
    if let Some(downward) = map_at(volume, "downwardAPI") {
        maps(downward, "items").for_each(container::fill_reference);
    }
    for source in map_at(volume, "projected")
        .into_iter()
        .flat_map(|projected| maps(projected, "sources"))
    {
        if let Some(token) = map_at(source, "serviceAccountToken") {
            default_to(token, "expirationSeconds", 3600);
        }
        if let Some(downward) = map_at(source, "downwardAPI") {
            maps(downward, "items").for_each(container::fill_reference);
        }
    }
}
