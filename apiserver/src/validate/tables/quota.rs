//! Resource quotas and limit ranges.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use kubeapi::{
    cause::Cause,
    object::{items, names, quantity::Quantity, text_or_empty},
    validate::{
        change::{Change, Kept, change},
        engine::{
            Row,
            Rule::{Check, Table},
            check, row,
        },
        place::Place,
    },
};

use kubeapi::validate::tables::resources::{self, format_quantity};

pub(super) static QUOTA: &[Row] = &[
    row("spec.hard{*}", Check(hard)),
    row("spec", Check(scopes)),
    row("spec", Check(selected_scopes)),
    row("status", Table(QUOTA_STATUS)),
];
pub(super) static QUOTA_STATUS: &[Row] =
    &[row("hard{*}", Check(hard)), row("used{*}", Check(hard))];
pub(super) static QUOTA_CHANGES: &[Change] = &[change("spec.scopes", Kept::Check(scopes_stay))];
pub(super) static LIMITS: &[Row] = &[
    row("spec.limits[*]", Check(limit)),
    row("spec.limits", Check(types)),
];

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
const COMPUTE: &[&str] = &[
    "pods",
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
    "ephemeral-storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
];

fn hard(amount: &Place<'_>, causes: &mut Vec<Cause>) {
    let name = amount.key();
    resources::quota_name(amount, name, causes);
    resources::quantity(amount, name, causes);
}

/// Whether a scope can be applied to a resource.
fn applies(scope: &str, name: &str) -> bool {
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => {
            COMPUTE.contains(&name)
                || name.starts_with("hugepages-")
                || name.starts_with("requests.hugepages-")
        }
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn limited_resources<'a>(spec: &Place<'a>) -> BTreeSet<&'a str> {
    let names = spec
        .get("hard")
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str());
    names
        .filter(|name| resources::is_quota_resource(name))
        .collect()
}

/// The most faults of scopes that are reported: each repeats the whole list.
const MAX_FAULTS: usize = 32;

fn scopes(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let list = spec.child("scopes", "scopes");
    let names: Vec<_> = list.list().iter().filter_map(Value::as_str).collect();
    let (limited, before) = (limited_resources(spec), causes.len());
    for scope in &names {
        let left = MAX_FAULTS.saturating_sub(causes.len() - before);
        if left == 0 {
            break;
        }
        if !SCOPES.contains(scope) {
            causes.push(list.refusal("unsupported scope"));
        }
        let wrong = limited
            .iter()
            .filter(|name| !applies(scope, name))
            .take(left);
        causes.extend(wrong.map(|_| list.refusal("unsupported scope applied to resource")));
    }
    conflicts(&names, &list.path(), list.value, causes);
}

fn conflicts(scopes: &[&str], field: &str, value: &Value, causes: &mut Vec<Cause>) {
    for pair in [
        ["BestEffort", "NotBestEffort"],
        ["Terminating", "NotTerminating"],
    ] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            causes.push(Cause::invalid(field, value, "conflicting scopes"));
        }
    }
}

