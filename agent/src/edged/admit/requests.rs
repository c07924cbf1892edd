//! What pods ask for that is missing on the node.

use k8s_openapi::api::core::v1::{Container, Pod};
pub(crate) use kubeapi::resources::{Amounts, amounts, limits_of, requests_of};
use kubeapi::{quantity, resources::add};

use super::PredicateFailure;
use crate::edged::specs;

/// How much of this the pod may use as a whole. What one container may use without limit, the pod may.
pub(crate) fn limit_of(pod: &Pod, name: &str) -> Option<i64> {
    let limited = |container: &Container| {
        let limit = container.resources.as_ref().and_then(|all| all.limits.as_ref()?.get(name));
        limit.and_then(quantity::milli).is_some_and(|limit| limit > 0)
    };
    let mut containers = specs::containers_of(pod);
    limits_of(pod).get(name).copied().filter(|_| containers.all(limited))
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
