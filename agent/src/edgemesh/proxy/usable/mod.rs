//! Which endpoints of a Service get new connections. Pure.
//!
//! The rules are kube-proxy's (`pkg/proxy/topology.go`): the ready endpoints, which topology hints may narrow down; if none is ready, the
//! terminating ones that still serve. A `Local` policy takes those of this node, whatever the hints say.

use std::net::SocketAddr;

use super::endpoint_address::EndpointAddress;
use crate::edgemesh::snapshot::{Endpoint, Port, Service};

/// This node's name and zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::edgemesh) struct NodeTopology {
    /// The node's name.
    pub(in crate::edgemesh) name: String,
    /// The zone, by the label `topology.kubernetes.io/zone`.
    pub(in crate::edgemesh) zone: Option<String>,
}

/// The endpoints of one port of a Service, by client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::edgemesh) struct Usable {
    /// For clients at the cluster IP, which are this node's pods and programs: `internalTrafficPolicy` applies.
    pub(in crate::edgemesh) internal: Vec<EndpointAddress>,
    /// For this node's pods and programs at a NodePort or an external address: no `Local` policy applies.
    pub(in crate::edgemesh) cluster: Vec<EndpointAddress>,
    /// For all other clients there: `externalTrafficPolicy` applies.
    pub(in crate::edgemesh) external: Vec<EndpointAddress>,
    /// All that still serve: a UDP flow to one of these continues.
    pub(in crate::edgemesh) serving: Vec<EndpointAddress>,
}

/// Returns the endpoints for connections to `port` of the Service at an address of IPv4 or, if not `is_ipv4`, of IPv6.
pub(in crate::edgemesh) fn usable(
    service: &Service,
    port: &Port,
    node: &NodeTopology,
    is_ipv4: bool,
) -> Usable {
    let name = (port.name.clone(), port.protocol);
    let mut all = Vec::new();
    for endpoint in &service.endpoints {
        if let Some(number) = endpoint
            .ports
            .get(&name)
            .filter(|_| endpoint.address.is_ipv4() == is_ipv4)
        {
            let address = SocketAddr::new(endpoint.address, *number);
            let other = endpoint.node.as_deref().filter(|other| *other != node.name);
            all.push((
                endpoint,
                EndpointAddress {
                    address,
                    node: other.map(Into::into),
                },
            ));
        }
    }
    let cluster = cluster(&all, node);
    let local = |is_wanted: bool| {
        if is_wanted {
            local(&all, node)
        } else {
            cluster.clone()
        }
    };
    Usable {
        internal: local(service.internal_local),
        external: local(service.external_local),
        serving: all
            .iter()
            .filter(|(endpoint, _)| endpoint.ready || endpoint.serving)
            .map(|(_, at)| at.clone())
            .collect(),
        cluster,
    }
}

type Candidate<'a> = (&'a Endpoint, EndpointAddress);

fn cluster(all: &[Candidate<'_>], node: &NodeTopology) -> Vec<EndpointAddress> {
    let ready: Vec<_> = all
        .iter()
        .filter(|(endpoint, _)| endpoint.ready)
        .cloned()
        .collect();
    if ready.is_empty() {
        terminating(all.iter())
    } else {
        hinted_endpoints(&ready, node)
    }
}

fn local(all: &[Candidate<'_>], node: &NodeTopology) -> Vec<EndpointAddress> {
    let own: Vec<_> = all
        .iter()
        .filter(|(endpoint, _)| endpoint.node.as_ref() == Some(&node.name))
        .cloned()
        .collect();
    let ready: Vec<_> = own
        .iter()
        .filter(|(endpoint, _)| endpoint.ready)
        .map(|(_, at)| at.clone())
        .collect();
    if ready.is_empty() {
        terminating(own.iter())
    } else {
        ready
    }
}

/// The terminating endpoints that still serve.
fn terminating<'a>(all: impl Iterator<Item = &'a Candidate<'a>>) -> Vec<EndpointAddress> {
    all.filter(|(endpoint, _)| endpoint.serving && endpoint.terminating)
        .map(|(_, at)| at.clone())
        .collect()
}

/// Of the ready endpoints, those whose hints name this node, or else its zone; all of them if hints are missing for some, or none names
/// this node.
fn hinted_endpoints(ready: &[Candidate<'_>], node: &NodeTopology) -> Vec<EndpointAddress> {
    let hinted = |hints: fn(&Endpoint) -> &[String], own: Option<&String>| {
        let is_complete = ready
            .iter()
            .all(|(endpoint, _)| !hints(endpoint).is_empty());
        let own = own.filter(|_| is_complete)?;
        let mine: Vec<_> = ready
            .iter()
            .filter(|(endpoint, _)| hints(endpoint).contains(own))
            .map(|(_, at)| at.clone())
            .collect();
        (!mine.is_empty()).then_some(mine)
    };
    hinted(|endpoint| &endpoint.for_nodes, Some(&node.name))
        .or_else(|| hinted(|endpoint| &endpoint.for_zones, node.zone.as_ref()))
        .unwrap_or_else(|| ready.iter().map(|(_, at)| at.clone()).collect())
}

#[cfg(test)]
mod tests;
