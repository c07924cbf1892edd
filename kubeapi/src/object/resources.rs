//! What pods ask for and may use, as kubelet, scheduler and quotas count it. CPU counts in thousandths, all else in whole units.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, Pod, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};

use crate::object::quantity;

/// Amounts by resource.
pub type Amounts = BTreeMap<String, i64>;

/// Quantities as amounts, without invalid ones.
pub fn amounts(quantities: &BTreeMap<String, Quantity>) -> Amounts {
    let amount = |name: &str, quantity: &Quantity| {
        if name == "cpu" {
            quantity::milli(quantity)
        } else {
            quantity::whole(quantity)
        }
    };
    let all = quantities
        .iter()
        .filter_map(|(name, quantity)| Some((name.clone(), amount(name, quantity)?)));
    all.collect()
}

/// The requests of the pod.
pub fn requests_of(pod: &Pod) -> Amounts {
    of_pod(pod, |resources| resources.requests.as_ref())
}

/// The limits of the pod, for each resource that any of its containers limits.
pub fn limits_of(pod: &Pod) -> Amounts {
    of_pod(pod, |resources| resources.limits.as_ref())
}

/// What all containers come to that run side by side, or one init container where that has more.
///
/// Source: Kubernetes, "Resource sharing within containers" (init containers and sidecars).
fn of_pod(
    pod: &Pod,
    of: fn(&ResourceRequirements) -> Option<&BTreeMap<String, Quantity>>,
) -> Amounts {
    let Some(spec) = &pod.spec else {
        return Amounts::new();
    };
    let own = |container: &Container| {
        container
            .resources
            .as_ref()
            .and_then(of)
            .map(amounts)
            .unwrap_or_default()
    };
    let mut total = Amounts::new();
    spec.containers
        .iter()
        .for_each(|container| add(&mut total, &own(container)));
    let (mut sidecars, mut highest) = (Amounts::new(), Amounts::new());
    for init in spec.init_containers.iter().flatten() {
        let mut at_once = own(init);
        if is_sidecar(init) {
            add(&mut total, &at_once);
            add(&mut sidecars, &at_once);
            at_once.clone_from(&sidecars);
        } else {
            add(&mut at_once, &sidecars);
        }
        raise(&mut highest, &at_once);
    }
    raise(&mut total, &highest);
    add(
        &mut total,
        &spec.overhead.as_ref().map(amounts).unwrap_or_default(),
    );
    total
}

/// Adds `more`, as much as there can be at most.
pub fn add(into: &mut Amounts, more: &Amounts) {
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

/// Whether an init container runs on beside the others.
///
/// Source: <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/>.
pub fn is_sidecar(init: &Container) -> bool {
    init.restart_policy.as_deref() == Some("Always")
}
