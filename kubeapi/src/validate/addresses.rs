//! Checks the addresses of Services and of their endpoints: none may lead a node to itself, or to an address of its own link only.
//!
//! Source: Kubernetes' `IsValidIPForLegacyField`, with the feature gate `StrictIPCIDRValidation`, and `ValidateEndpointIP`. What was
//! stored before these rules may stay: a Service keeps its addresses, and Endpoints and EndpointSlices keep their whole list.

use std::{borrow::Cow, net::IpAddr};

use serde_json::Value;

use crate::{
    cause::Cause,
    names,
    object::{items, text_or_empty},
    registry::Builtin,
};

const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

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

/// Parses an address that an endpoint may have; `None` if Endpoints and EndpointSlices with it would be refused.
pub fn endpoint_address(text: &str) -> Option<IpAddr> {
    parse(text)
        .ok()
        .filter(|address| special(*address, text).is_none())
}

/// Parses an address; the error says what is wrong with its notation.
pub(super) fn parse(text: &str) -> Result<IpAddr, &'static str> {
    match text.parse() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err("must not be an IPv4-mapped IPv6 address")
        }
        Ok(address) => Ok(address),
        Err(_) if has_leading_zeros(text) => Err("must not have leading 0s"),
        Err(_) => Err(NO_ADDRESS),
    }
}

/// Reports whether this would be an IPv4 address without its leading zeros, which some programs read as octal.
fn has_leading_zeros(text: &str) -> bool {
    let number = |part: &str| {
        part.parse::<u8>()
            .ok()
            .filter(|_| part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    text.split('.')
        .map(number)
        .collect::<Option<Vec<_>>>()
        .is_some_and(|numbers| numbers.len() == 4)
}

/// Returns why this address reaches no other machine.
fn special(address: IpAddr, text: &str) -> Option<Cow<'static, str>> {
    let (is_link_local, is_link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets().starts_with(&[224, 0, 0])),
        IpAddr::V6(v6) => (
            v6.is_unicast_link_local(),
            v6.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    if address.is_unspecified() {
        Some(format!("may not be unspecified ({text})").into())
    } else if address.is_loopback() {
        Some("may not be in the loopback range (127.0.0.0/8, ::1/128)".into())
    } else if is_link_local {
        Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)".into())
    } else if is_link_local_multicast {
        Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".into())
    } else {
        None
    }
}
