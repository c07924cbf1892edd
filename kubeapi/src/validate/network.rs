//! Checks services and their endpoints.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    addresses,
    faults::{faults, in_range, required, supported},
    metadata,
};
use crate::{
    cause::Cause,
    names,
    object::{items, text_or_empty},
};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const LAST_PORT: i64 = 65_535;
/// The most endpoints of an `EndpointSlice`.
const MAX_ENDPOINTS: u64 = 1000;
/// The most addresses of one endpoint.
const MAX_ADDRESSES: u64 = 100;
/// The most ports of an `EndpointSlice`.
const MAX_PORTS: u64 = 20_000;

pub(super) fn service(object: &Value) -> Vec<Cause> {
    let Some(spec) = object.get("spec").filter(|spec| spec.is_object()) else {
        return vec![Cause::required("spec.ports", "")];
    };
    let mut causes = Vec::new();
    let type_ = text_or_empty(spec, "/type");
    let ports = items(spec, "/ports");
    let headless = text_or_empty(spec, "/clusterIP") == "None";
    if ports.is_empty() && !headless && type_ != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    if type_ == "ExternalName" {
        match text_or_empty(spec, "/externalName").trim_end_matches('.') {
            "" => causes.push(Cause::required("spec.externalName", "")),
            name => causes.extend(faults("spec.externalName", name, names::dns_subdomain(name))),
        }
    }
    causes.extend(service_ports(ports));
    if type_ == "ClusterIP" {
        let asking = ports
            .iter()
            .enumerate()
            .filter(|(_, port)| port.get("nodePort").and_then(Value::as_i64).unwrap_or_default() != 0);
        let why = "may not be used when `type` is 'ClusterIP'";
        causes
            .extend(asking.map(|(index, _)| Cause::forbidden(format!("spec.ports[{index}].nodePort"), why)));
    }
    causes.extend(metadata::labels(spec.get("selector"), "spec.selector"));
    causes.extend(supported(spec, "spec", "sessionAffinity", &["ClientIP", "None"]));
    causes.extend(supported(
        spec,
        "spec",
        "type",
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    ));
    if !matches!(text_or_empty(spec, "/clusterIP"), "" | "None") {
        causes.extend(address("spec.clusterIP", text_or_empty(spec, "/clusterIP")));
    }
    causes
}

fn service_ports(ports: &[Value]) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (mut taken, mut identities) = (HashSet::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        match text_or_empty(port, "/name") {
            "" => causes.extend((ports.len() > 1).then(|| Cause::required(format!("{path}.name"), ""))),
            name => {
                causes.extend(faults(&format!("{path}.name"), name, names::dns_label(name)));
                if !taken.insert(name) {
                    causes.push(Cause::duplicate(format!("{path}.name"), name));
                }
            }
        }
        let number = port.get("port");
        causes.extend(in_range(
            format!("{path}.port"),
            Some(number.unwrap_or(&Value::from(0))),
            1,
            LAST_PORT,
        ));
        causes.extend(supported(port, &path, "protocol", PROTOCOLS));
        causes.extend(target_port(&path, port.get("targetPort")));
        if !identities.insert((number.map(ToString::to_string), text_or_empty(port, "/protocol"))) {
            let number = number.map(ToString::to_string).unwrap_or_default();
            causes.push(Cause::duplicate(path, &format!("{}/{number}", text_or_empty(port, "/protocol"))));
        }
    }
    causes
}

fn target_port(path: &str, target: Option<&Value>) -> Vec<Cause> {
    let field = format!("{path}.targetPort");
    match target {
        Some(Value::String(name)) => faults(&field, name, names::port_name(name)).collect(),
        target => in_range(field, target, 1, LAST_PORT).into_iter().collect(),
    }
}

pub(super) fn update_service(old: &Value, new: &Value) -> Option<Cause> {
    let address = |object| text_or_empty(object, "/spec/clusterIP").to_owned();
    let named = text_or_empty(new, "/spec/type") == "ExternalName"
        || text_or_empty(old, "/spec/type") == "ExternalName";
    let (before, after) = (address(old), address(new));
    let changed = !named && !before.is_empty() && before != after;
    changed.then(|| Cause::invalid_texts("spec.clusterIPs[0]", &[&after], "may not change once set"))
}

pub(super) fn endpoints(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, subset) in items(object, "/subsets").iter().enumerate() {
        let path = format!("subsets[{index}]");
        let (ready, not_ready) = (items(subset, "/addresses"), items(subset, "/notReadyAddresses"));
        if ready.is_empty() && not_ready.is_empty() {
            causes.push(Cause::required(path.as_str(), "must specify `addresses` or `notReadyAddresses`"));
        }
        let ports = items(subset, "/ports");
        for (index, port) in ports.iter().enumerate() {
            let path = format!("{path}.ports[{index}]");
            if ports.len() > 1 {
                causes.extend(required(port, &path, "name"));
            }
            let number = port.get("port").cloned().unwrap_or_else(|| 0.into());
            causes.extend(in_range(format!("{path}.port"), Some(&number), 1, LAST_PORT));
            causes.extend(supported(port, &path, "protocol", PROTOCOLS));
        }
    }
    causes
}

pub(super) fn slice(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::from_iter(supported(object, "", "addressType", &["FQDN", "IPv4", "IPv6"]));
    let endpoints = items(object, "/endpoints");
    if endpoints.len() as u64 > MAX_ENDPOINTS {
        causes.push(Cause::too_many("endpoints", endpoints.len() as u64, MAX_ENDPOINTS));
        return causes;
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let field = format!("endpoints[{index}].addresses");
        match items(endpoint, "/addresses").len() as u64 {
            0 => causes.push(Cause::required(field, "must contain at least 1 address")),
            count if count > MAX_ADDRESSES => causes.push(Cause::too_many(field, count, MAX_ADDRESSES)),
            _ => {}
        }
    }
    let ports = items(object, "/ports");
    if ports.len() as u64 > MAX_PORTS {
        causes.push(Cause::too_many("ports", ports.len() as u64, MAX_PORTS));
        return causes;
    }
    for (index, port) in ports.iter().enumerate() {
        causes.extend(in_range(format!("ports[{index}].port"), port.get("port"), 1, LAST_PORT));
        causes.extend(supported(port, &format!("ports[{index}]"), "protocol", PROTOCOLS));
    }
    causes
}

pub(super) fn update_slice(old: &Value, new: &Value) -> Option<Cause> {
    let changed = old.get("addressType") != new.get("addressType");
    let value = new.get("addressType").cloned().unwrap_or_default();
    changed.then(|| Cause::invalid("addressType", &value, "field is immutable"))
}

fn address(field: &str, text: &str) -> Option<Cause> {
    addresses::parse(text).err().map(|why| Cause::invalid(field, &text.into(), why))
}
