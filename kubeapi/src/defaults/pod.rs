//! Defaults of pods.

use serde_json::{Map, Value, json};

use super::{
    container,
    fields::{default_text, map_at, maps, text_at},
    qos,
};
use crate::object::{default_to, text_or_empty};

/// How long a pod stays on a node that is not ready or not reachable.
const TOLERATED_SECONDS: i64 = 300;
const DEFAULT_MODE: i64 = 0o644;

/// Fills in a pod, with what admission adds beyond a template's defaults. A mirror pod has no service account.
pub(super) fn fill(spec: &mut Map<String, Value>, is_mirror: bool) {
    unadmitted(spec);
    if !is_mirror {
        service_account(spec);
    }
    priority(spec);
    for taint in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        tolerate(spec, taint);
    }
}

/// Fills in a pod without what admission adds.
pub(super) fn unadmitted(spec: &mut Map<String, Value>) {
    template(spec);
    default_to(spec, "enableServiceLinks", true);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        maps(spec, list).for_each(container::fill_requests);
    }
}

/// Fills in the spec of a pod or of a pod template.
pub(super) fn template(spec: &mut Map<String, Value>) {
    default_text(spec, "restartPolicy", "Always");
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "schedulerName", "default-scheduler");
    default_to(spec, "terminationGracePeriodSeconds", 30);
    default_to(spec, "securityContext", json!({}));
    account_names(spec);
    let host_network = spec
        .get("hostNetwork")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in maps(spec, list) {
            container::fill(container, host_network && list != "ephemeralContainers");
        }
    }
    maps(spec, "volumes").for_each(volume);
}

fn service_account(spec: &mut Map<String, Value>) {
    default_text(spec, "serviceAccountName", "default");
    account_names(spec);
}

/// Sets both fields for the service account; `serviceAccount` is the legacy one.
fn account_names(spec: &mut Map<String, Value>) {
    let old = text_at(spec, "serviceAccount").to_owned();
    if !old.is_empty() {
        default_text(spec, "serviceAccountName", &old);
    }
    let account = text_at(spec, "serviceAccountName").to_owned();
    if !account.is_empty() {
        spec.insert("serviceAccount".into(), account.into());
    }
}

fn priority(spec: &mut Map<String, Value>) {
    let priority = match text_at(spec, "priorityClassName") {
        "system-node-critical" => 2_000_001_000,
        "system-cluster-critical" => 2_000_000_000,
        _ => 0,
    };
    default_to(spec, "priority", priority);
    default_to(spec, "preemptionPolicy", "PreemptLowerPriority");
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
    if let Some(downward) = map_at(volume, "downwardAPI") {
        fields(downward);
    }
    for source in map_at(volume, "projected")
        .into_iter()
        .flat_map(|projected| maps(projected, "sources"))
    {
        if let Some(token) = map_at(source, "serviceAccountToken") {
            default_to(token, "expirationSeconds", 3600);
        }
        if let Some(downward) = map_at(source, "downwardAPI") {
            fields(downward);
        }
    }
}

fn fields(downward: &mut Map<String, Value>) {
    for field in maps(downward, "items").filter_map(|item| map_at(item, "fieldRef")) {
        default_text(field, "apiVersion", "v1");
    }
}

fn tolerate(spec: &mut Map<String, Value>, taint: &str) {
    let tolerates = |toleration: &Map<String, Value>| {
        let (key, effect) = (text_at(toleration, "key"), text_at(toleration, "effect"));
        (key == taint || key.is_empty()) && matches!(effect, "" | "NoExecute")
    };
    if maps(spec, "tolerations").any(|toleration| tolerates(toleration)) {
        return;
    }
    default_to(spec, "tolerations", json!([]));
    if let Some(Value::Array(tolerations)) = spec.get_mut("tolerations") {
        tolerations.push(json!({
            "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS,
        }));
    }
}

/// Sets the status of a new pod.
pub(super) fn status(pod: &Value) -> Value {
    let mut status = json!({"phase": "Pending", "qosClass": qos::class(pod)});
    let gates = pod
        .pointer("/spec/schedulingGates")
        .and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty())
        && text_or_empty(pod, "/spec/nodeName").is_empty()
    {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    status
}
