//! Ports of the node that pods take.

use k8s_openapi::api::core::v1::Pod;

use crate::edged::specs;

/// Protocol, port, address.
type Taken<'a> = (&'a str, i32, &'a str);

fn of_pod(pod: &Pod) -> impl Iterator<Item = Taken<'_>> {
    let ports = specs::containers_of(pod).flat_map(|container| container.ports.iter().flatten());
    ports.filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        let address = port.host_ip.as_deref().filter(|address| !address.is_empty()).unwrap_or("0.0.0.0");
        Some((port.protocol.as_deref().unwrap_or("TCP"), number, address))
    })
}

/// Whether nobody else has a port that the pod wants. All addresses together are each of them.
pub(super) fn are_free(pod: &Pod, others: &[&Pod]) -> bool {
    let meet = |one: Taken<'_>, other: Taken<'_>| {
        let same_address = one.2 == other.2 || one.2 == "0.0.0.0" || other.2 == "0.0.0.0";
        (one.0, one.1) == (other.0, other.1) && same_address
    };
    let mut taken = others.iter().flat_map(|other| of_pod(other));
    !taken.any(|other| of_pod(pod).any(|one| meet(one, other)))
}
