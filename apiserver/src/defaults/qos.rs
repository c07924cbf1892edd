//! The QoS class of a pod.

use std::collections::BTreeMap;

use serde_json::Value;

use kubeapi::object::{items, quantity::Quantity};

const QOS_RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Returns `Guaranteed`, `Burstable` or `BestEffort`.
pub(crate) fn class(pod: &Value) -> &'static str {
    let containers = || {
        items(pod, "/spec/containers")
            .iter()
            .chain(items(pod, "/spec/initContainers"))
    };
    let mut any = false;
    let mut guaranteed = true;
    for container in containers() {
        let (requests, limits) = (amounts(container, "requests"), amounts(container, "limits"));
        any |= !requests.is_empty() || !limits.is_empty();
        // a request that is not said is the limit
        let as_limited = |(name, limit)| {
            requests
                .get(name)
                .is_none_or(|request: &Quantity| request == limit)
        };
        guaranteed &= limits.len() == QOS_RESOURCES.len() && limits.iter().all(as_limited);
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn amounts<'a>(container: &'a Value, field: &str) -> BTreeMap<&'a str, Quantity> {
    let amounts = container
        .pointer(&format!("/resources/{field}"))
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    amounts
        .filter(|(name, _)| QOS_RESOURCES.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name.as_str(), Quantity::parse(value.as_str()?)?)))
        .filter(|(_, amount)| amount.is_positive())
        .collect()
}
