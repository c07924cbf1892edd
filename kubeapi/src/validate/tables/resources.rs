//! Resources of containers and pods: names and amounts.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::{
    cause::Cause,
    object::{
        names,
        quantity::{Quantity, canonical},
        text_or_empty,
    },
    validate::{numbers::NEGATIVE, place::Place},
};

const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
const OF_CONTAINERS: &[&str] = &["cpu", "memory", "ephemeral-storage"];
/// Resources that are counted in whole units.
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const HUGE_PAGES: &str = "hugepages-";

/// Checks `resources` of a container, or of the pod itself.
pub fn requirements(place: &Place<'_>, causes: &mut Vec<Cause>) {
    let limits = place.child("limits", "limits");
    let requests = place.child("requests", "requests");
    amounts(&limits, causes);
    for (name, amount) in requests.entries() {
        let entry = requests.entry(name, amount);
        container_name(&entry, name, causes);
        quantity(&entry, name, causes);
        not_above(&requests, name, amount, &limits, causes);
        whole_pages(&entry, name, causes);
    }
    let uses = |wanted: fn(&str) -> bool| {
        limits
            .entries()
            .chain(requests.entries())
            .any(|(name, _)| wanted(name))
    };
    if uses(|name| name.starts_with(HUGE_PAGES)) && !uses(|name| matches!(name, "cpu" | "memory")) {
        causes.push(Cause::forbidden(
            place.path(),
            "HugePages require cpu or memory",
        ));
    }
    claims(place, causes);
}

/// Checks limits, or the overhead of a pod.
pub fn amounts(place: &Place<'_>, causes: &mut Vec<Cause>) {
    for (name, amount) in place.entries() {
        let entry = place.entry(name, amount);
        container_name(&entry, name, causes);
        quantity(&entry, name, causes);
        whole_pages(&entry, name, causes);
    }
}

/// Checks `overhead`, whose amounts Kubernetes calls limits.
pub fn overhead(place: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut found = Vec::new();
    amounts(place, &mut found);
    let path = place.path();
    causes.extend(found.into_iter().map(|mut cause| {
        cause.field = cause.field.replacen(&path, &format!("{path}.limits"), 1);
        cause
    }));
}

fn not_above(
    requests: &Place<'_>,
    name: &str,
    amount: &Value,
    limits: &Place<'_>,
    causes: &mut Vec<Cause>,
) {
    let Some(limit) = limits.value.get(name) else {
        if !may_be_overcommitted(name) {
            causes.push(Cause::required(
                limits.path(),
                "Limit must be set for non overcommitable resources",
            ));
        }
        return;
    };
    let (wanted, allowed) = (parse_quantity(amount), parse_quantity(limit));
    let how = if wanted != allowed && !may_be_overcommitted(name) {
        "equal to"
    } else if wanted > allowed {
        "less than or equal to"
    } else {
        return;
    };
    let why = format!("must be {how} {name} limit of {}", format_quantity(limit));
    causes.push(Cause::invalid(
        requests.path(),
        &format_quantity(amount).into(),
        &why,
    ));
}

/// Checks that the amount of a resource is not negative, and whole if it is counted.
pub fn quantity(place: &Place<'_>, name: &str, causes: &mut Vec<Cause>) {
    let Some(amount) = parse_quantity(place.value) else {
        return;
    };
    let text = Value::from(format_quantity(place.value));
    if amount.is_negative() {
        causes.push(Cause::invalid(place.path(), &text, NEGATIVE));
    }
    let is_counted = COUNTED.contains(&name) || is_extended(name);
    if is_counted && amount.as_whole().is_none() {
        causes.push(Cause::invalid(place.path(), &text, "must be an integer"));
    }
}

fn whole_pages(place: &Place<'_>, name: &str, causes: &mut Vec<Cause>) {
    let Some(size) = name
        .strip_prefix(HUGE_PAGES)
        .and_then(Quantity::parse)
        .and_then(Quantity::as_whole)
    else {
        return;
    };
    let amount = parse_quantity(place.value)
        .and_then(Quantity::as_whole)
        .unwrap_or_default();
    if size <= 0 || amount % size != 0 {
        let why = format!(
            "{} is not positive integer multiple of {name}",
            format_quantity(place.value)
        );
        causes.push(Cause::invalid(
            place.path(),
            &format_quantity(place.value).into(),
            &why,
        ));
    }
}

/// Checks the name of a resource.
pub fn name(place: &Place<'_>, name: &str, causes: &mut Vec<Cause>) -> bool {
    let faults = names::qualified_name(name);
    let is_unknown = faults.is_empty() && !name.contains('/') && !is_standard(name);
    let unknown =
        is_unknown.then(|| "must be a standard resource type or fully qualified".to_owned());
    let before = causes.len();
    causes.extend(
        faults
            .into_iter()
            .chain(unknown)
            .map(|why| Cause::invalid(place.path(), &name.into(), &why)),
    );
    causes.len() == before
}

/// Checks the name of a resource of containers.
pub fn container_name(place: &Place<'_>, name: &str, causes: &mut Vec<Cause>) {
    self::name(place, name, causes);
    let why = if !name.contains('/') {
        (!OF_CONTAINERS.contains(&name) && !name.starts_with(HUGE_PAGES))
            .then_some("must be a standard resource for containers")
    } else {
        (!is_native(name) && !is_extended(name))
            .then_some("doesn't follow extended resource name standard")
    };
    causes.extend(why.map(|why| Cause::invalid(place.path(), &name.into(), why)));
}

