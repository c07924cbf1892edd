//! Resolves the target of a probe: a command in the container or an address of the pod. Pure.

use k8s_openapi::{
    api::core::v1::{Container, Probe},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::address::{self, Address, HttpTarget};

/// The target of a probe, with everything resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProbeTarget {
    /// Run a command in the container.
    Exec(Vec<String>),
    /// Get a page.
    HttpGet(HttpTarget),
    /// Connect to an address.
    TcpSocket(Address),
    /// Call the gRPC health service at this address for this service.
    Grpc(Address, String),
}

impl ProbeTarget {
    /// Resolves the probe's target in a pod with this IP address. All fields of the probe are listed here, so that a handler of a
    /// newer API is not forgotten.
    pub(super) fn of(probe: &Probe, container: &Container, pod_ip: &str) -> Result<Self, String> {
        let Probe {
            exec,
            grpc,
            http_get,
            tcp_socket,
            failure_threshold: _,
            initial_delay_seconds: _,
            period_seconds: _,
            success_threshold: _,
            termination_grace_period_seconds: _,
            timeout_seconds: _,
        } = probe;
        Ok(match (grpc, exec, http_get, tcp_socket) {
            (Some(grpc), ..) => {
                let address =
                    address::address(None, pod_ip, &IntOrString::Int(grpc.port), container)?;
                Self::Grpc(address, grpc.service.clone().unwrap_or_default())
            }
            (_, Some(exec), ..) => Self::Exec(address::command(exec, container)),
            (.., Some(get), _) => Self::HttpGet(address::page(get, container, pod_ip)?),
            (.., Some(tcp)) => Self::TcpSocket(address::socket(tcp, container, pod_ip)?),
            (None, None, None, None) => return Err("missing probe handler".into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn target(probe: Value, ip: &str) -> Result<ProbeTarget, String> {
        let container: Container = serde_json::from_value(json!({
            "name": "web", "env": [{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {}}],
            "ports": [{"name": "http", "containerPort": 8080}]
        }))
        .unwrap();
        ProbeTarget::of(&serde_json::from_value(probe).unwrap(), &container, ip)
    }

    #[test]
    fn targets_have_the_pods_address_and_ports_by_name() {
        let url = |get: Value, ip: &str| match target(json!({ "httpGet": get }), ip) {
            Ok(ProbeTarget::HttpGet(page)) => page.url(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            url(json!({"port": "http", "path": "a?b=c"}), "10.0.0.1"),
            "http://10.0.0.1:8080/a?b=c"
        );
        assert_eq!(
            url(json!({"port": 443, "scheme": "HTTPS"}), "fd00::1"),
            "https://[fd00::1]:443/"
        );
        assert_eq!(
            url(json!({"port": "81", "host": "localhost"}), ""),
            "http://localhost:81/"
        );
        let exec = target(json!({"exec": {"command": ["echo", "$(A)$(B)"]}}), "");
        assert_eq!(
            exec,
            Ok(ProbeTarget::Exec(vec!["echo".into(), "x$(B)".into()]))
        );
        let grpc = target(json!({"grpc": {"port": 9, "service": "s"}}), "10.0.0.1");
        assert_eq!(
            grpc,
            Ok(ProbeTarget::Grpc(
                Address {
                    host: "10.0.0.1".into(),
                    port: 9
                },
                "s".into()
            ))
        );
    }

    #[test]
    fn unresolvable_targets_return_errors() {
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
