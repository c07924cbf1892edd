//! Services with their endpoints, as DNS and the proxy read them. Immutable: a change is a new snapshot.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use tokio::sync::watch;
use wire::metadata::is_metadata_address;

use crate::config::{Network, Strategy};

/// The newest snapshot, to be read or awaited.
pub type Snapshots = watch::Receiver<Arc<Snapshot>>;

/// All Services that this node knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By namespace and name.
    pub services: BTreeMap<(String, String), Service>,
    /// Whether Services and EndpointSlices have both been listed, from the cloud or from disk.
    pub synced: bool,
}

/// A Service and its endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// How it is reached.
    pub kind: Kind,
    /// `spec.clusterIPs`; empty for headless Services and ExternalName.
    pub cluster_ips: Vec<IpAddr>,
    /// `spec.externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// The addresses of a load balancer whose `ipMode` is not `Proxy`.
    pub balancer_ips: Vec<IpAddr>,
    /// `spec.loadBalancerSourceRanges`: the clients whose connections to the load balancer's addresses are accepted; empty: all.
    pub source_ranges: Vec<Network>,
    /// `spec.ports`.
    pub ports: Vec<Port>,
    /// The endpoints of all its EndpointSlices: one entry for each address, and a further one where a port of one name has two numbers
    /// there.
    pub endpoints: Vec<Endpoint>,
    /// `spec.publishNotReadyAddresses`.
    pub publish_not_ready: bool,
    /// How long a client keeps its endpoint after its last connection, where `sessionAffinity` is `ClientIP`.
    pub affinity: Option<Duration>,
    /// `internalTrafficPolicy: Local`.
    pub internal_local: bool,
    /// `externalTrafficPolicy: Local`.
    pub external_local: bool,
    /// How an endpoint is chosen for a connection.
    pub balancing: Strategy,
    /// What is set in it and not supported on this node, each as the predicate of a sentence about it.
    pub unserved: Vec<String>,
    /// Whether another proxy serves its addresses; only DNS answers for it then.
    pub other_proxy: bool,
}

/// How a Service is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// At its addresses, which are proxied.
    #[default]
    Proxied,
    /// `clusterIP: None`: DNS names its endpoints.
    Headless,
    /// DNS answers with this name.
    ExternalName(String),
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Empty for the only port of a Service.
    pub name: String,
    /// TCP or UDP; other protocols are not kept.
    pub protocol: Protocol,
    /// The number at the Service's addresses.
    pub port: u16,
    /// The number at the node's addresses.
    pub node_port: Option<u16>,
}

/// A protocol that is proxied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// One address that serves a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address, mostly a pod's.
    pub address: IpAddr,
    /// Its label in the Service's DNS domain, where it has one.
    pub hostname: Option<String>,
    /// The node that it runs on.
    pub node: Option<String>,
    /// Condition `ready`; a missing one counts as true.
    pub ready: bool,
    /// Condition `serving`.
    pub serving: bool,
    /// Condition `terminating`.
    pub terminating: bool,
    /// Zones that topology hints name.
    pub for_zones: Vec<String>,
    /// Nodes that topology hints name.
    pub for_nodes: Vec<String>,
    /// The number behind each port of the Service, by the port's name and protocol.
    pub ports: BTreeMap<(String, Protocol), u16>,
}

/// Reports whether neither a Service nor a pod can have this address: Kubernetes' `ValidateNonSpecialIP`, multicast, broadcast, and
/// metadata services of clouds. The API refuses most of them in EndpointSlices as well, so that their authors reach no program that
/// listens for this machine alone; the API server of a cluster accepts metadata services outside the link-local range.
pub(crate) fn is_special(address: IpAddr) -> bool {
    let is_misleading = match address {
        IpAddr::V4(address) => address.is_broadcast(),
        IpAddr::V6(address) => address.to_ipv4_mapped().is_some(),
    };
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || is_misleading
        || is_metadata_address(address)
}
