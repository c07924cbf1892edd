//! Selects the HTTP proxy for a server: `HTTPS_PROXY` and `NO_PROXY`, read as Go's programs read them. No IO.
//!
//! Source: the rules of `golang.org/x/net/http/httpproxy`. Proxies that are themselves reached by TLS or SOCKS are an error:
//! silently bypassing them would be worse.

use std::net::IpAddr;

use base64::{Engine, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;

use crate::config::Secret;

/// The port of a proxy whose URL has none.
const DEFAULT_PROXY_PORT: u16 = 80;

/// The value of an environment variable cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is not a usable proxy: {why}; set it to http://host:port, or remove it")]
pub struct ProxyError {
    /// The name of the variable.
    pub variable: &'static str,
    /// What is wrong, without the value, which may hold a password.
    pub why: &'static str,
}

/// A proxy and the servers that are reached without it. The default is no proxy.
#[derive(Clone, Debug, Default)]
pub struct Proxy {
    endpoint: Option<ProxyEndpoint>,
    no_proxy: Vec<NoProxyEntry>,
}

/// The address and credentials of a proxy.
#[derive(Clone, Debug)]
pub(super) struct ProxyEndpoint {
    /// `host:port` of the proxy.
    pub(super) address: String,
    /// Value of `Proxy-Authorization`.
    pub(super) authorization: Option<Secret>,
}

/// One entry of `NO_PROXY`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NoProxyEntry {
    All,
    Network(IpAddr, u8),
    /// A domain, or only its subdomains, and the port if one is given.
    Domain {
        name: String,
        subdomains_only: bool,
        port: Option<u16>,
    },
    Address(IpAddr, Option<u16>),
}

impl Proxy {
    /// Reads the environment; `variable` returns one variable. The upper-case name has priority.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ProxyError> {
        let either = |upper: &'static str, lower: &'static str| {
            let of = |name: &'static str| {
                variable(name)
                    .map(|text| (name, text.trim().to_owned()))
                    .filter(|(_, text)| !text.is_empty())
            };
            of(upper).or_else(|| of(lower))
        };
        let endpoint = either("HTTPS_PROXY", "https_proxy");
        let endpoint = endpoint.map(|(variable, url)| {
            parse_proxy_url(&url).map_err(|why| ProxyError { variable, why })
        });
        let no_proxy = either("NO_PROXY", "no_proxy")
            .map(|(_, list)| list)
            .unwrap_or_default();
        let no_proxy = no_proxy
            .split(',')
            .filter_map(|entry| parse_no_proxy_entry(entry.trim()))
            .collect();
        Ok(Self {
            endpoint: endpoint.transpose()?,
            no_proxy,
        })
    }

    /// Returns the address of the proxy for a server; `None` for a direct connection.
    pub fn address_for(&self, host: &str, port: u16) -> Option<&str> {
        let endpoint = self.for_server(host, port)?;
        Some(&endpoint.address)
    }

    /// Returns the proxy for a server; `None` for a direct connection. This machine is always reached directly.
    pub(super) fn for_server(&self, host: &str, port: u16) -> Option<&ProxyEndpoint> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let address: Option<IpAddr> = host.parse().ok();
        let is_local = host == "localhost" || address.is_some_and(|address| address.is_loopback());
        let excepted = || {
            self.no_proxy
                .iter()
                .any(|entry| entry.covers(&host, address, port))
        };
        self.endpoint.as_ref().filter(|_| !is_local && !excepted())
    }
}

impl NoProxyEntry {
    fn covers(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        let port_fits = |wanted: &Option<u16>| wanted.is_none_or(|wanted| wanted == port);
        match self {
            Self::All => true,
            Self::Network(network, length) => {
                address.is_some_and(|ip| is_in(ip, *network, *length))
            }
            Self::Address(wanted, at) => address == Some(*wanted) && port_fits(at),
            Self::Domain {
                name,
                subdomains_only,
                port,
            } => {
                let is_below = host
                    .strip_suffix(name.as_str())
                    .is_some_and(|rest| rest.ends_with('.'));
                (is_below || (!subdomains_only && host == name)) && port_fits(port)
            }
        }
    }
}

fn parse_proxy_url(url: &str) -> Result<ProxyEndpoint, &'static str> {
    let rest = match url.split_once("://") {
        Some(("http", rest)) => rest,
        Some(("https", _)) => return Err("proxies that are reached by TLS are not supported"),
        Some(("socks5" | "socks5h", _)) => return Err("SOCKS proxies are not supported"),
        Some(_) => return Err("its scheme is not http"),
        // as Go reads it
        None => url,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(name, _)| !name.contains(':') || name.ends_with(']'));
    let (name, port) = if has_port {
        host.rsplit_once(':').unwrap_or((host, ""))
    } else {
        (host, "")
    };
    let port = if port.is_empty() {
        DEFAULT_PROXY_PORT
    } else {
        port.parse().map_err(|_| "its port is not a number")?
    };
    if name.is_empty() || port == 0 || name.contains(char::is_whitespace) {
        return Err("it has no host, or port 0");
    }
    let authorization = user.map(|user| {
        let (user, password) = user.split_once(':').unwrap_or((user, ""));
        let plain: Vec<u8> = percent_decode_str(user)
            .chain(*b":")
            .chain(percent_decode_str(password))
            .collect();
        Secret::new(format!("Basic {}", STANDARD.encode(plain)))
    });
    Ok(ProxyEndpoint {
        address: format!("{name}:{port}"),
        authorization,
    })
}

fn parse_no_proxy_entry(entry: &str) -> Option<NoProxyEntry> {
    let entry = entry.to_ascii_lowercase();
    match entry.as_str() {
        "" => return None,
        "*" => return Some(NoProxyEntry::All),
        _ => {}
    }
    if let Some((network, length)) = entry.split_once('/')
        && let (Ok(network), Ok(length)) = (network.parse(), length.parse())
    {
        return Some(NoProxyEntry::Network(network, length));
    }
    if let Ok(address) = entry.parse() {
        return Some(NoProxyEntry::Address(address, None));
    }
    let (name, port) = match entry.rsplit_once(':') {
        Some((name, port)) => (name.to_owned(), Some(port.parse().ok()?)),
        None => (entry.clone(), None),
    };
    if let Ok(address) = name.trim_start_matches('[').trim_end_matches(']').parse() {
        return Some(NoProxyEntry::Address(address, port));
    }
    let name = name
        .strip_prefix('*')
        .filter(|rest| rest.starts_with('.'))
        .unwrap_or(&name)
        .to_owned();
    let subdomains_only = name.starts_with('.');
    let name = name.trim_start_matches('.').to_owned();
    (!name.is_empty()).then_some(NoProxyEntry::Domain {
        name,
        subdomains_only,
        port,
    })
}

/// Reports whether the first `length` bits are equal.
fn is_in(address: IpAddr, network: IpAddr, length: u8) -> bool {
    let (address, network, bits) = match (address.to_canonical(), network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => (
            u128::from(address.to_bits()),
            u128::from(network.to_bits()),
            32_u8,
        ),
        (IpAddr::V6(address), IpAddr::V6(network)) => (address.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    let ignored = u32::from(bits.saturating_sub(length));
    length <= bits && address.checked_shr(ignored) == network.checked_shr(ignored)
}

#[cfg(test)]
mod tests;
