//! What the spec of a service says of its address and ports.

use serde_json::{Map, Value};

use kubeapi::object::text_or_empty;

/// Whether the service has an address: all but those that are another name.
pub(super) fn has_address(spec: &Map<String, Value>) -> bool {
    spec.get("type").and_then(Value::as_str) != Some("ExternalName")
}

/// Whether it has ports on the nodes.
pub(super) fn has_node_ports(spec: &Map<String, Value>) -> bool {
    match spec.get("type").and_then(Value::as_str) {
        Some("NodePort") => true,
        Some("LoadBalancer") => {
            spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false))
        }
        _ => false,
    }
}

pub(super) fn address_of(service: &Value) -> &str {
    text_or_empty(service, "/spec/clusterIP")
}
