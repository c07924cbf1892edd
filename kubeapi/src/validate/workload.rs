//! Checks the kinds that keep pods running: their selectors, templates and update strategies.

use serde_json::{Map, Value, json};

use super::{
    faults::{in_range, supported},
    metadata, pod,
};
use crate::{
    cause::Cause,
    object::{items, text_or_empty},
    registry::Builtin,
};

const IMMUTABLE: &str = "field is immutable";
/// The message about the fields of a stateful set that may change.
const OF_STATEFUL_SETS: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
    'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
const MUTABLE_OF_STATEFUL_SETS: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// Checks a deployment, replica set, daemon set or stateful set.
pub(super) fn workload(builtin: Builtin, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        causes.extend(in_range(
            format!("spec.{field}"),
            object.pointer(&format!("/spec/{field}")),
            0,
            i64::MAX,
        ));
    }
    causes.extend(label_selector(builtin, object));
    let template = template(object);
    let claims = match builtin {
        Builtin::StatefulSet => items(object, "/spec/volumeClaimTemplates"),
        _ => &[],
    };
    causes.extend(pod_template(template, "spec.template", &["Always"], claims));
    match builtin {
        Builtin::Deployment => causes.extend(deployment(object)),
        Builtin::DaemonSet => causes.extend(update_strategy(object)),
        Builtin::StatefulSet => {
            causes.extend(update_strategy(object));
            let spec = object.get("spec").unwrap_or(&Value::Null);
            causes.extend(supported(spec, "spec", "podManagementPolicy", &["OrderedReady", "Parallel"]));
        }
        _ => {}
    }
    causes
}

/// Returns the faults of a change of a workload's immutable fields.
pub(super) fn update(builtin: Builtin, old: &Value, new: &Value) -> Vec<Cause> {
    let of = |object: &Value, pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
    if builtin == Builtin::StatefulSet {
        let fixed = |object: &Value| -> Map<String, Value> {
            let mut spec = of(object, "/spec").as_object().cloned().unwrap_or_default();
            spec.retain(|key, _| !MUTABLE_OF_STATEFUL_SETS.contains(&key.as_str()));
            spec
        };
        return (fixed(old) != fixed(new))
            .then(|| Cause::forbidden("spec", OF_STATEFUL_SETS))
            .into_iter()
            .collect();
    }
    let selector = of(new, "/spec/selector");
    let changed = builtin != Builtin::ReplicationController && of(old, "/spec/selector") != selector;
    changed.then(|| Cause::invalid("spec.selector", &selector, IMMUTABLE)).into_iter().collect()
}

/// Checks a pod template at `path`, whose restart policy must be one of `policies` and whose pods get a volume for each of the claim
/// templates.
pub(super) fn pod_template(template: &Value, path: &str, policies: &[&str], claims: &[Value]) -> Vec<Cause> {
    let labels = metadata::labels(template.pointer("/metadata/labels"), "metadata.labels");
    let mut causes: Vec<_> = labels
        .into_iter()
        .chain(pod::create_with_claims(template, claims))
        .map(|cause| cause.under(path))
        .collect();
    let policy = text_or_empty(template, "/spec/restartPolicy");
    if !policies.contains(&policy) {
        causes.push(Cause::unsupported(format!("{path}.spec.restartPolicy"), &policy.into(), policies));
    }
    if template.pointer("/spec/activeDeadlineSeconds").is_some_and(|seconds| !seconds.is_null())
        && policies == ["Always"]
    {
        causes.push(Cause::forbidden(
            format!("{path}.spec.activeDeadlineSeconds"),
            "activeDeadlineSeconds in this kind is not supported",
        ));
    }
    causes
}

fn template(object: &Value) -> &Value {
    object.pointer("/spec/template").unwrap_or(&Value::Null)
}

