//! Defaults of services, endpoints and network policies.

use serde_json::{Map, Value, json};

use kubeapi::defaults::fields::{default_text, maps, text_at};
use kubeapi::object::default_to;

pub(super) fn service(spec: &mut Map<String, Value>) {
    default_text(spec, "sessionAffinity", "None");
    default_text(spec, "type", "ClusterIP");
    match text_at(spec, "sessionAffinity") {
        // a client that only changes the affinity need not remove it
        "None" => {
            spec.shift_remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let config = spec.get("sessionAffinityConfig");
            let timeout = config.and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
            if timeout.is_none_or(Value::is_null) {
                let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
                spec.insert("sessionAffinityConfig".into(), config);
            }
        }
        _ => {}
    }
    for port in maps(spec, "ports") {
        default_text(port, "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            let unset = port
                .get("targetPort")
                .is_some_and(|target| target == 0 || target == "");
            if unset {
                port.shift_remove("targetPort");
            }
            default_to(port, "targetPort", number);
        }
    }
    let type_ = text_at(spec, "type").to_owned();
    if matches!(type_.as_str(), "NodePort" | "LoadBalancer") {
        default_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if type_ == "LoadBalancer" {
        default_to(spec, "allocateLoadBalancerNodePorts", true);
    }
    if type_ != "ExternalName" {
        default_text(spec, "internalTrafficPolicy", "Cluster");
    }
    // the same under its newer name, and the other way round
    if text_at(spec, "clusterIP").is_empty()
        && let Some(first) = spec.get("clusterIPs").and_then(|all| all.get(0)).cloned()
    {
        spec.insert("clusterIP".into(), first);
    }
    let address = text_at(spec, "clusterIP").to_owned();
    if !address.is_empty() {
        default_to(spec, "clusterIPs", json!([address]));
    }
}

pub(super) fn endpoints(endpoints: &mut Map<String, Value>) {
    for subset in maps(endpoints, "subsets") {
        maps(subset, "ports").for_each(|port| default_text(port, "protocol", "TCP"));
    }
}

pub(super) fn slice(slice: &mut Map<String, Value>) {
    for port in maps(slice, "ports") {
        default_to(port, "name", "");
        default_text(port, "protocol", "TCP");
    }
}

pub(super) fn policy(policy: &mut Map<String, Value>) {
    let egress = policy
        .get("egress")
        .and_then(Value::as_array)
        .is_some_and(|rules| !rules.is_empty());
    let types = if egress {
        json!(["Ingress", "Egress"])
    } else {
        json!(["Ingress"])
    };
    default_to(policy, "podSelector", json!({}));
    default_to(policy, "policyTypes", types);
    for direction in ["ingress", "egress"] {
        for rule in maps(policy, direction) {
            maps(rule, "ports").for_each(|port| default_text(port, "protocol", "TCP"));
        }
    }
}
