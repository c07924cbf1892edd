//! Functions of IP addresses, CIDRs and URLs.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use super::context::Context;
use crate::{
    cel::{
        error::{EvalError, Evaluated},
        value::{MapKey, Text, Val},
    },
    go_ip,
    go_url::{self, Url},
};

/// Calls a function of addresses.
pub(super) fn call<'a>(
    name: &str,
    args: &[Val<'a>],
    context: &mut Context<'_>,
) -> Option<Evaluated<'a>> {
    match args {
        [Val::String(text)] => of_text(name, text),
        [Val::Url(url)] if name == "getQuery" => Some(query(url, context)),
        [Val::Url(url)] => of_url(name, url),
        [Val::Ip(address)] => of_address(name, *address),
        [Val::Cidr(address, bits), rest @ ..] => of_network(name, *address, *bits, rest),
        _ => None,
    }
}

fn of_text<'a>(name: &str, text: &str) -> Option<Evaluated<'a>> {
    Some(match name {
        "isIP" => Ok(Val::Bool(address(text).is_ok())),
        "ip" => address(text).map(Val::Ip).map_err(EvalError::Failed),
        "ip.isCanonical" => address(text)
            .map(|address| Val::Bool(address.to_string() == text))
            .map_err(EvalError::Failed),
        "isCIDR" => Ok(Val::Bool(network(text).is_ok())),
        "cidr" => network(text)
            .map(|(address, bits)| Val::Cidr(address, bits))
            .map_err(EvalError::Failed),
        "isURL" => Ok(Val::Bool(go_url::parse_request_uri(text).is_ok())),
        "url" => go_url::parse_absolute(text)
            .map(|url| Val::Url(Arc::new(url)))
            .map_err(|why| {
                EvalError::Failed(format!(
                    "URL parse error during conversion from string: {why}"
                ))
            }),
        _ => return None,
    })
}

fn address(text: &str) -> Result<IpAddr, String> {
    if let Some((own, zone)) = text.split_once('%')
        && own.parse::<std::net::Ipv6Addr>().is_ok()
        && !zone.is_empty()
    {
        return Err(format!(
            "IP address {text:?} with zone value is not allowed"
        ));
    }
    let unread = |_| {
        format!(
            "IP Address {text:?} parse error during conversion from string: {}",
            go_ip::fault(text)
        )
    };
    let address: IpAddr = text.parse().map_err(unread)?;
    match address {
        IpAddr::V6(mapped) if mapped.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        address => Ok(address),
    }
}

fn network(text: &str) -> Result<(IpAddr, u8), String> {
    const PREFIX: &str = "network address parse error during conversion from string";
    let wrong = |why: &str| format!("{PREFIX}: {PREFIX}: netip.ParsePrefix({text:?}): {why}");
    let (own, bits) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
    let address: IpAddr = own.parse().map_err(|_| wrong(&go_ip::fault(own)))?;
    let is_number = matches!(bits.as_bytes(), [b'0'] | [b'1'..=b'9', ..])
        && bits.bytes().all(|byte| byte.is_ascii_digit());
    let number = bits.parse::<u32>().ok().filter(|_| is_number);
    let number = number.ok_or_else(|| wrong(&format!("bad bits after slash: {bits:?}")))?;
    if let IpAddr::V6(mapped) = address
        && mapped.to_ipv4_mapped().is_some()
    {
        return Err(format!(
            "{PREFIX}: IPv4-mapped IPv6 address {text:?} is not allowed"
        ));
    }
    let limit = if address.is_ipv4() { 32 } else { 128 };
    let bits = u8::try_from(number).ok().filter(|bits| *bits <= limit);
    bits.map(|bits| (address, bits))
        .ok_or_else(|| wrong("prefix length out of range"))
}

fn of_url<'a>(name: &str, url: &Url) -> Option<Evaluated<'a>> {
    Some(Ok(Val::text(match name {
        "getScheme" => url.scheme.as_str(),
        "getHost" => url.host.as_str(),
        "getHostname" => url.hostname(),
        "getPort" => url.port(),
        "getEscapedPath" => url.escaped_path.as_str(),
        _ => return None,
    })))
}

/// Returns the query parameters; each is paid for as a list of its own.
fn query<'a>(url: &Url, context: &mut Context<'_>) -> Evaluated<'a> {
    context.budget.spend(4 * url.pairs() as u64)?;
    let mut query = BTreeMap::<MapKey<'a>, Vec<Val<'a>>>::new();
    for (key, value) in url.query_pairs() {
        query
            .entry(MapKey::String(Text::Computed(key.into())))
            .or_default()
            .push(Val::text(value));
    }
    Ok(Val::map(
        query
            .into_iter()
            .map(|(key, values)| (key, Val::list(values)))
            .collect(),
    ))
}

fn of_address<'a>(name: &str, address: IpAddr) -> Option<Evaluated<'a>> {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    };
    let is_link_local_multicast = match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    };
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    Some(Ok(match name {
        "family" => Val::Int(if address.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Val::Bool(address.is_unspecified()),
        "isLoopback" => Val::Bool(address.is_loopback()),
        "isLinkLocalMulticast" => Val::Bool(is_link_local_multicast),
        "isLinkLocalUnicast" => Val::Bool(is_link_local),
        "isGlobalUnicast" => Val::Bool(
            !is_broadcast
                && !address.is_unspecified()
                && !address.is_loopback()
                && !address.is_multicast()
                && !is_link_local,
        ),
        _ => return None,
    }))
}

fn of_network<'a>(name: &str, own: IpAddr, bits: u8, rest: &[Val<'a>]) -> Option<Evaluated<'a>> {
    let contains = |address: IpAddr, least: u8| {
        address.is_ipv4() == own.is_ipv4()
            && least >= bits
            && mask(address, bits) == mask(own, bits)
    };
    Some(match (name, rest) {
        ("containsIP", [Val::Ip(other)]) => Ok(Val::Bool(contains(*other, u8::MAX))),
        ("containsIP", [Val::String(text)]) => address(text)
            .map(|other| Val::Bool(contains(other, u8::MAX)))
            .map_err(EvalError::Failed),
        ("containsCIDR", [Val::Cidr(other, least)]) => Ok(Val::Bool(contains(*other, *least))),
        ("containsCIDR", [Val::String(text)]) => network(text)
            .map(|(other, least)| Val::Bool(contains(other, least)))
            .map_err(EvalError::Failed),
        ("ip", []) => Ok(Val::Ip(own)),
        ("masked", []) => Ok(Val::Cidr(mask(own, bits), bits)),
        ("prefixLength", []) => Ok(Val::Int(bits.into())),
        _ => return None,
    })
}

fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX
                .checked_shl(32 - u32::from(bits.min(32)))
                .unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX
                .checked_shl(128 - u32::from(bits.min(128)))
                .unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}
