//! Checks resizes of pods: only the amounts of processor and memory change, and the policies of their changes.

use serde_json::{Map, Value};

use crate::defaults::qos;
use kubeapi::{
    cause::Cause,
    object::{
        MIRROR, items,
        quantity::{Quantity, canonical},
        text, text_or_empty,
    },
};

const REMOVED: [(&str, &str); 2] = [
    ("requests", "resource requests cannot be removed"),
    ("limits", "resource limits cannot be removed"),
];
const REMOVED_OF_POD: [(&str, &str); 2] = [
    ("requests", "pod-level resource requests cannot be removed"),
    ("limits", "pod-level resource limits cannot be removed"),
];
const ONLY: &str = "only cpu and memory resources are mutable";

/// Returns the faults of the change from `old` to `new`.
pub(super) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let is_static = old
        .pointer("/metadata/annotations")
        .is_some_and(|all| all.get(MIRROR).is_some());
    if is_static {
        return vec![Cause::forbidden("", "static pods cannot be resized")];
    }
    if text(old, "/spec/os/name") == Some("windows") {
        return vec![Cause::forbidden("", "windows pods cannot be resized")];
    }
    let mut causes = Vec::new();
    let class = text(old, "/status/qosClass").unwrap_or_else(|| qos::class(old));
    if class != qos::class(new) {
        let why = "Pod QOS Class may not change as a result of resizing";
        causes.push(Cause::invalid("spec", &class.into(), why));
    }
    if !is_supported(old) {
        let why = "Pod running on node without support for resize";
        causes.push(Cause::forbidden("spec", why));
    }
    causes.extend(of_pod(old, new));
    let order = order(old, new);
    if !order.is_empty() {
        causes.extend(order);
        return causes;
    }
    for list in ["initContainers", "containers"] {
        for (index, (before, after)) in pairs(old, new, list) {
            let field = format!("spec.{list}[{index}].resources");
            let (before, after) = (before.get("resources"), after.get("resources"));
            causes.extend(removals(before, after, &field, REMOVED));
        }
    }
    for (_, (before, after)) in pairs(old, new, "containers") {
        if differs_elsewhere(before.get("resources"), after.get("resources")) {
            causes.push(Cause::forbidden("spec", ONLY));
        }
    }
    for (index, (before, after)) in pairs(old, new, "initContainers") {
        causes.extend(of_init(before, after, index));
    }
    causes
}

/// Checks the changes of an init container or sidecar.
fn of_init(before: &Value, after: &Value, index: usize) -> Vec<Cause> {
    let mut causes = Vec::new();
    let field = format!("spec.initContainers[{index}]");
    if differs_elsewhere(before.get("resources"), after.get("resources")) {
        let why = "only cpu and memory resources for init or sidecar containers are mutable";
        causes.push(Cause::forbidden(field.as_str(), why));
    }
    let is_sidecar = text(after, "/restartPolicy") == Some("Always");
    if before != after && !is_sidecar {
        let restarting = items(after, "/resizePolicy")
            .iter()
            .filter(|policy| text(policy, "/restartPolicy") == Some("RestartContainer"));
        let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
        causes.extend(restarting.map(|_| Cause::forbidden(field.as_str(), why)));
    }
    causes
}

/// Reports whether the node of the pod changes running containers: it then reports their resources.
fn is_supported(pod: &Value) -> bool {
    items(pod, "/status/containerStatuses")
        .iter()
        .find(|status| status.pointer("/state/running").is_some())
        .is_none_or(|status| status.get("resources").is_some())
}

/// Checks the resources of the pod itself.
fn of_pod(old: &Value, new: &Value) -> Vec<Cause> {
    const FIELD: &str = "spec.resources";
    let (before, after) = (
        old.pointer("/spec/resources"),
        new.pointer("/spec/resources"),
    );
    let has_amounts = |resources: Option<&Value>| {
        ["requests", "limits"]
            .iter()
            .any(|kind| !amounts(resources, kind).is_empty())
    };
    if !has_amounts(before) && !has_amounts(after) {
        return Vec::new();
    }
    if before.is_some() && after.is_none() {
        let why = "pod-level resources cannot be removed";
        return vec![Cause::forbidden(FIELD, why)];
    }
    let mut causes = removals(before, after, FIELD, REMOVED_OF_POD);
    if differs_elsewhere(before, after) {
        let why = "only cpu and memory resources are mutable at pod-level";
        causes.push(Cause::forbidden("spec", why));
    }
    causes
}

/// Checks that the containers are the same, in the same order.
fn order(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for list in ["containers", "initContainers"] {
        let pointer = format!("/spec/{list}");
        if items(old, &pointer).len() != items(new, &pointer).len() {
            let why = format!("{list} may not be added or removed on resize");
            causes.push(Cause::forbidden(format!("spec.{list}"), &why));
            continue;
        }
        for (index, (before, after)) in pairs(old, new, list) {
            if text_or_empty(before, "/name") != text_or_empty(after, "/name") {
                let why = format!("{list} may not be renamed or reordered on resize");
                causes.push(Cause::forbidden(format!("spec.{list}[{index}].name"), &why));
            }
        }
    }
    causes
}

fn pairs<'a>(
    old: &'a Value,
    new: &'a Value,
    list: &str,
) -> impl Iterator<Item = (usize, (&'a Value, &'a Value))> {
    let pointer = format!("/spec/{list}");
    items(old, &pointer)
        .iter()
        .zip(items(new, &pointer))
        .enumerate()
}

fn removals(
    before: Option<&Value>,
    after: Option<&Value>,
    field: &str,
    kinds: [(&str, &str); 2],
) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (kind, why) in kinds {
        let (before, after) = (amounts(before, kind), amounts(after, kind));
        if before.keys().any(|name| !after.contains_key(name)) {
            causes.push(Cause::forbidden(format!("{field}.{kind}"), why));
        }
    }
    causes
}

/// Reports whether anything but the amounts of processor and memory differs.
fn differs_elsewhere(before: Option<&Value>, after: Option<&Value>) -> bool {
    let rest = |resources: Option<&Value>| {
        let mut rest = resources
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        for kind in ["requests", "limits"] {
            let mut others = amounts(resources, kind);
            others.retain(|name, _| !matches!(name.as_str(), "cpu" | "memory"));
            others.values_mut().for_each(normalise);
            match others.is_empty() {
                true => rest.shift_remove(kind),
                false => rest.insert(kind.into(), others.into()),
            };
        }
        rest
    };
    rest(before) != rest(after)
}

fn normalise(amount: &mut Value) {
    if let Some(text) = amount
        .as_str()
        .filter(|text| Quantity::parse(text).is_some())
        && let Some(canonical) = canonical(text)
    {
        *amount = canonical.into();
    }
}

fn amounts(resources: Option<&Value>, kind: &str) -> Map<String, Value> {
    resources
        .and_then(|resources| resources.get(kind))
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}
