//! Computes the resource usage of an object, and which quotas match it. Pure.
//!
//! Source: `pkg/quota/v1/evaluator/core` of Kubernetes.

use std::collections::BTreeMap;

use serde_json::Value;

use kubeapi::{
    object::{items, quantity::Quantity, text_or_empty},
    registry::{Builtin, Kind},
};

/// Amounts by the resource names of quotas.
pub(super) type Usage = BTreeMap<String, Quantity>;

/// Returns the usage of `object` by each resource name that a quota can limit.
pub(super) fn of(kind: &Kind, object: &Value) -> Usage {
    let mut usage = Usage::new();
    let group = if kind.group.is_empty() {
        String::new()
    } else {
        format!(".{}", kind.group)
    };
    usage.insert(format!("count/{}{group}", kind.plural), Quantity::ONE);
    match kind.builtin {
        Some(Builtin::Pod) => pod(object, &mut usage),
        Some(Builtin::Service) => service(object, &mut usage),
        Some(Builtin::PersistentVolumeClaim) => claim(object, &mut usage),
        Some(
            Builtin::ConfigMap
            | Builtin::Secret
            | Builtin::ReplicationController
            | Builtin::ResourceQuota,
        ) => drop(usage.insert(kind.plural.clone(), Quantity::ONE)),
        _ => {}
    }
    usage
}

/// Returns the usage of a pod; one that has ended only counts as an object.
fn pod(pod: &Value, usage: &mut Usage) {
    if matches!(text_or_empty(pod, "/status/phase"), "Succeeded" | "Failed") {
        return;
    }
    usage.insert("pods".into(), Quantity::ONE);
    for half in ["requests", "limits"] {
        for (name, amount) in of_containers(pod, half) {
            if half == "requests" && matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
            {
                usage.insert(name.clone(), amount);
            }
            usage.insert(format!("{half}.{name}"), amount);
        }
    }
}

/// Returns the sum of the containers or the largest init container, whichever is greater, plus the pod's overhead.
fn of_containers(pod: &Value, field: &str) -> Usage {
    let of = |container: &Value| amounts(container, &format!("/resources/{field}"));
    let mut sum = Usage::new();
    for container in items(pod, "/spec/containers") {
        add(&mut sum, &of(container));
    }
    for container in items(pod, "/spec/initContainers") {
        for (name, amount) in of(container) {
            let most = sum.entry(name).or_insert(amount);
            *most = amount.max(*most);
        }
    }
    let overhead = amounts(pod, "/spec/overhead");
    for (name, amount) in overhead {
        if let Some(total) = sum.get_mut(&name) {
            *total = total.plus(amount);
        }
    }
    sum
}

fn service(service: &Value, usage: &mut Usage) {
    usage.insert("services".into(), Quantity::ONE);
    let type_ = text_or_empty(service, "/spec/type");
    let balances = type_ == "LoadBalancer";
    let has_ports = type_ == "NodePort"
        || balances
            && service.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
    if has_ports {
        let ports = items(service, "/spec/ports").iter();
        let count = ports.fold(Quantity::ZERO, |sum, _| sum.plus(Quantity::ONE));
        usage.insert("services.nodeports".into(), count);
    }
    if balances {
        usage.insert("services.loadbalancers".into(), Quantity::ONE);
    }
}

fn claim(claim: &Value, usage: &mut Usage) {
    let class = text_or_empty(claim, "/spec/storageClassName");
    let of_class = (!class.is_empty()).then(|| format!("{class}.storageclass.storage.k8s.io/"));
    for prefix in std::iter::once(String::new()).chain(of_class) {
        usage.insert(format!("{prefix}persistentvolumeclaims"), Quantity::ONE);
        if let Some(amount) = amounts(claim, "/spec/resources/requests").get("storage") {
            usage.insert(format!("{prefix}requests.storage"), *amount);
        }
    }
}

/// Reports whether a quota's scopes match an object; scopes select pods only.
pub(super) fn concerns(quota: &Value, kind: &Kind, object: &Value) -> bool {
    let is_of_pods = kind.is(Builtin::Pod);
    let mut scopes = items(quota, "/spec/scopes")
        .iter()
        .filter_map(Value::as_str);
    scopes.all(|scope| is_of_pods && has_scope(object, scope, "Exists", &[]))
        && expressions(quota).all(|(scope, operator, values)| {
            is_of_pods && has_scope(object, scope, operator, values)
        })
}

fn expressions(quota: &Value) -> impl Iterator<Item = (&str, &str, &[Value])> {
    items(quota, "/spec/scopeSelector/matchExpressions")
        .iter()
        .map(|expression| {
            let operator = text_or_empty(expression, "/operator");
            (
                text_or_empty(expression, "/scopeName"),
                operator,
                items(expression, "/values"),
            )
        })
}

fn has_scope(pod: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    let has_deadline = pod
        .pointer("/spec/activeDeadlineSeconds")
        .is_some_and(Value::is_number);
    let is_best_effort =
        of_containers(pod, "requests").is_empty() && of_containers(pod, "limits").is_empty();
    match scope {
        "Terminating" => has_deadline,
        "NotTerminating" => !has_deadline,
        "BestEffort" => is_best_effort,
        "NotBestEffort" => !is_best_effort,
        "PriorityClass" => {
            let class = text_or_empty(pod, "/spec/priorityClassName");
            let is_named = values.iter().any(|value| value.as_str() == Some(class));
            match operator {
                "In" => is_named,
                "NotIn" => !is_named,
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => false,
    }
}

/// Returns the names of the containers that do not set the request or limit `name`.
pub(super) fn containers_without(pod: &Value, name: &str) -> Vec<String> {
    let (field, resource) = match name.split_once('.') {
        Some((field @ ("requests" | "limits"), resource)) => (field, resource),
        None if matches!(name, "cpu" | "memory") => ("requests", name),
        _ => return Vec::new(),
    };
    if !matches!(resource, "cpu" | "memory") {
        return Vec::new();
    }
    let containers = items(pod, "/spec/initContainers")
        .iter()
        .chain(items(pod, "/spec/containers"));
    let silent = containers.filter(|container| {
        !amounts(container, &format!("/resources/{field}")).contains_key(resource)
    });
    silent
        .map(|container| text_or_empty(container, "/name").to_owned())
        .collect()
}

/// Returns the usage of `new` beyond that of `old`.
pub(super) fn more(old: &Usage, new: &Usage) -> Usage {
    let beyond = |(name, amount): (&String, &Quantity)| {
        let more = amount.minus(old.get(name).copied().unwrap_or(Quantity::ZERO));
        more.is_positive().then(|| (name.clone(), more))
    };
    new.iter().filter_map(beyond).collect()
}

/// Adds `more` to `sum`.
pub(super) fn add(sum: &mut Usage, more: &Usage) {
    for (name, amount) in more {
        let total = sum.entry(name.clone()).or_insert(Quantity::ZERO);
        *total = total.plus(*amount);
    }
}

/// Returns the amounts at `pointer`.
pub(super) fn amounts(object: &Value, pointer: &str) -> Usage {
    let map = object
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    map.filter_map(|(name, amount)| {
        let text = amount
            .as_str()
            .map_or_else(|| amount.to_string(), str::to_owned);
        Some((name.clone(), Quantity::parse(&text)?))
    })
    .collect()
}
