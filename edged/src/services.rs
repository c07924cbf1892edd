//! Environment variables with the addresses of services, in Docker's link format. Pure.

use k8s_openapi::api::core::v1::{Service, ServicePort};

/// Namespace of the service [`KUBERNETES_SERVICE`], whose variables every pod may have.
pub(crate) const KUBERNETES_SERVICE_NAMESPACE: &str = "default";
/// Name of the API server's service.
pub(crate) const KUBERNETES_SERVICE: &str = "kubernetes";

/// Returns the variables of services, in their order. A service without a cluster IP has none.
pub(crate) fn variables<'a>(services: impl Iterator<Item = &'a Service>) -> Vec<(String, String)> {
    services.flat_map(of_service).collect()
}

fn of_service(service: &Service) -> Vec<(String, String)> {
    let spec = service.spec.as_ref();
    let ip = spec
        .and_then(|spec| spec.cluster_ip.as_deref())
        .unwrap_or_default();
    let ports = spec
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    let ([first, ..], false) = (ports, matches!(ip, "" | "None")) else {
        return Vec::new();
    };
    let name = variable_name(service.metadata.name.as_deref().unwrap_or_default());
    let mut all = vec![
        (format!("{name}_SERVICE_HOST"), ip.to_owned()),
        (format!("{name}_SERVICE_PORT"), first.port.to_string()),
    ];
    let named = ports
        .iter()
        .filter_map(|port| Some((port.name.as_deref().filter(|n| !n.is_empty())?, port.port)));
    all.extend(named.map(|(port_name, port)| {
        (
            format!("{name}_SERVICE_PORT_{}", variable_name(port_name)),
            port.to_string(),
        )
    }));
    all.push((format!("{name}_PORT"), url(ip, first)));
    for port in ports {
        let protocol = protocol(port);
        let prefix = format!("{name}_PORT_{}_{protocol}", port.port);
        all.extend([
            (prefix.clone(), url(ip, port)),
            (format!("{prefix}_PROTO"), protocol.to_lowercase()),
            (format!("{prefix}_PORT"), port.port.to_string()),
            (format!("{prefix}_ADDR"), ip.to_owned()),
        ]);
    }
    all
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn url(ip: &str, port: &ServicePort) -> String {
    let host = if ip.contains(':') {
        format!("[{ip}]")
    } else {
        ip.to_owned()
    };
    format!("{}://{host}:{}", protocol(port).to_lowercase(), port.port)
}

fn variable_name(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_with_an_address_has_variables() {
        let services: Vec<Service> = serde_json::from_value(json!([
            {"metadata": {"name": "my-db"}, "spec": {"clusterIP": "10.0.0.9", "ports": [
                {"name": "sql-main", "port": 5432}, {"port": 53, "protocol": "UDP"}]}},
            {"metadata": {"name": "headless"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}},
            {"metadata": {"name": "external"}, "spec": {"ports": [{"port": 1}]}}
        ]))
        .unwrap();
        let lines: Vec<String> = variables(services.iter())
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            lines,
            [
                "MY_DB_SERVICE_HOST=10.0.0.9",
                "MY_DB_SERVICE_PORT=5432",
                "MY_DB_SERVICE_PORT_SQL_MAIN=5432",
                "MY_DB_PORT=tcp://10.0.0.9:5432",
                "MY_DB_PORT_5432_TCP=tcp://10.0.0.9:5432",
                "MY_DB_PORT_5432_TCP_PROTO=tcp",
                "MY_DB_PORT_5432_TCP_PORT=5432",
                "MY_DB_PORT_5432_TCP_ADDR=10.0.0.9",
                "MY_DB_PORT_53_UDP=udp://10.0.0.9:53",
                "MY_DB_PORT_53_UDP_PROTO=udp",
                "MY_DB_PORT_53_UDP_PORT=53",
                "MY_DB_PORT_53_UDP_ADDR=10.0.0.9",
            ]
        );
    }
}
