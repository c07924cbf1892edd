//! Defaults of pods, with what admission adds.

use serde_json::{Map, Value, json};

use kubeapi::{
    defaults::{
        fields::{default_text, maps, text_at},
        pod::{account_names, fill_unadmitted},
    },
    object::{default_to, text_or_empty, timestamp::now},
};

use super::qos;

/// The label with which a pod stays on a node that is not reachable, and its value. KubeEdge's admission webhook
/// `offlinemigration` reads it.
const AUTONOMY_LABEL: (&str, &str) = ("app-offline.kubeedge.io", "autonomy");
/// The taint of a node that is not reachable.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// How long a pod stays on a node that is not ready or not reachable.
const TOLERATED_SECONDS: i64 = 300;

/// Fills in a pod, with what admission adds beyond a template's defaults. A mirror pod has no service account.
pub(super) fn fill(spec: &mut Map<String, Value>, is_mirror: bool) {
    fill_unadmitted(spec);
    if !is_mirror {
        service_account(spec);
    }
    priority(spec);
    for taint in ["node.kubernetes.io/not-ready", UNREACHABLE] {
        tolerate(spec, taint);
    }
}

fn service_account(spec: &mut Map<String, Value>) {
    default_text(spec, "serviceAccountName", "default");
    account_names(spec);
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

/// Lets a new pod with the label stay on a node that is not reachable: it tolerates the taint with any effect and for any time,
/// whatever its template says. An existing pod may not lose a toleration, so the label has no effect on it.
pub(super) fn stay_on_unreachable_nodes(pod: &mut Value) {
    let (label, value) = AUTONOMY_LABEL;
    if pod["metadata"]["labels"][label] != value {
        return;
    }
    if let Some(Value::Array(tolerations)) = pod.pointer_mut("/spec/tolerations") {
        tolerations.retain(|toleration| toleration["key"] != UNREACHABLE);
        tolerations.push(json!({"key": UNREACHABLE, "operator": "Exists"}));
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
            "lastProbeTime": null, "lastTransitionTime": now(),
        }]);
    }
    status
}
