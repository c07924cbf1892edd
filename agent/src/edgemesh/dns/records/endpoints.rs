//! The DNS names of the endpoints of headless Services.

use std::net::IpAddr;

use crate::edgemesh::snapshot::{Endpoint, Service};

/// Returns the endpoints that have names: the ready ones, or all if `publishNotReadyAddresses` is set.
pub(super) fn published_endpoints(service: &Service) -> impl Iterator<Item = &Endpoint> {
    service
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.ready || service.publish_not_ready)
}

/// Returns an endpoint's label below the Service's name: its hostname, or else its address with dashes.
pub(super) fn label(endpoint: &Endpoint) -> String {
    match (&endpoint.hostname, endpoint.address) {
        (Some(hostname), _) => hostname.to_ascii_lowercase(),
        (None, IpAddr::V4(address)) => address.to_string().replace('.', "-"),
        (None, IpAddr::V6(address)) => address.to_string().replace(':', "-"),
    }
}
