//! The fields of a service around its address and ports. Pure.
//!
//! Source: `pkg/registry/core/service` of Kubernetes, as far as a cluster with IPv4 alone goes.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::Ipv4Addr,
};

use serde_json::{Map, Value, json};

use super::{
    ranges::Claim,
    spec::{address_of, has_address, has_node_ports},
};
use kubeapi::{
    cause::Cause,
    object::{as_map, child, default_to, items, text_or_empty},
};

type Spec = Map<String, Value>;

fn text<'a>(spec: &'a Spec, key: &str) -> &'a str {
    spec.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// What of the service is its own.
pub(super) fn held_claims(service: &Value) -> BTreeSet<Claim> {
    let Some(spec) = service.get("spec").and_then(Value::as_object) else {
        return BTreeSet::new();
    };
    let mut held = BTreeSet::new();
    if has_address(spec) {
        held.extend(address_of(service).parse::<Ipv4Addr>().map(Claim::Address));
    }
    if has_node_ports(spec) {
        let ports = items(service, "/spec/ports").iter();
        held.extend(
            ports
                .filter_map(|port| u16::try_from(node_port(port)).ok())
                .filter(|port| *port > 0)
                .map(Claim::Port),
        );
    }
    held
}

/// The number of a port on the nodes; 0 for none.
pub(super) fn node_port(port: &Value) -> i64 {
    port.get("nodePort")
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// Sets which families of addresses the service has.
pub(super) fn families(spec: &mut Spec) -> Vec<Cause> {
    if !has_address(spec) {
        return Vec::new();
    }
    let selects = spec
        .get("selector")
        .and_then(Value::as_object)
        .is_some_and(|selector| !selector.is_empty());
    if text(spec, "clusterIP") == "None" && !selects {
        // whoever makes its endpoints may have both, whatever the cluster has
        default_to(spec, "ipFamilyPolicy", "RequireDualStack");
        let both = text(spec, "ipFamilyPolicy") != "SingleStack";
        default_to(
            spec,
            "ipFamilies",
            if both {
                json!(["IPv4", "IPv6"])
            } else {
                json!(["IPv4"])
            },
        );
    } else {
        default_to(spec, "ipFamilyPolicy", "SingleStack");
        default_to(spec, "ipFamilies", json!(["IPv4"]));
        if text(spec, "ipFamilyPolicy") == "RequireDualStack" {
            let why = "this cluster is not configured for dual-stack services";
            return vec![Cause::invalid(
                "spec.ipFamilyPolicy",
                &"RequireDualStack".into(),
                why,
            )];
        }
        let families = spec
            .get("ipFamilies")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let foreign = families.enumerate().filter(|(_, family)| *family != "IPv4");
        let refuse = |(index, family): (usize, &Value)| {
            Cause::invalid(
                format!("spec.ipFamilies[{index}]"),
                family,
                "not configured on this cluster",
            )
        };
        return foreign.map(refuse).collect();
    }
    Vec::new()
}

/// What an update leaves out and the server has given stays; what the new type has no use for goes.
pub(crate) fn carry(old: &Value, new: &mut Value) {
    let Some(before) = old.get("spec").and_then(Value::as_object) else {
        return;
    };
    let spec = child(as_map(new), "spec");
    match (has_address(before), has_address(spec)) {
        (true, true) => carry_address(before, spec),
        (true, false) => {
            for key in [
                "clusterIP",
                "clusterIPs",
                "ipFamilies",
                "ipFamilyPolicy",
                "internalTrafficPolicy",
            ] {
                drop_unchanged(before, spec, key);
            }
        }
        (false, _) => {}
    }
    match (has_node_ports(before), has_node_ports(spec)) {
        (true, true) => carry_ports(before, spec),
        (true, false) => {
            let given: HashSet<_> = ports(before).iter().map(node_port).collect();
            for port in ports_mut(spec)
                .iter_mut()
                .filter(|port| given.contains(&node_port(port)))
            {
                as_map(port).shift_remove("nodePort");
            }
            if text(spec, "type") != "LoadBalancer" {
                drop_unchanged(before, spec, "externalTrafficPolicy");
                drop_unchanged(before, spec, "allocateLoadBalancerNodePorts");
            }
        }
        (false, _) => {}
    }
}

fn drop_unchanged(before: &Spec, spec: &mut Spec, key: &str) {
    if spec.get(key) == before.get(key) {
        spec.shift_remove(key);
    }
}

fn carry_address(before: &Spec, spec: &mut Spec) {
    if text(spec, "clusterIP").is_empty() {
        let first = spec.get("clusterIPs").and_then(|all| all.get(0)).cloned();
        if let Some(address) = first.or_else(|| before.get("clusterIP").cloned()) {
            spec.insert("clusterIP".into(), address);
        }
    }
    let changed = spec.get("clusterIP") != before.get("clusterIP");
    if changed && spec.get("clusterIPs") == before.get("clusterIPs") {
        spec.shift_remove("clusterIPs");
    }
    for key in ["ipFamilies", "ipFamilyPolicy"] {
        if let Some(value) = before.get(key).cloned() {
            default_to(spec, key, value);
        }
    }
}

fn ports(spec: &Spec) -> &[Value] {
    spec.get("ports")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn ports_mut(spec: &mut Spec) -> &mut [Value] {
    spec.get_mut("ports")
        .and_then(Value::as_array_mut)
        .map_or(&mut [], Vec::as_mut_slice)
}

/// A port with the same number and protocol keeps the one that it had on the nodes.
fn carry_ports(before: &Spec, spec: &mut Spec) {
    let protocol = |port: &Value| match text_or_empty(port, "/protocol") {
        "" => "TCP".to_owned(),
        protocol => protocol.to_owned(),
    };
    let number = |port: &Value| port.get("port").and_then(Value::as_i64);
    let mut known = HashMap::new();
    for port in ports(before) {
        known
            .entry((number(port), protocol(port)))
            .or_insert_with(|| node_port(port));
    }
    let asked: HashSet<_> = ports(spec).iter().map(node_port).collect();
    for port in ports_mut(spec)
        .iter_mut()
        .filter(|port| node_port(port) == 0)
    {
        let had = known
            .get(&(number(port), protocol(port)))
            .copied()
            .unwrap_or_default();
        if had != 0 && !asked.contains(&had) {
            as_map(port).insert("nodePort".into(), had.into());
        }
    }
}
