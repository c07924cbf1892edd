//! Formats of texts, with Kubernetes' messages.

use super::addresses;
use crate::object::names;

const HTTP_HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used \
    for validation is '[-A-Za-z0-9]+')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist \
    of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for \
    validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const SEARCH: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-', '_' or '.', and must \
    start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const HTTP_PATH: &str =
    "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// The faults of an address.
pub fn ip(text: &str) -> Vec<String> {
    addresses::parse(text)
        .err()
        .map(str::to_owned)
        .into_iter()
        .collect()
}

/// The faults of a range of addresses.
pub fn cidr(text: &str) -> Vec<String> {
    parse_cidr(text)
        .is_none()
        .then(|| CIDR.to_owned())
        .into_iter()
        .collect()
}

/// The address and the length of the prefix.
pub fn parse_cidr(text: &str) -> Option<(std::net::IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address: std::net::IpAddr = address.parse().ok()?;
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = if is_number {
        length.parse::<u8>().ok()?
    } else {
        return None;
    };
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

/// The faults of a path that may not lead upwards.
pub fn no_backsteps(path: &str) -> Vec<String> {
    let leads_up = path.split('/').any(|part| part == "..");
    leads_up
        .then(|| "must not contain '..'".to_owned())
        .into_iter()
        .collect()
}

/// The faults of a path inside a volume.
pub fn relative_path(path: &str) -> Vec<String> {
    let is_absolute = path
        .starts_with('/')
        .then(|| "must be a relative path".to_owned());
    is_absolute.into_iter().chain(no_backsteps(path)).collect()
}

/// The faults of the path of a file in a volume.
pub fn file_path(path: &str) -> Vec<String> {
    let is_reserved = path.starts_with("..") && !path.starts_with("../");
    let reserved = is_reserved.then(|| "must not start with '..'".to_owned());
    relative_path(path).into_iter().chain(reserved).collect()
}

/// The faults of the name of an HTTP header.
pub fn http_header(name: &str) -> Vec<String> {
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (!is_name)
        .then(|| HTTP_HEADER.to_owned())
        .into_iter()
        .collect()
}

/// The faults of a host that may begin with a wildcard.
pub fn host(host: &str) -> Vec<String> {
    if !host.contains('*') {
        return names::dns_subdomain(host);
    }
    let is_host = host
        .strip_prefix("*.")
        .is_some_and(|rest| names::dns_subdomain(rest).is_empty());
    (!is_host)
        .then(|| WILDCARD.to_owned())
        .into_iter()
        .collect()
}

/// The faults of a domain in which DNS searches names.
pub fn search_domain(text: &str) -> Vec<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    if text == "."
        || names::dns_subdomain(&name.replace('_', "a")).is_empty() && !name.ends_with('_')
    {
        return Vec::new();
    }
    vec![SEARCH.to_owned()]
}

/// The faults of a name such as `example.com/a/b`.
pub fn domain_prefixed_path(text: &str) -> Vec<String> {
    let parts = text
        .split_once('/')
        .filter(|(host, path)| !host.is_empty() && !path.is_empty());
    let Some((host, path)) = parts else {
        return vec!["must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()];
    };
    let mut faults = names::dns_subdomain(host);
    let is_path = path
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte));
    faults.extend((!is_path).then(|| HTTP_PATH.to_owned()));
    faults
}

/// The faults of a name such as `validate.example.com`.
pub fn fully_qualified_name(name: &str) -> Vec<String> {
    let faults = names::dns_subdomain(name);
    if !faults.is_empty() {
        return vec![faults.join(",")];
    }
    let is_short = name.split('.').count() < 3;
    is_short
        .then(|| "should be a domain with at least three segments separated by dots".to_owned())
        .into_iter()
        .collect()
}

/// The faults of a provisioner's or driver's name, whose case does not matter.
pub fn provisioner(name: &str) -> Vec<String> {
    names::qualified_name(&name.to_lowercase())
}

/// The faults of a CSI driver's name, except for its length.
pub fn driver(name: &str) -> Vec<String> {
    names::dns_subdomain(&name.to_lowercase())
}

/// Whether a range of addresses contains another that is smaller.
pub fn contains(whole: (std::net::IpAddr, u8), part: (std::net::IpAddr, u8)) -> bool {
    use std::net::IpAddr;
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    };
    let mask = u128::MAX
        .checked_shl(128 - u32::from(whole.1))
        .unwrap_or_default();
    whole.0.is_ipv4() == part.0.is_ipv4()
        && whole.1 < part.1
        && bits(whole.0) & mask == bits(part.0) & mask
}
