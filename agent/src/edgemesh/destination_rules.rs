//! Istio's DestinationRules as EdgeMesh reads them: a rule with the name of a Service says how the Service's endpoints are chosen. Pure.

use kube::{
    ResourceExt,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::Value;

use super::snapshot::Snapshot;
use crate::config::Strategy;

/// Returns the kind of DestinationRules.
pub(super) fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "networking.istio.io",
        "v1alpha3",
        "DestinationRule",
    ))
}

/// Applies the rules to their Services, and records with a Service what of its rule is not supported.
pub(super) fn apply<'a>(
    snapshot: &mut Snapshot,
    rules: impl IntoIterator<Item = &'a DynamicObject>,
) {
    for rule in rules {
        let name = (rule.namespace().unwrap_or_default(), rule.name_any());
        let Some(service) = snapshot.services.get_mut(&name) else {
            continue;
        };
        match read(&rule.data) {
            Ok(Some(strategy)) => service.balancing = strategy,
            Ok(None) => {}
            Err(what) => service.unserved.push(format!(
                "has a DestinationRule with {what}, which this node does not support"
            )),
        }
    }
}

/// Returns the strategy that a rule sets, if any.
///
/// # Errors
/// The rule sets something that is not supported, which the error names.
fn read(rule: &Value) -> Result<Option<Strategy>, String> {
    let Some(balancer) = rule.pointer("/spec/trafficPolicy/loadBalancer") else {
        return Ok(None);
    };
    if let Some(hash) = balancer.get("consistentHash") {
        return match hash.get("useSourceIp").and_then(Value::as_bool) {
            Some(true) => Ok(Some(Strategy::ConsistentHash)),
            _ => Err("consistentHash by something else than useSourceIp".to_owned()),
        };
    }
    match balancer.get("simple").and_then(Value::as_str) {
        None => Ok(None),
        Some("RANDOM") => Ok(Some(Strategy::Random)),
        Some("ROUND_ROBIN") => Ok(Some(Strategy::RoundRobin)),
        Some(_) => Err("a loadBalancer.simple other than RANDOM and ROUND_ROBIN".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::edgemesh::snapshot::Service;

    #[test]
    fn a_rule_says_how_the_endpoints_of_its_service_are_chosen() {
        let ask = |name: &str, balancer: Value| {
            let mut rule = DynamicObject::new(name, &kind()).within("shop");
            rule.data =
                json!({"spec": {"host": "elsewhere", "trafficPolicy": {"loadBalancer": balancer}}});
            let mut snapshot = Snapshot::default();
            snapshot
                .services
                .insert(("shop".into(), "web".into()), Service::default());
            apply(&mut snapshot, [&rule]);
            let service = snapshot.services.into_values().next().unwrap();
            (service.balancing, service.unserved.len())
        };
        for (balancer, expected) in [
            (json!({"simple": "ROUND_ROBIN"}), (Strategy::RoundRobin, 0)),
            (json!({"simple": "RANDOM"}), (Strategy::Random, 0)),
            (
                json!({"consistentHash": {"useSourceIp": true}}),
                (Strategy::ConsistentHash, 0),
            ),
            (json!({}), (Strategy::Random, 0)),
            (json!({"simple": "LEAST_REQUEST"}), (Strategy::Random, 1)),
            (
                json!({"consistentHash": {"httpHeaderName": "user"}}),
                (Strategy::Random, 1),
            ),
        ] {
            assert_eq!(ask("web", balancer.clone()), expected, "{balancer}");
        }
        assert_eq!(
            ask("other", json!({"simple": "ROUND_ROBIN"})),
            (Strategy::Random, 0),
            "another Service's"
        );
    }
}
