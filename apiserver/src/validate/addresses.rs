//! Checks the addresses of Services and of their endpoints: none may lead a node to itself, or to an address of its own link only.
//!
//! Source: Kubernetes' `IsValidIPForLegacyField`, with the feature gate `StrictIPCIDRValidation`, and `ValidateEndpointIP`. What was
//! stored before these rules may stay: a Service keeps its addresses, and Endpoints and EndpointSlices keep their whole list.

use std::net::IpAddr;

use serde_json::Value;

use kubeapi::{
    cause::Cause,
    object::{items, names, text_or_empty},
    registry::Builtin,
    validate::addresses::{NO_ADDRESS, parse, special},
};

/// Returns the faults in the addresses of an object that replaces `old`.
pub(super) fn check(builtin: Builtin, old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let is_kept = |list: &str| old.is_some_and(|old| old.pointer(list) == new.pointer(list));
    match builtin {
        Builtin::Service => service(old, new),
        Builtin::Endpoints if !is_kept("/subsets") => endpoints(new),
        Builtin::EndpointSlice if !is_kept("/endpoints") => slice(new),
        _ => Vec::new(),
    }
}

fn service(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let has = |list: &str, item: &Value| old.is_some_and(|old| items(old, list).contains(item));
    for (index, item) in items(new, "/spec/externalIPs").iter().enumerate() {
        if !has("/spec/externalIPs", item) {
            causes.extend(endpoint(
                &format!("spec.externalIPs[{index}]"),
                item.as_str().unwrap_or_default(),
            ));
        }
    }
    let ingress = "/status/loadBalancer/ingress";
    for (index, item) in items(new, ingress)
        .iter()
        .enumerate()
        .filter(|(_, item)| !has(ingress, item))
    {
        let path = format!("status.loadBalancer.ingress[{index}]");
        let ip = text_or_empty(item, "/ip");
        if let Err(why) = parse(ip)
            && !ip.is_empty()
        {
            causes.push(Cause::invalid(format!("{path}.ip"), &ip.into(), why));
        }
        let hostname = text_or_empty(item, "/hostname");
        if parse(hostname) != Err(NO_ADDRESS) {
            let why = "must be a DNS name, not an IP address";
            causes.push(Cause::invalid(
                format!("{path}.hostname"),
                &hostname.into(),
                why,
            ));
        }
    }
    causes
}

fn endpoints(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, subset) in items(object, "/subsets").iter().enumerate() {
        for list in ["addresses", "notReadyAddresses"] {
            for (number, item) in items(subset, &format!("/{list}")).iter().enumerate() {
                let field = format!("subsets[{index}].{list}[{number}].ip");
                causes.extend(endpoint(&field, text_or_empty(item, "/ip")));
            }
        }
    }
    causes
}

fn slice(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let kind = text_or_empty(object, "/addressType");
    for (index, item) in items(object, "/endpoints").iter().enumerate() {
        for (number, address) in items(item, "/addresses").iter().enumerate() {
            let field = format!("endpoints[{index}].addresses[{number}]");
            let text = address.as_str().unwrap_or_default();
            match kind {
                "IPv4" => causes.extend(of_family(
                    &field,
                    text,
                    IpAddr::is_ipv4,
                    "must be an IPv4 address",
                )),
                "IPv6" => causes.extend(of_family(
                    &field,
                    text,
                    IpAddr::is_ipv6,
                    "must be an IPv6 address",
                )),
                "FQDN" => causes.extend(domain(&field, text)),
                _ => {}
            }
        }
    }
    causes
}

/// Returns the faults of an address that must be of one family.
fn of_family(field: &str, text: &str, is_of: fn(&IpAddr) -> bool, why: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if parse(text).is_ok_and(|address| !is_of(&address)) {
        causes.push(Cause::invalid(field, &text.into(), why));
    }
    causes.extend(endpoint(field, text));
    causes
}

/// Returns the fault of an endpoint's domain: `IsFullyQualifiedDomainName`.
fn domain(field: &str, text: &str) -> Option<Cause> {
    if text.is_empty() {
        return Some(Cause::required(field, ""));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let faults = names::dns_subdomain(name);
    if !faults.is_empty() {
        return Some(Cause::invalid(field, &name.into(), &faults.join(",")));
    }
    if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        return Some(Cause::invalid(field, &name.into(), why));
    }
    let mut labels = name
        .split('.')
        .map(|label| (label, names::dns_label(label)));
    let (label, faults) = labels.find(|(_, faults)| !faults.is_empty())?;
    Some(Cause::invalid(field, &label.into(), &faults.join(",")))
}

/// Returns the fault of an address to which nodes send a Service's traffic, or from which they accept it.
fn endpoint(field: &str, text: &str) -> Option<Cause> {
    let why = match parse(text) {
        Ok(address) => special(address, text)?,
        Err(why) => why.into(),
    };
    Some(Cause::invalid(field, &text.into(), &why))
}
