//! What pods ask for, and what is missing of it. CPU counts in thousandths, all else in whole units.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, Pod, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};

use super::PredicateFailure;
use crate::edged::{quantity, specs};

/// Amounts by resource.
pub type Amounts = BTreeMap<String, i64>;

/// Quantities as amounts; what is no quantity is none.
pub fn amounts(quantities: &BTreeMap<String, Quantity>) -> Amounts {
    let amount = |name: &str, quantity: &Quantity| {
        if name == "cpu" { quantity::milli(quantity) } else { quantity::whole(quantity) }
    };
    let all = quantities.iter().filter_map(|(name, quantity)| Some((name.clone(), amount(name, quantity)?)));
    all.collect()
}

/// What the pod asks for.
pub fn requests_of(pod: &Pod) -> Amounts {
    of_pod(pod, |resources| resources.requests.as_ref())
}

/// What the pod may use, of those resources that any of its containers has a limit of.
pub(crate) fn limits_of(pod: &Pod) -> Amounts {
    of_pod(pod, |resources| resources.limits.as_ref())
}

/// How much of this the pod may use as a whole. What one container may use without limit, the pod may.
pub(crate) fn limit_of(pod: &Pod, name: &str) -> Option<i64> {
    let limited = |container: &Container| {
        let limit = container.resources.as_ref().and_then(|all| all.limits.as_ref()?.get(name));
        limit.and_then(quantity::milli).is_some_and(|limit| limit > 0)
    };
    let mut containers = specs::containers_of(pod);
    limits_of(pod).get(name).copied().filter(|_| containers.all(limited))
}

/// What all containers come to that run side by side, or one init container where that has more.
///
/// Source: Kubernetes, "Resource sharing within containers" (init containers and sidecars).
fn of_pod(pod: &Pod, of: fn(&ResourceRequirements) -> Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let own =
        |container: &Container| container.resources.as_ref().and_then(of).map(amounts).unwrap_or_default();
    let mut total = Amounts::new();
    spec.containers.iter().for_each(|container| add(&mut total, &own(container)));
    let (mut sidecars, mut highest) = (Amounts::new(), Amounts::new());
    for init in spec.init_containers.iter().flatten() {
        let mut at_once = own(init);
        if specs::is_sidecar(init) {
            add(&mut total, &at_once);
            add(&mut sidecars, &at_once);
            at_once.clone_from(&sidecars);
        } else {
            add(&mut at_once, &sidecars);
        }
        raise(&mut highest, &at_once);
    }
    raise(&mut total, &highest);
    add(&mut total, &spec.overhead.as_ref().map(amounts).unwrap_or_default());
    total
}

fn add(into: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = into.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(into: &mut Amounts, to: &Amounts) {
    for (name, amount) in to {
        let highest = into.entry(name.clone()).or_default();
        *highest = (*highest).max(*amount);
    }
}

/// What the pod asks for and the node has not, the number of pods first.
pub(super) fn short(pod: &Pod, others: &[&Pod], allocatable: &Amounts) -> Vec<PredicateFailure> {
    let mut short = Vec::new();
    let count = i64::try_from(others.len()).unwrap_or(i64::MAX);
    let most = allocatable.get("pods").copied().unwrap_or(i64::MAX);
    if count.saturating_add(1) > most {
        short.push(PredicateFailure::InsufficientResource {
            name: "pods".into(),
            requested: 1,
            used: count,
            capacity: most,
        });
    }
    let mut used = Amounts::new();
    others.iter().for_each(|other| add(&mut used, &requests_of(other)));
    let wanted = requests_of(pod);
    let native = ["cpu", "memory", "ephemeral-storage"];
    let first = native.iter().filter_map(|name| wanted.get_key_value(*name));
    let rest = wanted.iter().filter(|(name, _)| !native.contains(&name.as_str()));
    for (name, requested) in first.chain(rest).filter(|(_, requested)| **requested > 0) {
        let capacity = match allocatable.get(name) {
            Some(capacity) => *capacity,
            // a resource of the cluster, of which a node knows nothing
            None if name.contains('/') => continue,
            None => 0,
        };
        let used = used.get(name).copied().unwrap_or(0);
        if *requested > capacity.saturating_sub(used) {
            short.push(PredicateFailure::InsufficientResource {
                name: name.clone(),
                requested: *requested,
                used,
                capacity,
            });
        }
    }
    short
}
