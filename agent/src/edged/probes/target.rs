//! What a probe or hook reaches for: a command, or an address of the pod. Pure.

use k8s_openapi::{
    api::core::v1::{Container, ExecAction, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction},
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::edged::env;

/// What to do, with nothing left to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Run a command in the container.
    Exec(Vec<String>),
    /// Get a page.
    Http(Page),
    /// Connect.
    Tcp(Address),
    /// Ask the gRPC health service for this service.
    Grpc(Address, String),
    /// Wait for so many seconds.
    Sleep(u64),
}

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

/// A page of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Where.
    pub(crate) address: Address,
    /// Over TLS.
    pub(crate) tls: bool,
    /// With its query; begins with a slash.
    pub(crate) path: String,
    /// Headers of the pod's own.
    pub(crate) headers: Vec<(String, String)>,
}

impl Page {
    /// As people write it.
    pub(crate) fn url(&self) -> String {
        format!("http{}://{}{}", if self.tls { "s" } else { "" }, self.address, self.path)
    }
}

/// What the probe reaches for in a pod with this address.
pub(super) fn of_probe(probe: &Probe, container: &Container, pod_ip: &str) -> Result<Target, String> {
    if let Some(action) = &probe.grpc {
        let address = address(None, pod_ip, &IntOrString::Int(action.port), container)?;
        return Ok(Target::Grpc(address, action.service.clone().unwrap_or_default()));
    }
    let actions = (probe.exec.as_ref(), probe.http_get.as_ref(), probe.tcp_socket.as_ref());
    of_actions(actions, container, pod_ip)?.ok_or_else(|| "missing probe handler".into())
}

/// What the hook reaches for in a pod with this address.
pub(crate) fn of_hook(
    hook: &LifecycleHandler,
    container: &Container,
    pod_ip: &str,
) -> Result<Target, String> {
    if let Some(sleep) = &hook.sleep {
        return Ok(Target::Sleep(u64::try_from(sleep.seconds).unwrap_or(0)));
    }
    let actions = (hook.exec.as_ref(), hook.http_get.as_ref(), hook.tcp_socket.as_ref());
    of_actions(actions, container, pod_ip)?.ok_or_else(|| "the hook has no handler".into())
}

type Actions<'a> = (Option<&'a ExecAction>, Option<&'a HTTPGetAction>, Option<&'a TCPSocketAction>);

fn of_actions(actions: Actions<'_>, container: &Container, pod_ip: &str) -> Result<Option<Target>, String> {
    Ok(match actions {
        (Some(exec), _, _) => {
            let literals = env::literals(container);
            let words = exec.command.iter().flatten().map(|word| literals.expand(word));
            Some(Target::Exec(words.collect()))
        }
        (_, Some(get), _) => Some(Target::Http(page(get, container, pod_ip)?)),
        (_, _, Some(tcp)) => Some(Target::Tcp(address(tcp.host.as_deref(), pod_ip, &tcp.port, container)?)),
        _ => None,
    })
}

fn page(get: &HTTPGetAction, container: &Container, pod_ip: &str) -> Result<Page, String> {
    let path = get.path.as_deref().unwrap_or_default();
    Ok(Page {
        address: address(get.host.as_deref(), pod_ip, &get.port, container)?,
        tls: get.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("HTTPS")),
        path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        headers: get.http_headers.iter().flatten().map(|h| (h.name.clone(), h.value.clone())).collect(),
    })
}

fn address(
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn target(probe: Value, ip: &str) -> Result<Target, String> {
        let container: Container = serde_json::from_value(json!({
            "name": "web", "env": [{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {}}],
            "ports": [{"name": "http", "containerPort": 8080}]
        }))
        .unwrap();
        of_probe(&serde_json::from_value(probe).unwrap(), &container, ip)
    }

    #[test]
    fn targets_have_the_pods_address_and_ports_by_name() {
        let url = |get: Value, ip: &str| match target(json!({ "httpGet": get }), ip) {
            Ok(Target::Http(page)) => page.url(),
            other => panic!("{other:?}"),
        };
        assert_eq!(url(json!({"port": "http", "path": "a?b=c"}), "10.0.0.1"), "http://10.0.0.1:8080/a?b=c");
        assert_eq!(url(json!({"port": 443, "scheme": "HTTPS"}), "fd00::1"), "https://[fd00::1]:443/");
        assert_eq!(url(json!({"port": "81", "host": "localhost"}), ""), "http://localhost:81/");
        let exec = target(json!({"exec": {"command": ["echo", "$(A)$(B)"]}}), "");
        assert_eq!(exec, Ok(Target::Exec(vec!["echo".into(), "x$(B)".into()])));
        let grpc = target(json!({"grpc": {"port": 9, "service": "s"}}), "10.0.0.1");
        assert_eq!(grpc, Ok(Target::Grpc(Address { host: "10.0.0.1".into(), port: 9 }, "s".into())));
    }

    #[test]
    fn what_cannot_be_reached_says_why() {
        for (probe, ip) in [
            (json!({}), "10.0.0.1"),
            (json!({"tcpSocket": {"port": "none"}}), "10.0.0.1"),
            (json!({"tcpSocket": {"port": 70_000}}), "10.0.0.1"),
            (json!({"tcpSocket": {"port": 0}}), "10.0.0.1"),
            (json!({"tcpSocket": {"port": 80}}), ""),
        ] {
            assert!(target(probe.clone(), ip).is_err(), "{probe}");
        }
    }
}
