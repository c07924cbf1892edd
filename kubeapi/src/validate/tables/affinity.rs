//! Which nodes a pod may run on: affinity, tolerations, and how pods are spread.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::{
    cause::Cause,
    object::{items, names, text_or_empty},
    validate::{
        engine::{
            Row,
            Rule::{
                Always, Check, Format, Least, Limited, OneOf, Required, Selector, Supported, Table,
            },
            row,
        },
        labels,
        place::Place,
    },
};

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// `affinity` of a pod.
pub static AFFINITY: &[Row] = &[
    row(
        "nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?",
        Table(NODE_SELECTOR),
    ),
    row(
        "nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution[*]",
        Table(PREFERRED_NODES),
    ),
    row(
        "podAffinity?.requiredDuringSchedulingIgnoredDuringExecution[*]",
        Table(PODS),
    ),
    row(
        "podAffinity?.preferredDuringSchedulingIgnoredDuringExecution[*]",
        Table(PREFERRED_PODS),
    ),
    row(
        "podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution[*]",
        Table(PODS),
    ),
    row(
        "podAntiAffinity?.preferredDuringSchedulingIgnoredDuringExecution[*]",
        Table(PREFERRED_PODS),
    ),
];

/// A selector of nodes.
pub static NODE_SELECTOR: &[Row] = &[
    row(
        "nodeSelectorTerms",
        Required("must have at least one node selector term"),
    ),
    row("nodeSelectorTerms[*]", Table(NODE_TERM)),
];

static NODE_TERM: &[Row] = &[
    row("matchExpressions[*]", Check(node_labels)),
    row("matchExpressions[*]", Check(node_values)),
    row("matchFields[*]", Check(node_field)),
];
static PREFERRED_NODES: &[Row] = &[
    row("weight", Check(weight)),
    row("preference.matchExpressions[*]", Check(node_labels)),
    row("preference.matchFields[*]", Check(node_field)),
];
static PREFERRED_PODS: &[Row] = &[
    row("weight", Check(weight)),
    row("podAffinityTerm", Table(PODS)),
];
static PODS: &[Row] = &[
    row("labelSelector?", Selector),
    row("namespaceSelector?", Selector),
    row("namespaces>namespace[-]", Format(names::dns_label)),
    row("", Check(label_keys)),
    row("topologyKey", Required("can not be empty")),
    row("topologyKey", Always(names::qualified_name)),
];

/// An item of `topologySpreadConstraints`.
pub static SPREAD: &[Row] = &[
    row("maxSkew", Least(1, "must be greater than zero")),
    row("topologyKey", Required("can not be empty")),
    row(
        "whenUnsatisfiable",
        Supported(&["DoNotSchedule", "ScheduleAnyway"]),
    ),
    row("", Check(min_domains)),
    row("nodeAffinityPolicy", OneOf(&["Honor", "Ignore"])),
    row("nodeTaintsPolicy", OneOf(&["Honor", "Ignore"])),
    row("", Check(spread_keys)),
    row("labelSelector?", Selector),
];

/// An item of `tolerations`.
pub static TOLERATION: &[Row] = &[
    row("key", Format(names::qualified_name)),
    row("", Check(toleration)),
    row("effect", OneOf(EFFECTS)),
];

/// `weight` has bounds of its own.
static WEIGHT: &[Row] = &[row("", Limited(1, 100, "must be in the range 1-100"))];

fn weight(place: &Place<'_>, causes: &mut Vec<Cause>) {
    if place.value.is_null() {
        causes.push(Cause::invalid(
            place.path(),
            &0.into(),
            "must be in the range 1-100",
        ));
    }
    crate::validate::engine::check(WEIGHT, place, causes);
}

fn node_labels(requirement: &Place<'_>, causes: &mut Vec<Cause>) {
    labels::requirement(
        requirement,
        &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"],
        causes,
    );
}

fn node_values(requirement: &Place<'_>, causes: &mut Vec<Cause>) {
    labels::values(requirement, causes);
}

fn node_field(requirement: &Place<'_>, causes: &mut Vec<Cause>) {
    let (operator, key) = (requirement.text("operator"), requirement.text("key"));
    match operator {
        "In" | "NotIn" if requirement.items("values").len() != 1 => {
            let why =
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            causes.push(Cause::required(requirement.field("values"), why));
        }
        "In" | "NotIn" => {}
        other => causes.push(requirement.invalid(
            "operator",
            &other.into(),
            "not a valid selector operator",
        )),
    }
    if key != "metadata.name" {
        return causes.push(requirement.invalid(
            "key",
            &key.into(),
            "not a valid field selector key",
        ));
    }
    for (index, value) in requirement.items("values").iter().enumerate() {
        let faults = names::dns_subdomain(value.as_str().unwrap_or_default());
        causes.extend(
            faults
                .iter()
                .map(|why| requirement.invalid(&format!("values[{index}]"), value, why)),
        );
    }
}

