//! Compares what pods request with what the node has.

use k8s_openapi::api::core::v1::{Container, Pod};
pub(crate) use kubeapi::object::resources::{Amounts, amounts, limits_of, requests_of};
use kubeapi::{
    object::{quantity, resources::add},
    validate::tables::resources::is_extended,
};

use super::PredicateFailure;
use crate::specs;

/// Returns how much of a resource the pod may use as a whole, or `None` if one of its containers has no limit.
pub(crate) fn limit_of(pod: &Pod, name: &str) -> Option<i64> {
    let limited = |container: &Container| {
        let limit = container
            .resources
            .as_ref()
            .and_then(|all| all.limits.as_ref()?.get(name));
        limit
            .and_then(quantity::milli)
            .is_some_and(|limit| limit > 0)
    };
    let mut containers = specs::containers_of(pod);
    limits_of(pod)
        .get(name)
        .copied()
        .filter(|_| containers.all(limited))
}

/// Returns the resources that the pod requests and the node lacks, the number of pods first.
pub(super) fn insufficient_resources(
    pod: &Pod,
    others: &[&Pod],
    allocatable: &Amounts,
) -> Vec<PredicateFailure> {
    let mut insufficient = Vec::new();
    let count = i64::try_from(others.len()).unwrap_or(i64::MAX);
    let most = allocatable.get("pods").copied().unwrap_or(i64::MAX);
    if count.saturating_add(1) > most {
        insufficient.push(PredicateFailure::InsufficientResource {
            name: "pods".into(),
            requested: 1,
            used: count,
            capacity: most,
        });
    }
    let mut used = Amounts::new();
    others
        .iter()
        .for_each(|other| add(&mut used, &requests_of(other)));
    let wanted = requests_of(pod);
    let native_names = ["cpu", "memory", "ephemeral-storage"];
    let first = native_names
        .iter()
        .filter_map(|name| wanted.get_key_value(*name));
    let rest = wanted
        .iter()
        .filter(|(name, _)| !native_names.contains(&name.as_str()));
    for (name, requested) in first.chain(rest).filter(|(_, requested)| **requested > 0) {
        let capacity = match allocatable.get(name) {
            Some(capacity) => *capacity,
            // As for the kubelet: it may be the cluster's, or somebody has just added it to the Node. The scheduler has counted it.
            None if is_extended(name) => continue,
            None => 0,
        };
        let used = used.get(name).copied().unwrap_or(0);
        if *requested > capacity.saturating_sub(used) {
            insufficient.push(PredicateFailure::InsufficientResource {
                name: name.clone(),
                requested: *requested,
                used,
                capacity,
            });
        }
    }
    insufficient
}
