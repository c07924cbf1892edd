//! Defaults of workloads: deployments, replica sets, stateful sets and so on.

use serde_json::{Map, Value, json};

use super::storage;
use kubeapi::defaults::fields::{default_text, map_at, maps, text_at};
use kubeapi::object::{as_map, child, default_to};

/// The default `revisionHistoryLimit`.
const REVISIONS: i64 = 10;
/// The default `progressDeadlineSeconds`.
const PROGRESS_SECONDS: i64 = 600;

/// Fills in a pod template.
pub(super) fn pods(template: &mut Map<String, Value>) {
    kubeapi::defaults::pod::template(child(template, "spec"));
}

pub(super) fn deployment(spec: &mut Map<String, Value>) {
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", REVISIONS);
    default_to(spec, "progressDeadlineSeconds", PROGRESS_SECONDS);
    let strategy = child(spec, "strategy");
    default_text(strategy, "type", "RollingUpdate");
    if text_at(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        default_to(rolling, "maxUnavailable", "25%");
        default_to(rolling, "maxSurge", "25%");
    }
    pods(child(spec, "template"));
}

pub(super) fn replica_set(spec: &mut Map<String, Value>) {
    default_to(spec, "replicas", 1);
    pods(child(spec, "template"));
}

/// Fills in a replication controller, which also takes its labels and selector from its template.
pub(super) fn replication_controller(controller: &mut Map<String, Value>) {
    let spec = child(controller, "spec");
    default_to(spec, "replicas", 1);
    let Some(template) = map_at(spec, "template") else {
        return;
    };
    pods(template);
    let labels = template
        .get("metadata")
        .and_then(|metadata| metadata.get("labels"))
        .cloned();
    if let Some(labels) =
        labels.filter(|labels| labels.as_object().is_some_and(|labels| !labels.is_empty()))
    {
        default_to(spec, "selector", labels.clone());
        default_to(child(controller, "metadata"), "labels", labels);
    }
}

pub(super) fn daemon_set(spec: &mut Map<String, Value>) {
    default_to(spec, "revisionHistoryLimit", REVISIONS);
    let strategy = child(spec, "updateStrategy");
    default_text(strategy, "type", "RollingUpdate");
    if text_at(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        default_to(rolling, "maxUnavailable", 1);
        default_to(rolling, "maxSurge", 0);
    }
    pods(child(spec, "template"));
}

/// The annotation that counts the changes of a DaemonSet's template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Counts the changes of a DaemonSet's template, in the annotation that kube-apiserver makes of a field that no longer exists.
pub(crate) fn count_template(old: Option<&Value>, new: &mut Value) {
    let path = format!("/metadata/annotations/{TEMPLATE_GENERATION}");
    let counted = |object: &Value| {
        let text = object.pointer(&path).and_then(Value::as_str);
        text.and_then(|text| text.parse::<i64>().ok())
            .unwrap_or_default()
    };
    let count = match old {
        Some(old) if old.pointer("/spec/template") == new.pointer("/spec/template") => counted(old),
        Some(old) => counted(old) + 1,
        None => 1,
    };
    let metadata = child(as_map(new), "metadata");
    child(metadata, "annotations").insert(TEMPLATE_GENERATION.into(), count.to_string().into());
}

pub(super) fn stateful_set(spec: &mut Map<String, Value>) {
    default_to(spec, "serviceName", "");
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", REVISIONS);
    default_text(spec, "podManagementPolicy", "OrderedReady");
    let strategy = child(spec, "updateStrategy");
    default_text(strategy, "type", "RollingUpdate");
    if text_at(strategy, "type") == "RollingUpdate" {
        default_to(child(strategy, "rollingUpdate"), "partition", 0);
    }
    let retention = child(spec, "persistentVolumeClaimRetentionPolicy");
    default_text(retention, "whenDeleted", "Retain");
    default_text(retention, "whenScaled", "Retain");
    for claim in maps(spec, "volumeClaimTemplates") {
        default_text(claim, "apiVersion", "v1");
        default_text(claim, "kind", "PersistentVolumeClaim");
        storage::claim(child(claim, "spec"));
        default_to(claim, "status", json!({"phase": "Pending"}));
    }
    pods(child(spec, "template"));
}

pub(super) fn autoscaler(spec: &mut Map<String, Value>) {
    default_to(spec, "minReplicas", 1);
    let utilization = json!([{
        "type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }]);
    default_to(spec, "metrics", utilization);
    if let Some(behavior) = map_at(spec, "behavior") {
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        let up = child(behavior, "scaleUp");
        default_to(up, "stabilizationWindowSeconds", 0);
        scaling_rules(up, json!([pods, percent]));
        scaling_rules(child(behavior, "scaleDown"), json!([percent]));
    }
}

fn scaling_rules(rules: &mut Map<String, Value>, policies: Value) {
    default_text(rules, "selectPolicy", "Max");
    default_to(rules, "policies", policies);
}
