//! Whether the server of an APIService is available.
//!
//! Source: the availability controller of Kubernetes' API server, whose reasons and messages these are.

use std::time::Duration;

use k8s_openapi::{
    api::{
        core::v1::Service,
        discovery::v1::{Endpoint, EndpointSlice},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::{APIService, ServiceReference},
};
use kube::{Api, Client, api::ListParams};
use tokio::time::timeout;

use crate::controllers::api_status;

/// How long a server may take to answer a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The port of a service that an APIService does not name.
const DEFAULT_PORT: i32 = 443;

/// The condition `Available`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Availability {
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Availability {
    fn lacks(reason: &'static str, message: String) -> Self {
        Self {
            status: "False",
            reason,
            message,
        }
    }
}

/// Checks the service of an APIService, and asks its server, through the API, for its resources.
///
/// # Errors
/// The service or its endpoints cannot be read.
pub(super) async fn find(
    client: &Client,
    service: &APIService,
) -> Result<Availability, kube::Error> {
    let spec = service.spec.clone().unwrap_or_default();
    let place = spec.service.unwrap_or_default();
    let (name, namespace) = (
        place.name.clone().unwrap_or_default(),
        place.namespace.clone().unwrap_or_default(),
    );
    let services = Api::<Service>::namespaced(client.clone(), &namespace);
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), &namespace);
    let selected = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    let (found, slices) = (
        services.get_opt(&name).await?,
        slices.list(&selected).await?.items,
    );
    if let Some(fault) = fault_of_service(&place, found.as_ref(), &slices) {
        return Ok(fault);
    }
    let group = spec.group.unwrap_or_default();
    let path = format!("/apis/{group}/{}", spec.version.unwrap_or_default());
    let request = http::Request::get(&path).body(Vec::new());
    let request = request.map_err(kube::Error::HttpError)?;
    let why = match timeout(CHECK_TIMEOUT, client.request_text(request)).await {
        Ok(Ok(_)) => {
            return Ok(Availability {
                status: "True",
                reason: "Passed",
                message: "all checks passed".to_owned(),
            });
        }
        Ok(Err(error)) => api_status::text(&error),
        Err(_) => format!("no answer within {} s", CHECK_TIMEOUT.as_secs()),
    };
    let message = format!("failing or missing response from {path}: {why}");
    Ok(Availability::lacks("FailedDiscoveryCheck", message))
}

/// Returns why no server can be behind the service.
fn fault_of_service(
    place: &ServiceReference,
    service: Option<&Service>,
    slices: &[EndpointSlice],
) -> Option<Availability> {
    let (name, namespace) = (
        place.name.as_deref().unwrap_or_default(),
        place.namespace.as_deref().unwrap_or_default(),
    );
    let Some(service) = service else {
        let message = format!("service/{name} in {namespace:?} is not present");
        return Some(Availability::lacks("ServiceNotFound", message));
    };
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    let wanted = place.port.unwrap_or(DEFAULT_PORT);
    let mut ports = spec.ports.iter().flatten();
    let Some(port) = ports.find(|port| port.port == wanted) else {
        let message = format!("service/{name} in {namespace:?} is not listening on port {wanted}");
        return Some(Availability::lacks("ServicePortError", message));
    };
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
        return Some(Availability::lacks("EndpointsNotFound", message));
    }
    let port = port.name.as_deref().unwrap_or_default();
    let has_endpoints = slices.iter().any(|slice| {
        let mut ports = slice.ports.iter().flatten();
        slice.endpoints.iter().any(is_ready)
            && ports.any(|own| own.name.as_deref().unwrap_or_default() == port)
    });
    (!has_endpoints).then(|| {
        let message = format!(
            "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port:?}"
        );
        Availability::lacks("MissingEndpoints", message)
    })
}

fn is_ready(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.and_then(|conditions| conditions.ready) != Some(false)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_service_without_a_server_is_named() {
        let place: ServiceReference =
            serde_json::from_value(json!({"name": "fish", "namespace": "sea", "port": 8443}))
                .unwrap();
        let service = |kind: &str, port: i32| json!({"spec": {"type": kind, "ports": [{"name": "https", "port": port}]}});
        let slice = |port: &str, ready: Value| {
            json!([{"addressType": "IPv4", "ports": [{"name": port, "port": 1}],
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]}])
        };
        let cluster = service("ClusterIP", 8443);
        let rows = [
            (
                Value::Null,
                json!([]),
                "ServiceNotFound service/fish in \"sea\" is not present",
            ),
            (
                service("ClusterIP", 443),
                json!([]),
                "ServicePortError service/fish in \"sea\" is not listening on port 8443",
            ),
            (
                cluster.clone(),
                json!([]),
                "EndpointsNotFound cannot find endpointslices for service/fish in \"sea\"",
            ),
            (
                cluster.clone(),
                slice("https", json!(false)),
                "MissingEndpoints endpointslices for service/fish in \"sea\" have no addresses with port name \"https\"",
            ),
            (
                cluster.clone(),
                slice("http", json!(true)),
                "MissingEndpoints endpointslices for service/fish in \"sea\" have no addresses with port name \"https\"",
            ),
            (cluster.clone(), slice("https", json!(true)), ""),
            (cluster, slice("https", Value::Null), ""),
            (service("ExternalName", 443), json!([]), ""),
        ];
        for (service, slices, expected) in rows {
            let service: Option<Service> = serde_json::from_value(service).unwrap();
            let slices: Vec<EndpointSlice> = serde_json::from_value(slices).unwrap();
            let found = fault_of_service(&place, service.as_ref(), &slices);
            let found = found.map(|found| format!("{} {}", found.reason, found.message));
            assert_eq!(found.unwrap_or_default(), expected, "{service:?}");
        }
    }
}
