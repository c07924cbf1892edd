//! Checks host ports: two pods on a node cannot use the same one.

use k8s_openapi::api::core::v1::Pod;

use crate::specs;

/// A port of the node that a pod uses.
struct HostPort<'a> {
    protocol: &'a str,
    port: i32,
    address: &'a str,
}

fn host_ports(pod: &Pod) -> impl Iterator<Item = HostPort<'_>> {
    let ports = specs::containers_of(pod).flat_map(|container| container.ports.iter().flatten());
    ports.filter_map(|port| {
        let host_port = port.host_port.filter(|host_port| *host_port > 0)?;
        let address = port
            .host_ip
            .as_deref()
            .filter(|address| !address.is_empty())
            .unwrap_or("0.0.0.0");
        Some(HostPort {
            protocol: port.protocol.as_deref().unwrap_or("TCP"),
            port: host_port,
            address,
        })
    })
}

/// Reports whether no other pod uses a host port that the pod wants. The address `0.0.0.0` conflicts with every address.
pub(super) fn are_free(pod: &Pod, others: &[&Pod]) -> bool {
    let conflict = |one: &HostPort<'_>, other: &HostPort<'_>| {
        let same_address =
            one.address == other.address || one.address == "0.0.0.0" || other.address == "0.0.0.0";
        (one.protocol, one.port) == (other.protocol, other.port) && same_address
    };
    let mut used = others.iter().flat_map(|other| host_ports(other));
    !used.any(|other| host_ports(pod).any(|one| conflict(&one, &other)))
}