fn label_selector(builtin: Builtin, object: &Value) -> Option<Cause> {
    let selector = object.pointer("/spec/selector").filter(|selector| !selector.is_null());
    let Some(selector) = selector else { return Some(Cause::required("spec.selector", "")) };
    let is_map = builtin == Builtin::ReplicationController;
    let empty = if is_map {
        selector.as_object().is_none_or(Map::is_empty)
    } else {
        selector.get("matchLabels").and_then(Value::as_object).is_none_or(Map::is_empty)
            && items(selector, "/matchExpressions").is_empty()
    };
    if empty {
        let kind = match builtin {
            Builtin::StatefulSet => "statefulset",
            Builtin::DaemonSet => "daemonset",
            _ => "deployment",
        };
        let why = format!("empty selector is invalid for {kind}");
        return Some(Cause::invalid("spec.selector", selector, &why));
    }
    let labels = template(object).pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
    let matches = if is_map { includes(&labels, selector) } else { selects(selector, &labels) };
    let why = "`selector` does not match template `labels`";
    (!matches).then(|| Cause::invalid("spec.template.metadata.labels", &labels, why))
}

/// Reports whether a label selector matches these labels.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let none = Value::Null;
    let expression = |requirement: &Value| {
        let value = labels.get(text_or_empty(requirement, "/key"));
        let among = || value.is_some_and(|value| items(requirement, "/values").contains(value));
        match text_or_empty(requirement, "/operator") {
            "In" => among(),
            "NotIn" => !among(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    };
    includes(labels, selector.get("matchLabels").unwrap_or(&none))
        && items(selector, "/matchExpressions").iter().all(expression)
}

fn includes(labels: &Value, wanted: &Value) -> bool {
    wanted.as_object().into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
}

fn deployment(object: &Value) -> Vec<Cause> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let strategy = spec.get("strategy").unwrap_or(&Value::Null);
    let mut causes: Vec<_> =
        supported(strategy, "spec.strategy", "type", &["Recreate", "RollingUpdate"]).into_iter().collect();
    let rolling = strategy.get("rollingUpdate").filter(|rolling| !rolling.is_null());
    match (text_or_empty(strategy, "/type"), rolling) {
        ("Recreate", Some(_)) => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            causes.push(Cause::forbidden("spec.strategy.rollingUpdate", why));
        }
        ("RollingUpdate", Some(rolling)) => {
            for field in ["maxUnavailable", "maxSurge"] {
                causes.extend(amount(rolling.get(field), &format!("spec.strategy.rollingUpdate.{field}")));
            }
            let none = |field| matches!(rolling.get(field), Some(value) if *value == 0 || *value == "0%");
            if none("maxUnavailable") && none("maxSurge") {
                let value = rolling.get("maxUnavailable").cloned().unwrap_or_default();
                let why = "may not be 0 when `maxSurge` is 0";
                causes.push(Cause::invalid("spec.strategy.rollingUpdate.maxUnavailable", &value, why));
            }
        }
        _ => {}
    }
    let seconds = |field: &str| spec.get(field).and_then(Value::as_i64).unwrap_or_default();
    if seconds("progressDeadlineSeconds") <= seconds("minReadySeconds") {
        let value = seconds("progressDeadlineSeconds").into();
        causes.push(Cause::invalid(
            "spec.progressDeadlineSeconds",
            &value,
            "must be greater than minReadySeconds",
        ));
    }
    causes
}

fn update_strategy(object: &Value) -> Option<Cause> {
    let strategy = object.pointer("/spec/updateStrategy").unwrap_or(&Value::Null);
    supported(strategy, "spec.updateStrategy", "type", &["RollingUpdate", "OnDelete"])
}

/// Checks a number of pods, or a percentage of them.
fn amount(value: Option<&Value>, field: &str) -> Option<Cause> {
    match value {
        Some(Value::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<u32>().ok());
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex \
                used for validation is '[0-9]+%')";
            percent.is_none().then(|| Cause::invalid(field, &text.as_str().into(), why))
        }
        value => in_range(field.to_owned(), value, 0, i64::MAX),
    }
}
