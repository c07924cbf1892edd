//! Parses addresses, and finds those that lead a node to itself, or to an address of its own link only.
//!
//! Source: Kubernetes' `IsValidIPForLegacyField`, with the feature gate `StrictIPCIDRValidation`, and `ValidateEndpointIP`.

use std::{borrow::Cow, net::IpAddr};

/// The fault of a text that is no address.
pub const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// Parses an address that an endpoint may have; `None` if Endpoints and EndpointSlices with it would be refused.
pub fn endpoint_address(text: &str) -> Option<IpAddr> {
    parse(text)
        .ok()
        .filter(|address| special(*address, text).is_none())
}

/// Parses an address; the error says what is wrong with its notation.
pub fn parse(text: &str) -> Result<IpAddr, &'static str> {
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
pub fn special(address: IpAddr, text: &str) -> Option<Cow<'static, str>> {
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
