//! Addresses, pages and commands as probes and hooks of a pod have them. Pure.

use k8s_openapi::{
    api::core::v1::{Container, ExecAction, HTTPGetAction, TCPSocketAction},
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::edged::env;

/// A host, as an address or a name, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// IPv6 without brackets.
    pub(crate) host: String,
    /// From 1.
    pub(crate) port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A page of a server, for a GET request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpTarget {
    /// Where.
    pub(crate) address: Address,
    /// Over TLS.
    pub(crate) tls: bool,
    /// With its query; begins with a slash.
    pub(crate) path: String,
    /// Headers of the pod's own.
    pub(crate) headers: Vec<(String, String)>,
}

impl HttpTarget {
    /// As people write it.
    pub(crate) fn url(&self) -> String {
        format!("http{}://{}{}", if self.tls { "s" } else { "" }, self.address, self.path)
    }
}

/// The command, with the variables of the container that are known without asking for them.
pub(super) fn command(exec: &ExecAction, container: &Container) -> Vec<String> {
    let literals = env::literals(container);
    exec.command.iter().flatten().map(|word| literals.expand(word)).collect()
}

/// The address of a `tcpSocket`.
pub(super) fn socket(tcp: &TCPSocketAction, container: &Container, pod_ip: &str) -> Result<Address, String> {
    address(tcp.host.as_deref(), pod_ip, &tcp.port, container)
}

/// The page of an `httpGet`.
pub(super) fn page(get: &HTTPGetAction, container: &Container, pod_ip: &str) -> Result<HttpTarget, String> {
    let path = get.path.as_deref().unwrap_or_default();
    Ok(HttpTarget {
        address: address(get.host.as_deref(), pod_ip, &get.port, container)?,
        tls: get.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("HTTPS")),
        path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        headers: get.http_headers.iter().flatten().map(|h| (h.name.clone(), h.value.clone())).collect(),
    })
}

/// The host, which is the pod's where none is named, and the port.
pub(super) fn address(
    host: Option<&str>,
    pod_ip: &str,
    port: &IntOrString,
    container: &Container,
) -> Result<Address, String> {
    let host = host.filter(|host| !host.is_empty()).unwrap_or(pod_ip).trim_matches(['[', ']']);
    if host.is_empty() {
        return Err("the pod has no address yet".into());
    }
    Ok(Address { host: host.to_owned(), port: number(port, container)? })
}

fn number(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let named = ports.find(|port| port.name.as_deref() == Some(name)).map(|port| port.container_port);
            named.or_else(|| name.parse().ok())
        }
    };
    let valid = number.and_then(|number| u16::try_from(number).ok()).filter(|port| *port > 0);
    valid.ok_or_else(|| match port {
        IntOrString::Int(number) => format!("invalid port number: {number}"),
        IntOrString::String(name) => format!("couldn't find port: {name:?} in the container's ports"),
    })
}