/// The keys of a selector of labels.
fn selected_keys(selector: &Value) -> HashSet<&str> {
    let of_labels = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let of_expressions = items(selector, "/matchExpressions")
        .iter()
        .map(|item| text_or_empty(item, "/key"));
    of_labels
        .map(|(key, _)| key.as_str())
        .chain(of_expressions)
        .collect()
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys`.
fn label_keys(term: &Place<'_>, causes: &mut Vec<Cause>) {
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.child(list, list);
        if keys.list().is_empty() {
            continue;
        }
        if !term.has("labelSelector") {
            let why = "must not be specified when labelSelector is not set";
            causes.push(Cause::forbidden(keys.path(), why));
            continue;
        }
        valid_keys(&keys, causes);
    }
    let mismatched: HashSet<_> = term.items("mismatchLabelKeys").iter().collect();
    for (index, key) in term.items("matchLabelKeys").iter().enumerate() {
        if mismatched.contains(key) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            causes.push(term.invalid(&format!("matchLabelKeys[{index}]"), key, why));
        }
    }
}

fn valid_keys(keys: &Place<'_>, causes: &mut Vec<Cause>) {
    for (index, key) in keys.list().iter().enumerate() {
        let key = keys.item(index, key);
        let faults = names::qualified_name(key.value.as_str().unwrap_or_default());
        causes.extend(faults.iter().map(|why| key.refusal(why)));
    }
}

fn spread_keys(constraint: &Place<'_>, causes: &mut Vec<Cause>) {
    let keys = constraint.child("matchLabelKeys", "matchLabelKeys");
    if keys.list().is_empty() {
        return;
    }
    if !constraint.has("labelSelector") {
        causes.push(Cause::forbidden(
            keys.path(),
            "must not be specified when labelSelector is not set",
        ));
    }
    valid_keys(&keys, causes);
    let selected = selected_keys(constraint.get("labelSelector"));
    for (index, key) in keys.list().iter().enumerate() {
        if key.as_str().is_some_and(|key| selected.contains(key)) {
            causes.push(
                keys.item(index, key)
                    .refusal("exists in both matchLabelKeys and labelSelector"),
            );
        }
    }
}

fn min_domains(constraint: &Place<'_>, causes: &mut Vec<Cause>) {
    let action = constraint.text("whenUnsatisfiable");
    let Some(count) = constraint.number("minDomains") else {
        return;
    };
    if count <= 0 {
        causes.push(constraint.invalid("minDomains", &count.into(), "must be greater than zero"));
    }
    if action != "DoNotSchedule" {
        let why =
            format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        causes.push(constraint.invalid("minDomains", &count.into(), &why));
    }
}

/// Checks that no two constraints are about the same topology and action.
pub fn check_repeated(list: &Place<'_>, causes: &mut Vec<Cause>) {
    let pair = |item: &Value| {
        format!(
            "{{{}, {}}}",
            text_or_empty(item, "/topologyKey"),
            text_or_empty(item, "/whenUnsatisfiable")
        )
    };
    let pairs: Vec<_> = list.list().iter().map(pair).collect();
    // of the same, the last one is not named
    let last: HashMap<_, _> = pairs
        .iter()
        .enumerate()
        .map(|(index, own)| (own, index))
        .collect();
    for (index, own) in pairs.iter().enumerate() {
        if last.get(own) != Some(&index) {
            let field = format!(
                "{}[{index}].{{topologyKey, whenUnsatisfiable}}",
                list.path()
            );
            causes.push(Cause::duplicate(field, own));
        }
    }
}

fn toleration(toleration: &Place<'_>, causes: &mut Vec<Cause>) {
    let (key, operator) = (toleration.text("key"), toleration.text("operator"));
    let (value, effect) = (toleration.text("value"), toleration.text("effect"));
    if key.is_empty() && operator != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        causes.push(toleration.invalid("operator", &operator.into(), why));
    }
    if toleration.has("tolerationSeconds") && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        causes.push(toleration.invalid("effect", &effect.into(), why));
    }
    match operator {
        "" | "Equal" => {
            let faults = names::label_value(value);
            if !faults.is_empty() {
                causes.push(toleration.invalid("operator", &value.into(), &faults.join(";")));
            }
        }
        "Exists" if !value.is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            causes.push(toleration.invalid("operator", &value.into(), why));
        }
        "Exists" => {}
        other => {
            causes.push(Cause::unsupported(
                toleration.field("operator"),
                &other.into(),
                &["Equal", "Exists"],
            ));
        }
    }
}
