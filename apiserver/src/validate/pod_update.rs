//! Checks changes of pods: hardly anything in a pod's spec may change.

use std::collections::HashSet;

use serde_json::{Map, Value};

use kubeapi::{
    cause::Cause,
    object::{MIRROR, items, text_or_empty},
};

const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// The lists of requirements of a term.
const LISTS: [&str; 2] = ["/matchExpressions", "/matchFields"];

pub(super) fn update(old: &Value, new: &Value) -> Vec<Cause> {
    let mirror = mirror(old, new);
    if !mirror.is_empty() {
        return mirror;
    }
    let none = Value::Null;
    let spec = |pod: &Value| pod.get("spec").unwrap_or(&none).clone();
    let (old, new) = (spec(old), spec(new));
    let mut causes = Vec::new();
    for field in ["containers", "initContainers"] {
        let pointer = format!("/{field}");
        if items(&old, &pointer).len() != items(&new, &pointer).len() {
            let why = "pod updates may not add or remove containers";
            causes.push(Cause::forbidden(format!("spec.{field}"), why));
        }
    }
    if !causes.is_empty() {
        return causes;
    }
    causes.extend(deadline(&old, &new));
    causes.extend(tolerations(&old, &new));
    causes.extend(gates(&old, &new));
    let (mut before, mut after) = (immutable_part(&old), immutable_part(&new));
    if !items(&old, "/schedulingGates").is_empty() {
        // No scheduler has handled the pod yet, so its selection of nodes may still be narrowed.
        causes.extend(node_selector(&old, &new));
        causes.extend(node_affinity(&old, &new));
        [&mut before, &mut after]
            .into_iter()
            .for_each(without_node_selection);
    }
    if before != after {
        causes.push(Cause::forbidden("spec", FIXED));
    }
    causes
}

/// Checks that a mirror pod stays one, and that no other pod becomes one.
pub(super) fn mirror(old: &Value, new: &Value) -> Vec<Cause> {
    let of = |pod: &Value| {
        pod.pointer("/metadata/annotations")
            .and_then(|all| all.get(MIRROR))
            .cloned()
    };
    let (before, after) = (of(old), of(new));
    if before == after {
        return Vec::new();
    }
    let why = if before.is_some() {
        "may not remove or update mirror pod annotation"
    } else {
        "may not add mirror pod annotation"
    };
    vec![Cause::forbidden(
        format!("metadata.annotations[{MIRROR}]"),
        why,
    )]
}

/// Checks that the deadline is only added or shortened.
fn deadline(old: &Value, new: &Value) -> Option<Cause> {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    let seconds = |spec: &Value| spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    match (seconds(old), seconds(new)) {
        (Some(_), None) => Some(Cause::invalid(
            FIELD,
            &Value::Null,
            "must not update from a positive integer to nil value",
        )),
        (Some(before), Some(after)) if after > before => Some(Cause::invalid(
            FIELD,
            &after.into(),
            "must be less than or equal to previous value",
        )),
        (_, Some(after)) if after < 0 => Some(Cause::invalid(
            FIELD,
            &after.into(),
            "must be between 0 and 2147483647, inclusive",
        )),
        _ => None,
    }
}

/// Checks that existing tolerations stay, except for their duration.
fn tolerations(old: &Value, new: &Value) -> Option<Cause> {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.as_object().cloned().unwrap_or_default();
        toleration.remove("tolerationSeconds");
        // The fields of equal tolerations may have another order.
        toleration.sort_keys();
        Value::Object(toleration).to_string()
    };
    let after: HashSet<_> = items(new, "/tolerations")
        .iter()
        .map(without_seconds)
        .collect();
    let gone = items(old, "/tolerations")
        .iter()
        .any(|before| !after.contains(&without_seconds(before)));
    let why = "existing toleration can not be modified except its tolerationSeconds";
    gone.then(|| Cause::forbidden("spec.tolerations", why))
}

/// Checks that scheduling gates are only removed.
fn gates(old: &Value, new: &Value) -> Vec<Cause> {
    let before: HashSet<_> = items(old, "/schedulingGates")
        .iter()
        .map(Value::to_string)
        .collect();
    let added = items(new, "/schedulingGates")
        .iter()
        .filter(|gate| !before.contains(&gate.to_string()));
    let why = |gate| {
        format!(
            "only deletion is allowed, but found new scheduling gate '{}'",
            text_or_empty(gate, "/name")
        )
    };
    added
        .map(|gate| Cause::forbidden("spec.schedulingGates", &why(gate)))
        .collect()
}

/// Checks that the node selector of a gated pod only gets more labels, and none is removed or changed.
fn node_selector(old: &Value, new: &Value) -> Option<Cause> {
    let of = |spec: &Value| {
        spec.get("nodeSelector")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let (before, after) = (of(old), of(new));
    let kept = before
        .iter()
        .all(|(label, value)| after.get(label) == Some(value));
    let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
    (!kept).then(|| Cause::invalid("spec.nodeSelector", &Value::Object(after), why))
}

/// Checks that the node affinity of a gated pod only gets more requirements in the terms that there are.
fn node_affinity(old: &Value, new: &Value) -> Vec<Cause> {
    const FIELD: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    const TERMS: &str =
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let (before, after) = (items(old, TERMS), items(new, TERMS));
    if before.is_empty() {
        return Vec::new();
    }
    if before.len() != after.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return vec![Cause::invalid(FIELD, &Value::from(after.to_vec()), why)];
    }
    let only_grows = |(old, new): (&Value, &Value)| {
        let is_empty = |term: &Value| LISTS.iter().all(|list| items(term, list).is_empty());
        (!is_empty(old) || is_empty(new))
            && LISTS
                .iter()
                .all(|list| items(new, list).starts_with(items(old, list)))
    };
    let pairs = before.iter().zip(after).enumerate();
    let changed = pairs.filter(|(_, pair)| !only_grows(*pair));
    let why = "only additions are allowed (no mutations or deletions)";
    changed
        .map(|(index, (_, term))| Cause::invalid(format!("{FIELD}[{index}]"), term, why))
        .collect()
}

/// Removes what selects nodes for a pod that has not been scheduled.
fn without_node_selection(spec: &mut Map<String, Value>) {
    spec.remove("nodeSelector");
    let Some(Value::Object(affinity)) = spec.get_mut("affinity") else {
        return;
    };
    affinity.remove("nodeAffinity");
    if affinity.is_empty() {
        spec.remove("affinity");
    }
}

/// Returns the immutable part of the spec; an empty list counts as none, as in Go.
fn immutable_part(spec: &Value) -> Map<String, Value> {
    let mut spec = spec.as_object().cloned().unwrap_or_default();
    for field in ["containers", "initContainers"] {
        for container in spec
            .get_mut(field)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Value::Object(container) = container {
                container.remove("image");
            }
        }
    }
    spec.remove("activeDeadlineSeconds");
    spec.remove("tolerations");
    spec.remove("schedulingGates");
    if spec
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds < 0)
    {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    drop_empty(&mut spec);
    spec
}

fn drop_empty(map: &mut Map<String, Value>) {
    map.retain(|_, value| match value {
        Value::Null => false,
        Value::Array(list) => {
            list.iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(drop_empty);
            !list.is_empty()
        }
        Value::Object(map) => {
            drop_empty(map);
            true
        }
        _ => true,
    });
}
