//! Resolves the addresses, pages and commands of probes and hooks of a pod. Pure.

use k8s_openapi::{
    api::core::v1::{Container, ExecAction, HTTPGetAction, TCPSocketAction},
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::env;

/// A host, as an IP address or a name, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Host; IPv6 addresses have no brackets.
    pub(crate) host: String,
    /// Port, never 0.
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

/// The target of an HTTP GET request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpTarget {
    /// Address of the server.
    pub(crate) address: Address,
    /// Whether to use TLS.
    pub(crate) tls: bool,
    /// Path with query; begins with a slash.
    pub(crate) path: String,
    /// Headers that the pod's specification sets.
    pub(crate) headers: Vec<(String, String)>,
}

impl HttpTarget {
    /// Returns the URL.
    pub(crate) fn url(&self) -> String {
        format!(
            "http{}://{}{}",
            if self.tls { "s" } else { "" },
            self.address,
            self.path
        )
    }
}

/// Returns the command, in which the container's literal variables are expanded.
pub(super) fn command(exec: &ExecAction, container: &Container) -> Vec<String> {
    let literals = env::literals(container);
    exec.command
        .iter()
        .flatten()
        .map(|word| literals.expand(word))
        .collect()
}

/// Returns the address of a `tcpSocket`.
pub(super) fn socket(
    tcp: &TCPSocketAction,
    container: &Container,
    pod_ip: &str,
) -> Result<Address, String> {
    address(tcp.host.as_deref(), pod_ip, &tcp.port, container)
}

/// Returns the target of an `httpGet`.
pub(super) fn page(
    get: &HTTPGetAction,
    container: &Container,
    pod_ip: &str,
) -> Result<HttpTarget, String> {
    let path = get.path.as_deref().unwrap_or_default();
    Ok(HttpTarget {
        address: address(get.host.as_deref(), pod_ip, &get.port, container)?,
        tls: get
            .scheme
            .as_deref()
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("HTTPS")),
        path: if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        },
        headers: get
            .http_headers
            .iter()
            .flatten()
            .map(|h| (h.name.clone(), h.value.clone()))
            .collect(),
    })
}

/// Returns the address of a host, by default the pod, and a port.
pub(super) fn address(
    host: Option<&str>,
    pod_ip: &str,
    port: &IntOrString,
    container: &Container,
) -> Result<Address, String> {
    let host = host
        .filter(|host| !host.is_empty())
        .unwrap_or(pod_ip)
        .trim_matches(['[', ']']);
    if host.is_empty() {
        return Err("the pod has no address yet".into());
    }
    Ok(Address {
        host: host.to_owned(),
        port: port_number(port, container)?,
    })
}

fn port_number(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let named = ports
                .find(|port| port.name.as_deref() == Some(name))
                .map(|port| port.container_port);
            named.or_else(|| name.parse().ok())
        }
    };
    let valid = number
        .and_then(|number| u16::try_from(number).ok())
        .filter(|port| *port > 0);
    valid.ok_or_else(|| match port {
        IntOrString::Int(number) => format!("invalid port number: {number}"),
        IntOrString::String(name) => {
            format!("couldn't find port: {name:?} in the container's ports")
        }
    })
}