fn selected_scopes(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let selector = spec.child("scopeSelector", "scopeSelector");
    let list = selector.child("matchExpressions", "matchExpressions");
    let mut names = Vec::new();
    for item in list.list() {
        let (scope, operator) = (
            text_or_empty(item, "/scopeName"),
            text_or_empty(item, "/operator"),
        );
        let values = items(item, "/values");
        if !SCOPES.contains(&scope) {
            causes.push(list.invalid("scopeName", &scope.into(), "unsupported scope"));
        }
        let wrong = limited_resources(spec)
            .into_iter()
            .filter(|name| !applies(scope, name));
        let why = "unsupported scope applied to resource";
        causes.extend(wrong.map(|_| Cause::invalid(list.path(), selector.value, why)));
        if matches!(
            scope,
            "BestEffort"
                | "NotBestEffort"
                | "Terminating"
                | "NotTerminating"
                | "CrossNamespacePodAffinity"
        ) && operator != "Exists"
        {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                       ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            causes.push(list.invalid("operator", &operator.into(), why));
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                causes.push(Cause::required(list.field("values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                causes.push(list.invalid("values", &values.to_vec().into(), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => causes.push(list.invalid(
                "operator",
                &other.into(),
                "not a valid selector operator",
            )),
        }
        names.push(scope);
    }
    conflicts(&names, &list.path(), spec.get("scopes"), causes);
}

fn scopes_stay(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let set = |list: &Value| {
        items(list, "")
            .iter()
            .map(Value::to_string)
            .collect::<BTreeSet<_>>()
    };
    if set(old) != set(new) {
        causes.push(Cause::invalid("spec.scopes", new, "field is immutable"));
    }
}

fn types(limits: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken = BTreeSet::new();
    for (index, limit) in limits.list().iter().enumerate() {
        let kind = text_or_empty(limit, "/type");
        if !taken.insert(kind) {
            causes.push(Cause::duplicate(
                limits.item(index, limit).field("type"),
                kind,
            ));
        }
    }
}

static NAMES: &[Row] = &[
    row("max{*}", Check(limit_name)),
    row("min{*}", Check(limit_name)),
    row("default{*}", Check(limit_name)),
    row("defaultRequest{*}", Check(limit_name)),
    row("maxLimitRequestRatio{*}", Check(limit_name)),
];

fn limit(limit: &Place<'_>, causes: &mut Vec<Cause>) {
    let kind = limit.text("type");
    let faults = names::qualified_name(kind);
    let is_unknown = faults.is_empty()
        && !kind.contains('/')
        && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
    let unknown = is_unknown.then(|| "must be a standard limit type or fully qualified".to_owned());
    causes.extend(
        faults
            .into_iter()
            .chain(unknown)
            .map(|why| limit.invalid("type", &kind.into(), &why)),
    );
    check(NAMES, limit, causes);
    if kind == "Pod" {
        for field in ["default", "defaultRequest"] {
            if limit
                .get(field)
                .as_object()
                .is_some_and(|amounts| !amounts.is_empty())
            {
                let why = "may not be specified when `type` is 'Pod'";
                causes.push(Cause::forbidden(limit.field(field), why));
            }
        }
    }
    if kind == "PersistentVolumeClaim"
        && limit.pointer("/min/storage").is_null()
        && limit.pointer("/max/storage").is_null()
    {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        causes.push(Cause::required(limit.field("limits"), why));
    }
    let fields = [
        "max",
        "min",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
    ];
    let all = fields
        .iter()
        .filter_map(|field| limit.get(field).as_object())
        .flat_map(Map::keys);
    for name in all.collect::<BTreeSet<_>>() {
        amounts(limit, name, causes);
    }
}

fn limit_name(amount: &Place<'_>, causes: &mut Vec<Cause>) {
    let kind = amount.nearest_item().text("type");
    if matches!(kind, "Pod" | "Container") {
        resources::container_name(amount, amount.key(), causes);
    } else {
        resources::name(amount, amount.key(), causes);
    }
}

/// Checks the amounts of one resource against each other.
fn amounts(limit: &Place<'_>, name: &str, causes: &mut Vec<Cause>) {
    let value = |field: &str| limit.get(field).get(name);
    let parsed = |field: &str| {
        value(field)
            .and_then(Value::as_str)
            .and_then(Quantity::parse)
    };
    let text = |field: &str| value(field).map(format_quantity).unwrap_or_default();
    // field, its larger counterpart, the field of the message, how messages call both
    for (low, high, field, what) in [
        ("min", "max", "min", ("min value", "max value")),
        (
            "min",
            "defaultRequest",
            "defaultRequest",
            ("min value", "default request value"),
        ),
        (
            "defaultRequest",
            "max",
            "defaultRequest",
            ("default request value", "max value"),
        ),
        (
            "defaultRequest",
            "default",
            "defaultRequest",
            ("default request value", "default limit value"),
        ),
        ("min", "default", "default", ("min value", "default value")),
        ("default", "max", "default", ("default value", "max value")),
    ] {
        if let (Some(smaller), Some(larger)) = (parsed(low), parsed(high))
            && smaller > larger
        {
            let shown = match (low, high) {
                ("min", "default") => "min",
                ("default", "max") => "max",
                _ => field,
            };
            let why = format!(
                "{} {} is greater than {} {}",
                what.0,
                text(low),
                what.1,
                text(high)
            );
            causes.push(limit.invalid(&format!("{field}[{name}]"), &text(shown).into(), &why));
        }
    }
    let field = format!("maxLimitRequestRatio[{name}]");
    let Some(ratio) = parsed("maxLimitRequestRatio") else {
        return;
    };
    let shown = text("maxLimitRequestRatio");
    if ratio < Quantity::ONE {
        causes.push(limit.invalid(
            &field,
            &shown.clone().into(),
            &format!("ratio {shown} is less than 1"),
        ));
    }
    if let (Some(min), Some(max)) = (parsed("min"), parsed("max"))
        && min.is_positive()
        && ratio.ratio(Quantity::ONE) > max.ratio(min)
    {
        let why = format!(
            "ratio {shown} is greater than max/min = {:.6}",
            max.ratio(min)
        );
        causes.push(limit.invalid(&field, &shown.into(), &why));
    }
}
