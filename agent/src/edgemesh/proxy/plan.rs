//! What is to be listened to, and where connections go. Pure; [`super::planner`] makes it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use wire::relay::{self, Wanted};

use super::{choose::Policy, endpoint_address::EndpointAddress, usable::Here};
use crate::{
    config::Network,
    edgemesh::{dialer::Destination, snapshot::Protocol},
};

/// Where something is listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) protocol: Protocol,
    pub(super) address: SocketAddr,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        };
        write!(f, "{protocol} {}", self.address)
    }
}

/// Where connections to one place go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    /// The Service: namespace/name.
    pub(super) service: String,
    /// The name of its port.
    pub(super) port: String,
    /// The endpoints for this node's own pods and programs.
    pub(super) insiders: Vec<EndpointAddress>,
    /// The endpoints for everybody else.
    pub(super) outsiders: Vec<EndpointAddress>,
    /// All endpoints that still serve those who have them.
    pub(super) serving: Vec<EndpointAddress>,
    pub(super) policy: Policy,
    /// Who the insiders are.
    pub(super) inside: Arc<Inside>,
    /// Where it is listened to, which is what the kernel takes for the address of a client on this machine itself.
    pub(super) address: Option<IpAddr>,
    /// Whose connections are taken; empty: everybody's.
    pub(super) sources: Vec<Network>,
}

impl Target {
    /// Whether it can take connections.
    pub(super) fn has_endpoints(&self) -> bool {
        !self.insiders.is_empty() || !self.outsiders.is_empty()
    }

    /// The endpoints for a client.
    pub(super) fn endpoints(&self, client: IpAddr) -> &[EndpointAddress] {
        let is_here = self.address == Some(client);
        if !self.is_source(client, is_here) {
            &[]
        // the same mostly, and then nothing is looked up
        } else if self.insiders == self.outsiders || is_here || self.inside.has(client) {
            &self.insiders
        } else {
            &self.outsiders
        }
    }

    /// Whether the client's connections are taken; those of this machine's own programs where one of its addresses may.
    fn is_source(&self, client: IpAddr, is_here: bool) -> bool {
        let has = |address: IpAddr| self.sources.iter().any(|network| network.contains(address));
        self.sources.is_empty() || has(client) || is_here && self.inside.addresses.iter().copied().any(has)
    }

    /// How an endpoint is dialled.
    pub(super) fn destination(&self, at: &EndpointAddress) -> Destination {
        let is_direct = at.node.is_none() || self.inside.leads_elsewhere(at.address.ip());
        Destination { address: at.address, node: at.node.clone(), is_direct }
    }

    /// What is asked of another node for one.
    pub(super) fn wanted(&self, at: &EndpointAddress, protocol: relay::Protocol) -> Wanted {
        let (namespace, service) = self.service.split_once('/').unwrap_or_default();
        Wanted {
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            port: self.port.clone(),
            protocol,
            endpoint: at.address,
        }
    }
}

/// Addresses of this node's own pods and programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inside {
    /// This machine's.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Those of its pods.
    pub(super) pods: Vec<Network>,
    /// Where this node's own pods are, as its interfaces tell: no address there is another node's pod to it.
    pub(super) near: Vec<Network>,
}

impl Inside {
    fn has(&self, client: IpAddr) -> bool {
        client.is_loopback()
            || self.addresses.contains(&client)
            || self.pods.iter().any(|network| network.contains(client))
    }

    /// Whether an address of another node's endpoint leads there: nodes may give their pods the same addresses, and those that this machine
    /// or its pods have or may have lead to them.
    pub(super) fn leads_elsewhere(&self, address: IpAddr) -> bool {
        let is_near = self.pods.iter().chain(&self.near).any(|network| network.contains(address));
        !is_near && !self.addresses.contains(&address) && !address.is_loopback()
    }
}

/// What a plan is made for.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    pub(super) here: Here,
    pub(super) inside: Arc<Inside>,
    /// Which of the machine's addresses NodePorts answer at; empty: all of them.
    pub(super) node_port_networks: Vec<Network>,
    /// Whether the API is served on this machine, at the addresses of its Service.
    pub(super) serves_api: bool,
    /// Networks whose addresses Services may have that are not the cluster's own.
    pub(super) external_networks: Vec<Network>,
    /// So many sockets are listened to; half of them are for Services of one namespace.
    pub(super) max_listeners: usize,
}

/// What is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The addresses that are delivered to this machine.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// What is listened to: only what has endpoints, so that everything else is refused at once by the kernel.
    pub(super) targets: BTreeMap<Place, Target>,
    /// Where the API is served, which is not listened to here.
    pub(super) api: BTreeSet<SocketAddr>,
    /// What cannot be served, and why.
    pub(super) refused: BTreeSet<String>,
}
