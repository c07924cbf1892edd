//! Autoscalers and disruption budgets.

use serde_json::{Value, json};

use kubeapi::{
    cause::Cause,
    object::{names, quantity::Quantity},
    validate::{
        engine::{
            Row,
            Rule::{
                AtLeast, AtMostAll, Check, IntOrPercent, Least, Limited, Name, OneOf, Required,
                Selector, Supported, Table,
            },
            row,
        },
        place::Place,
    },
};

use kubeapi::validate::tables::resources;

pub(super) static AUTOSCALER: &[Row] = &[
    row(
        "spec.minReplicas",
        AtLeast(1, "must be greater than or equal to 1"),
    ),
    row(
        "spec.maxReplicas",
        Required("must be set and greater than 0"),
    ),
    row("spec.maxReplicas", AtLeast(0, "must be greater than 0")),
    row("spec", Check(check_order)),
    row("spec.scaleTargetRef", Table(TARGET)),
    row("spec.metrics[*]", Table(METRIC)),
    row("spec.behavior?.scaleUp?", Table(SCALING)),
    row("spec.behavior?.scaleDown?", Table(SCALING)),
];
/// An autoscaler of `autoscaling/v1`.
pub(super) static AUTOSCALER_V1: &[Row] = &[
    row(
        "spec.minReplicas",
        AtLeast(1, "must be greater than or equal to 1"),
    ),
    row(
        "spec.maxReplicas",
        Required("must be set and greater than 0"),
    ),
    row("spec.maxReplicas", AtLeast(0, "must be greater than 0")),
    row("spec", Check(check_order)),
    row("spec.scaleTargetRef", Table(TARGET)),
];
static TARGET: &[Row] = &[
    row("kind", Name(names::path_segment)),
    row("name", Name(names::path_segment)),
    row("apiVersion", Check(check_group)),
];
static METRIC: &[Row] = &[
    row("type", Required("must specify a metric source type")),
    row("type", Supported(TYPES)),
    row("object?", Table(OBJECT)),
    row("external?", Table(EXTERNAL)),
    row("pods?", Table(PODS)),
    row("resource?", Table(RESOURCE)),
    row("containerResource?", Table(CONTAINER)),
    row("", Check(one_source)),
];
const TYPES: &[&str] = &[
    "ContainerResource",
    "External",
    "Object",
    "Pods",
    "Resource",
];

static OBJECT: &[Row] = &[
    row("describedObject", Table(TARGET)),
    row("metric.name", Required("must specify a metric name")),
    row(
        "metric.name",
        kubeapi::validate::engine::Rule::Format(names::path_segment),
    ),
    row("target", Table(AMOUNT)),
    row("target", Check(any_value)),
];
static EXTERNAL: &[Row] = &[
    row("metric.name", Required("must specify a metric name")),
    row(
        "metric.name",
        kubeapi::validate::engine::Rule::Format(names::path_segment),
    ),
    row("target", Table(AMOUNT)),
    row("target", Check(one_value)),
];
static PODS: &[Row] = &[
    row("metric.name", Required("must specify a metric name")),
    row(
        "metric.name",
        kubeapi::validate::engine::Rule::Format(names::path_segment),
    ),
    row("target", Table(AMOUNT)),
    row(
        "target.averageValue",
        Required("must specify a positive target averageValue"),
    ),
];
static RESOURCE: &[Row] = &[
    row("name", Required("must specify a resource name")),
    row("target", Table(AMOUNT)),
    row("target", Check(value_or_share)),
];
static CONTAINER: &[Row] = &[
    row("name", Required("must specify a resource name")),
    row("name", Check(resource_name)),
    row("container", Required("must specify a container")),
    row(
        "container",
        kubeapi::validate::engine::Rule::Format(names::dns_label),
    ),
    row("target", Table(AMOUNT)),
    row("target", Check(value_or_share)),
];
static AMOUNT: &[Row] = &[
    row("type", Required("must specify a metric target type")),
    row("type", Check(target_type)),
    row("value", Check(positive)),
    row("averageValue", Check(positive)),
    row("averageUtilization", AtLeast(1, "must be greater than 0")),
];
static SCALING: &[Row] = &[
    row(
        "stabilizationWindowSeconds",
        AtLeast(0, "must be greater than or equal to zero"),
    ),
    row(
        "stabilizationWindowSeconds",
        Limited(i64::MIN, 3600, "must be less than or equal to 3600"),
    ),
    row("selectPolicy", OneOf(&["Disabled", "Max", "Min"])),
    row("policies", Check(some_policy)),
    row("policies[*].type", Supported(&["Percent", "Pods"])),
    row("policies[*].value", Least(1, "must be greater than zero")),
    row(
        "policies[*].periodSeconds",
        Least(1, "must be greater than zero"),
    ),
    row(
        "policies[*].periodSeconds",
        Limited(i64::MIN, 1800, "must be less than or equal to 1800"),
    ),
    row("tolerance", kubeapi::validate::engine::Rule::Quantity),
];

pub(super) static BUDGET: &[Row] = &[
    row("spec", Check(one_limit)),
    row("spec.minAvailable", IntOrPercent),
    row("spec.minAvailable", AtMostAll),
    row("spec.maxUnavailable", IntOrPercent),
    row("spec.maxUnavailable", AtMostAll),
    row("spec.selector?", Selector),
    row(
        "spec.unhealthyPodEvictionPolicy",
        OneOf(&["AlwaysAllow", "IfHealthyBudget"]),
    ),
];

