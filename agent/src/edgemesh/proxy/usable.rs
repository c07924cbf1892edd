//! Which endpoints of a Service take new connections. Pure.
//!
//! As kube-proxy decides it (`pkg/proxy/topology.go`): the ready ones, where topology hints may narrow them down; where none is ready,
//! those that end and still serve. A `Local` policy takes those of this node, whatever hints say.

use std::net::SocketAddr;

use super::endpoint_address::EndpointAddress;
use crate::edgemesh::snapshot::{Endpoint, Port, Service};

/// Where this node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::edgemesh) struct Here {
    /// Its name.
    pub(in crate::edgemesh) node: String,
    /// Its zone, by the label `topology.kubernetes.io/zone`.
    pub(in crate::edgemesh) zone: Option<String>,
}

/// The endpoints of one port of a Service, by who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::edgemesh) struct Usable {
    /// For this node's pods and programs at the Service's own address.
    pub(in crate::edgemesh) internal: Vec<EndpointAddress>,
    /// For this node's pods and programs at a NodePort or an external address: no `Local` policy counts.
    pub(in crate::edgemesh) cluster: Vec<EndpointAddress>,
    /// For everybody else there.
    pub(in crate::edgemesh) external: Vec<EndpointAddress>,
    /// All that still serve: what a UDP client has goes on with one of these.
    pub(in crate::edgemesh) serving: Vec<EndpointAddress>,
}

/// What takes connections to `port` of the Service at an address of the same family as `is_ipv4` says.
pub(in crate::edgemesh) fn usable(service: &Service, port: &Port, here: &Here, is_ipv4: bool) -> Usable {
    let name = (port.name.clone(), port.protocol);
    let mut all = Vec::new();
    for endpoint in &service.endpoints {
        if let Some(number) = endpoint.ports.get(&name).filter(|_| endpoint.address.is_ipv4() == is_ipv4) {
            let address = SocketAddr::new(endpoint.address, *number);
            let node = endpoint.node.as_deref().filter(|node| *node != here.node);
            all.push((endpoint, EndpointAddress { address, node: node.map(Into::into) }));
        }
    }
    let cluster = cluster(&all, here);
    let local = |is_wanted: bool| if is_wanted { local(&all, here) } else { cluster.clone() };
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

fn cluster(all: &[Candidate<'_>], here: &Here) -> Vec<EndpointAddress> {
    let ready: Vec<_> = all.iter().filter(|(endpoint, _)| endpoint.ready).cloned().collect();
    if ready.is_empty() { ending(all.iter()) } else { near(&ready, here) }
}

fn local(all: &[Candidate<'_>], here: &Here) -> Vec<EndpointAddress> {
    let here: Vec<_> =
        all.iter().filter(|(endpoint, _)| endpoint.node.as_ref() == Some(&here.node)).cloned().collect();
    let ready: Vec<_> =
        here.iter().filter(|(endpoint, _)| endpoint.ready).map(|(_, at)| at.clone()).collect();
    if ready.is_empty() { ending(here.iter()) } else { ready }
}

/// Those that end, and serve until they have.
fn ending<'a>(all: impl Iterator<Item = &'a Candidate<'a>>) -> Vec<EndpointAddress> {
    all.filter(|(endpoint, _)| endpoint.serving && endpoint.terminating).map(|(_, at)| at.clone()).collect()
}

/// Of the ready ones, those that hints give to this node, or else to its zone; all of them where hints are incomplete, or give this
/// node none.
fn near(ready: &[Candidate<'_>], here: &Here) -> Vec<EndpointAddress> {
    let given = |hints: fn(&Endpoint) -> &[String], own: Option<&String>| {
        let is_complete = ready.iter().all(|(endpoint, _)| !hints(endpoint).is_empty());
        let own = own.filter(|_| is_complete)?;
        let mine: Vec<_> = ready
            .iter()
            .filter(|(endpoint, _)| hints(endpoint).contains(own))
            .map(|(_, at)| at.clone())
            .collect();
        (!mine.is_empty()).then_some(mine)
    };
    given(|endpoint| &endpoint.for_nodes, Some(&here.node))
        .or_else(|| given(|endpoint| &endpoint.for_zones, here.zone.as_ref()))
        .unwrap_or_else(|| ready.iter().map(|(_, at)| at.clone()).collect())
}

#[cfg(test)]
#[path = "usable/tests.rs"]
mod tests;
