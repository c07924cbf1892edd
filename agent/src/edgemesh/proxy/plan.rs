//! The desired state of the proxy: its addresses, listeners and endpoints. Pure; [`super::planner`] computes it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use wire::relay::{self, ConnectRequest};

use super::{choose::Policy, endpoint_address::EndpointAddress, usable::NodeTopology};
use crate::{
    config::Network,
    edgemesh::{dialer::Destination, snapshot::Protocol},
};

/// The protocol, address and port of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ListenAddress {
    pub(super) protocol: Protocol,
    pub(super) address: SocketAddr,
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        };
        write!(f, "{protocol} {}", self.address)
    }
}

/// Where the connections of one listener go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    /// The Service: namespace/name.
    pub(super) service: String,
    /// The name of its port.
    pub(super) port: String,
    /// The endpoints for this node's own pods and programs.
    pub(super) for_local: Vec<EndpointAddress>,
    /// The endpoints for all other clients.
    pub(super) for_others: Vec<EndpointAddress>,
    /// All endpoints that still serve the clients that have them.
    pub(super) serving: Vec<EndpointAddress>,
    pub(super) policy: Policy,
    /// The addresses of this node's own pods and programs.
    pub(super) local: Arc<LocalAddresses>,
    /// The address of the listener: the kernel uses it as the source of a client on this node itself.
    pub(super) address: Option<IpAddr>,
    /// The networks of the clients whose connections are accepted; empty: all.
    pub(super) sources: Vec<Network>,
    /// At a NodePort: the machines that may be nodes with a NodePort to which a Service leads, and might send a connection round in a
    /// circle.
    pub(super) possible_nodes: Arc<BTreeSet<IpAddr>>,
    /// The endpoints for those machines: without any that may be a NodePort.
    pub(super) for_possible_nodes: Vec<EndpointAddress>,
}

impl Target {
    /// Reports whether any client has an endpoint.
    pub(super) fn has_endpoints(&self) -> bool {
        !self.for_local.is_empty() || !self.for_others.is_empty()
    }

    /// Returns the endpoints for a client.
    pub(super) fn endpoints(&self, client: IpAddr) -> &[EndpointAddress] {
        let is_own = self.address == Some(client);
        if !self.is_source(client, is_own) {
            &[]
        } else if self.possible_nodes.contains(&client) {
            &self.for_possible_nodes
        // mostly both are the same, and nothing needs to be looked up
        } else if self.for_local == self.for_others || is_own || self.local.contains(client) {
            &self.for_local
        } else {
            &self.for_others
        }
    }

    /// Reports whether the client's connections are accepted; those of this node's own programs if one of its addresses is allowed.
    fn is_source(&self, client: IpAddr, is_own: bool) -> bool {
        let has = |address: IpAddr| self.sources.iter().any(|network| network.contains(address));
        self.sources.is_empty()
            || has(client)
            || is_own && self.local.addresses.iter().copied().any(has)
    }

    /// Returns how an endpoint is dialled.
    pub(super) fn destination(&self, endpoint: &EndpointAddress) -> Destination {
        let is_direct = endpoint.node.is_none() || self.local.can_be_remote(endpoint.address.ip());
        Destination {
            address: endpoint.address,
            node: endpoint.node.clone(),
            is_direct,
        }
    }

    /// Builds the request to another node for one of its endpoints.
    pub(super) fn connect_request(
        &self,
        endpoint: &EndpointAddress,
        protocol: relay::Protocol,
    ) -> ConnectRequest {
        let (namespace, service) = self.service.split_once('/').unwrap_or_default();
        ConnectRequest {
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            port: self.port.clone(),
            protocol,
            endpoint: endpoint.address,
        }
    }
}

/// Addresses of this node's own pods and programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LocalAddresses {
    /// The node's addresses.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// The networks of its pods, by its `spec.podCIDRs`.
    pub(super) pod_networks: Vec<Network>,
    /// The networks of the interfaces behind which its pods are: an address there never leads to another node's pod.
    pub(super) interface_networks: Vec<Network>,
}

impl LocalAddresses {
    fn contains(&self, client: IpAddr) -> bool {
        client.is_loopback()
            || self.addresses.contains(&client)
            || self
                .pod_networks
                .iter()
                .any(|network| network.contains(client))
    }

    /// Reports whether dialling the address can lead to another node. Nodes may give their pods the same addresses, and an address that
    /// this node or its pods have, or may have, leads to them.
    pub(super) fn can_be_remote(&self, address: IpAddr) -> bool {
        let is_local = self
            .pod_networks
            .iter()
            .chain(&self.interface_networks)
            .any(|network| network.contains(address));
        !is_local && !self.addresses.contains(&address) && !address.is_loopback()
    }
}

/// What a plan depends on besides the snapshot.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanConfig {
    pub(super) node: NodeTopology,
    pub(super) local: Arc<LocalAddresses>,
    /// The networks of the node's addresses at which NodePorts are served; empty: all of its addresses.
    pub(super) node_port_networks: Vec<Network>,
    /// Whether MetaServer serves the API on this node, at the addresses of its Service.
    pub(super) serves_api: bool,
    /// The networks of the external addresses that Services may have.
    pub(super) external_networks: Vec<Network>,
    /// The most listeners; the Services of one namespace get half of them at most.
    pub(super) max_listeners: usize,
}

/// The desired state of the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The addresses that are delivered to this node.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// The listeners: only those that have endpoints, so that the kernel refuses all other connections at once.
    pub(super) targets: BTreeMap<ListenAddress, Target>,
    /// The addresses at which MetaServer serves the API; they have no listener here.
    pub(super) api: BTreeSet<SocketAddr>,
    /// What cannot be served, and why, each in a sentence.
    pub(super) unserved: BTreeSet<String>,
}