fn check_order(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let (least, most) = (
        spec.number("minReplicas"),
        spec.number("maxReplicas").unwrap_or_default(),
    );
    if least.is_some_and(|least| most < least) {
        causes.push(spec.invalid(
            "maxReplicas",
            &most.into(),
            "must be greater than or equal to `minReplicas`",
        ));
    }
}

fn check_group(version: &Place<'_>, causes: &mut Vec<Cause>) {
    let text = version.value.as_str().unwrap_or_default();
    let is_core_kind = text == "v1" && version.sibling("kind") == "ReplicationController";
    if text.matches('/').count() > 1 {
        causes.push(Cause::invalid(
            version.path(),
            &text.into(),
            &format!("unexpected GroupVersion string: {text}"),
        ));
    } else if (!text.contains('/') || text.starts_with('/'))
        && !is_core_kind
        && !allows_core(version)
    {
        causes.push(Cause::invalid(
            version.path(),
            &text.into(),
            "apiVersion must specify API group",
        ));
    }
}

/// Whether it is about an object that a metric describes, which may be of the core group.
fn allows_core(version: &Place<'_>) -> bool {
    version.path().contains("describedObject")
}

fn one_source(metric: &Place<'_>, causes: &mut Vec<Cause>) {
    let of_kind = match metric.text("type") {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        _ => "",
    };
    if !of_kind.is_empty() && !metric.has(of_kind) {
        let why = "must populate information for the given metric source";
        causes.push(Cause::required(metric.field(of_kind), why));
    }
    let sources = [
        "object",
        "external",
        "pods",
        "resource",
        "containerResource",
    ];
    let others: Vec<_> = sources
        .into_iter()
        .filter(|name| metric.has(name) && *name != of_kind)
        .collect();
    if metric.has(of_kind) || others.len() > 1 {
        let why = "must populate the given metric source only";
        causes.extend(
            others
                .iter()
                .map(|name| Cause::forbidden(metric.field(name), why)),
        );
    }
}

fn any_value(target: &Place<'_>, causes: &mut Vec<Cause>) {
    if !target.has("value") && !target.has("averageValue") {
        let why = "must set either a target value or averageValue";
        causes.push(Cause::required(target.field("averageValue"), why));
    }
}

fn one_value(target: &Place<'_>, causes: &mut Vec<Cause>) {
    match (target.has("value"), target.has("averageValue")) {
        (false, false) => {
            let why = "must set either a target value for metric or a per-pod target";
            causes.push(Cause::required(target.field("averageValue"), why));
        }
        (true, true) => {
            let why = "may not set both a target value for metric and a per-pod target";
            causes.push(Cause::forbidden(target.field("value"), why));
        }
        _ => {}
    }
}

fn value_or_share(target: &Place<'_>, causes: &mut Vec<Cause>) {
    match (target.has("averageUtilization"), target.has("averageValue")) {
        (false, false) => {
            let why = "must set either a target raw value or a target utilization";
            causes.push(Cause::required(target.field("averageUtilization"), why));
        }
        (true, true) => {
            let why = "may not set both a target raw value and a target utilization";
            causes.push(Cause::forbidden(target.field("averageValue"), why));
        }
        _ => {}
    }
}

fn resource_name(name: &Place<'_>, causes: &mut Vec<Cause>) {
    let text = name.value.as_str().unwrap_or_default();
    if !text.is_empty() {
        resources::container_name(name, text, causes);
    }
}

fn target_type(kind: &Place<'_>, causes: &mut Vec<Cause>) {
    let text = kind.value.as_str().unwrap_or_default();
    if !matches!(text, "Utilization" | "Value" | "AverageValue") {
        let why = "must be either Utilization, Value, or AverageValue";
        causes.push(Cause::invalid(kind.path(), &text.into(), why));
    }
}

fn positive(amount: &Place<'_>, causes: &mut Vec<Cause>) {
    if amount
        .value
        .as_str()
        .and_then(Quantity::parse)
        .is_some_and(|amount| !amount.is_positive())
    {
        causes.push(amount.refusal("must be positive"));
    }
}

fn some_policy(policies: &Place<'_>, causes: &mut Vec<Cause>) {
    let is_disabled = policies.sibling("selectPolicy") == "Disabled";
    let is_default = policies.value.is_null();
    if policies.list().is_empty() && !is_default && !is_disabled {
        causes.push(Cause::required(
            policies.path(),
            "must specify at least one Policy",
        ));
    }
}

fn one_limit(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    if !spec.has("minAvailable") || !spec.has("maxUnavailable") {
        return;
    }
    // the value is a Go structure, as the real server writes it
    let of = |name: &str| spec.get(name).clone();
    let value: Value = json!({
        "MinAvailable": of("minAvailable"), "Selector": of("selector"), "MaxUnavailable": of("maxUnavailable"),
        "UnhealthyPodEvictionPolicy": of("unhealthyPodEvictionPolicy"),
    });
    causes.push(Cause::invalid(
        spec.path(),
        &value,
        "minAvailable and maxUnavailable cannot be both set",
    ));
}