/// Checks the name of a resource that a quota limits.
pub fn quota_name(place: &Place<'_>, name: &str, causes: &mut Vec<Cause>) {
    self::name(place, name, causes);
    let is_limited = STANDARD.contains(&name) || is_huge(name);
    if !name.contains('/') && !is_limited {
        causes.push(Cause::invalid(
            place.path(),
            &name.into(),
            "must be a standard resource for quota",
        ));
    }
}

fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge(name)
}

fn is_huge(name: &str) -> bool {
    name.starts_with(HUGE_PAGES) || name.starts_with("requests.hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Reports whether it is an extended resource: `vendor.example/name`.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

/// Whether a quota may mention it: a standard resource.
pub fn is_quota_resource(name: &str) -> bool {
    is_standard(name)
}

fn parse_quantity(value: &Value) -> Option<Quantity> {
    value.as_str().and_then(Quantity::parse)
}

/// The quantity as Kubernetes writes it.
pub fn format_quantity(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    canonical(text).unwrap_or_else(|| text.to_owned())
}

/// Checks the claims of devices that a container uses.
fn claims(place: &Place<'_>, causes: &mut Vec<Cause>) {
    let spec = place.nearest("spec");
    let claims = crate::object::items(spec, "/resourceClaims").iter();
    let names = claims
        .map(|claim| text_or_empty(claim, "/name"))
        .filter(|name| !name.is_empty());
    let known: HashSet<_> = names.clone().collect();
    let list = place.child("claims", "claims");
    let mut taken: HashMap<_, HashSet<_>> = HashMap::new();
    for (index, claim) in list.list().iter().enumerate() {
        let claim = list.item(index, claim);
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            causes.push(Cause::required(claim.path(), ""));
            continue;
        }
        let others = taken.entry(name).or_default();
        // no request stands for all
        if others.contains(request)
            || others.contains("")
            || request.is_empty() && !others.is_empty()
        {
            causes.push(Cause::duplicate(claim.path(), name));
        }
        others.insert(request);
        if !known.contains(name) {
            let list = if known.is_empty() {
                " which is empty".to_owned()
            } else {
                format_names(names.clone())
            };
            let mut cause = Cause::not_found(claim.path(), name);
            cause.message.push_str(&format!(
                ": must be one of the names in pod.spec.resourceClaims{list}"
            ));
            causes.push(cause);
        }
    }
}

/// Lists the names of claims for a message, as many as fit.
fn format_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MAX_NAMES: usize = 100;
    let mut names = names.fuse();
    let shown: Vec<_> = names.by_ref().take(MAX_NAMES).collect();
    let more = if names.next().is_some() { ", …" } else { "" };
    format!(": {}{more}", shown.join(", "))
}

/// Checks that the amounts of the containers fit into those of the pod.
pub fn of_pod(spec: &Place<'_>, causes: &mut Vec<Cause>) {
    let resources = spec.child("resources", "resources");
    if resources.value.is_null() {
        return;
    }
    if resources.has("claims") {
        causes.push(Cause::forbidden(
            resources.field("claims"),
            "claims cannot be set for Resources at pod-level",
        ));
    }
    requirements(&resources, causes);
    let none = Map::new();
    let of = |value: &'_ Value, kind: &str| {
        value
            .pointer(&format!("/resources/{kind}"))
            .and_then(Value::as_object)
            .unwrap_or(&none)
            .clone()
    };
    let (limits, requests) = (of(spec.value, "limits"), of(spec.value, "requests"));
    let mut sums = Map::new();
    for container in spec.items("containers") {
        for (name, amount) in of(container, "requests") {
            let sum = sums
                .get(&name)
                .and_then(parse_quantity)
                .unwrap_or(Quantity::ZERO);
            let total = sum.plus(parse_quantity(&amount).unwrap_or(Quantity::ZERO));
            sums.insert(
                name,
                total
                    .written_like(amount.as_str().unwrap_or_default())
                    .into(),
            );
        }
    }
    for (name, sum) in &sums {
        let Some(of_pod) = requests.get(name) else {
            continue;
        };
        if parse_quantity(sum) > parse_quantity(of_pod) {
            let field = resources.field(&format!("requests[{name}]"));
            let why = format!(
                "must be greater than or equal to aggregate container requests of {}",
                format_quantity(sum)
            );
            causes.push(Cause::invalid(field, &format_quantity(of_pod).into(), &why));
        }
    }
    for (index, container) in spec.items("containers").iter().enumerate() {
        for (name, limit) in of(container, "limits") {
            let Some(of_pod) = limits.get(&name) else {
                continue;
            };
            if parse_quantity(&limit) > parse_quantity(of_pod) {
                let field = resources.field(&format!("containers[{index}][{name}].limits"));
                let why = format!(
                    "must be less than or equal to pod limits of {}",
                    format_quantity(of_pod)
                );
                causes.push(Cause::invalid(field, &format_quantity(&limit).into(), &why));
            }
        }
    }
}
