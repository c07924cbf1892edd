//! What is to be listened to, and where connections go. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use wire::relay::{self, Wanted};

use super::{
    at::At,
    choose::Policy,
    usable::{Here, usable},
};
use crate::{
    config::Network,
    edgemesh::{
        snapshot::{Kind, Port, Protocol, Service, Snapshot},
        ways::Aim,
    },
};

/// The Service of the API: namespace and name.
const API: (&str, &str) = ("default", "kubernetes");
/// So many sockets are listened to.
const LISTENERS: usize = 8192;

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
    pub(super) insiders: Vec<At>,
    /// The endpoints for everybody else.
    pub(super) outsiders: Vec<At>,
    /// All endpoints that still serve those who have them.
    pub(super) serving: Vec<At>,
    pub(super) policy: Policy,
    /// Who the insiders are.
    pub(super) inside: Arc<Inside>,
    /// Where it is listened to, which is what the kernel takes for the address of a client on this machine itself.
    pub(super) address: Option<IpAddr>,
    /// Whose connections are taken; empty: everybody's.
    pub(super) sources: Vec<Network>,
}

impl Target {
    /// The endpoints for a client.
    pub(super) fn endpoints(&self, client: IpAddr) -> &[At] {
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
}

impl Target {
    /// How an endpoint is dialled.
    pub(super) fn aim(&self, at: &At) -> Aim {
        let is_direct = at.node.is_none() || self.inside.leads_elsewhere(at.address.ip());
        Aim { address: at.address, node: at.node.clone(), is_direct }
    }

    /// What is asked of another node for one.
    pub(super) fn wanted(&self, at: &At, protocol: relay::Protocol) -> Wanted {
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

/// The plan for a snapshot. Services come in their order, and what one has another does not get: their own addresses before those that
/// they only claim.
pub(super) fn plan(snapshot: &Snapshot, machine: &Machine) -> Plan {
    let mut plan = Plan::default();
    let proxied = || {
        let is_proxied = |(_, service): &(_, &Service)| service.kind == Kind::Proxied && !service.elsewhere;
        snapshot.services.iter().filter(is_proxied)
    };
    for (name, service) in proxied() {
        plan.add_addresses(name, service, &service.cluster_ips, (true, machine));
    }
    for (name, service) in proxied() {
        plan.add_addresses(name, service, &service.external_ips, (false, machine));
        plan.add_addresses(name, service, &service.balancer_ips, (false, machine));
    }
    for (name, service) in proxied() {
        plan.add_node_ports(name, service, machine);
        let (namespace, name) = name;
        let unserved = service.unserved.iter().map(|what| format!("Service {namespace}/{name} {what}"));
        plan.refused.extend(unserved);
    }
    plan
}

type Name = (String, String);

impl Plan {
    fn add_addresses(
        &mut self,
        name: &Name,
        service: &Service,
        addresses: &[IpAddr],
        (is_own, machine): (bool, &Machine),
    ) {
        let is_api = is_own && machine.serves_api && (name.0.as_str(), name.1.as_str()) == API;
        for address in addresses {
            if let Err(why) = may_have(*address, machine) {
                let (namespace, name) = name;
                self.refused.insert(format!("Service {namespace}/{name} claims {address}, {why}"));
                continue;
            }
            self.addresses.insert(*address);
            for port in &service.ports {
                let place = Place { protocol: port.protocol, address: SocketAddr::new(*address, port.port) };
                if is_api && port.protocol == Protocol::Tcp {
                    self.api.insert(place.address);
                    continue;
                }
                let target = target(name, service, port, (is_own, *address, machine));
                self.add(place, target);
            }
        }
    }

    fn add_node_ports(&mut self, name: &Name, service: &Service, machine: &Machine) {
        for port in &service.ports {
            let Some(number) = port.node_port else { continue };
            for address in &machine.inside.addresses {
                // as kube-proxy: never at ::1, and an address that is of one link only is no node's
                let is_served = service.cluster_ips.iter().any(|own| own.is_ipv4() == address.is_ipv4())
                    && !matches!(address, IpAddr::V6(six) if six.is_loopback() || six.is_unicast_link_local());
                let is_wanted = machine.node_port_networks.is_empty()
                    || machine.node_port_networks.iter().any(|network| network.contains(*address));
                if is_served && is_wanted {
                    let place = Place { protocol: port.protocol, address: SocketAddr::new(*address, number) };
                    self.add(place, target(name, service, port, (false, *address, machine)));
                }
            }
        }
    }

    fn add(&mut self, place: Place, target: Target) {
        if target.insiders.is_empty() && target.outsiders.is_empty() {
            return;
        }
        if place.protocol == Protocol::Tcp && self.api.contains(&place.address) {
            let (loser, (namespace, name)) = (target.service, API);
            let why = format!("Service {loser} does not get {place}, which Service {namespace}/{name} has");
            self.refused.insert(why);
        } else if let Some(other) = self.targets.get(&place) {
            let (loser, winner) = (&target.service, &other.service);
            if loser != winner {
                self.refused
                    .insert(format!("Service {loser} does not get {place}, which Service {winner} has"));
            }
        } else if self.targets.len() >= LISTENERS {
            let why =
                format!("Service {} does not get {place}: {LISTENERS} ports are listened to", target.service);
            self.refused.insert(why);
        } else {
            self.targets.insert(place, target);
        }
    }
}

/// Whether a Service may have this address.
fn may_have(address: IpAddr, machine: &Machine) -> Result<(), &'static str> {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    if machine.inside.addresses.contains(&address) {
        Err("which is this machine's own; what listens there goes on")
    } else if address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_link_local {
        Err("which no Service can have")
    } else {
        Ok(())
    }
}

fn target(
    (namespace, name): &Name,
    service: &Service,
    port: &Port,
    (is_own, address, machine): (bool, IpAddr, &Machine),
) -> Target {
    let policy = Policy { balancing: service.balancing, affinity: service.affinity };
    let inside = machine.inside.clone();
    let usable = usable(service, port, &machine.here, address.is_ipv4());
    let (insiders, outsiders) =
        if is_own { (usable.internal.clone(), usable.internal) } else { (usable.cluster, usable.external) };
    Target {
        service: format!("{namespace}/{name}"),
        port: port.name.clone(),
        insiders,
        outsiders,
        serving: usable.serving,
        policy,
        inside,
        address: Some(address),
        // NodePorts are at the machine's own addresses, which no load balancer has
        sources: if service.balancer_ips.contains(&address) {
            service.source_ranges.clone()
        } else {
            Vec::new()
        },
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
