//! What is to be listened to, and where connections go. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use super::{
    choose::Policy,
    usable::{Here, usable},
};
use crate::{
    config::Network,
    edgemesh::snapshot::{Kind, Port, Protocol, Service, Snapshot},
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
    /// The Service, for people: namespace/name.
    pub(super) service: String,
    /// The endpoints for this node's own pods and programs.
    pub(super) insiders: Vec<SocketAddr>,
    /// The endpoints for everybody else.
    pub(super) outsiders: Vec<SocketAddr>,
    /// All endpoints that still serve those who have them.
    pub(super) serving: Vec<SocketAddr>,
    pub(super) policy: Policy,
    /// Who the insiders are.
    pub(super) inside: Arc<Inside>,
}

impl Target {
    fn has_endpoints(&self) -> bool {
        !self.insiders.is_empty() || !self.outsiders.is_empty()
    }

    /// The endpoints for a client.
    pub(super) fn endpoints(&self, client: IpAddr) -> &[SocketAddr] {
        // the same mostly, and then nothing is looked up
        if self.insiders == self.outsiders || self.inside.has(client) {
            &self.insiders
        } else {
            &self.outsiders
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
}

impl Inside {
    fn has(&self, client: IpAddr) -> bool {
        client.is_loopback()
            || self.addresses.contains(&client)
            || self.pods.iter().any(|network| network.contains(client))
    }
}

/// What a plan is made for.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    pub(super) here: Here,
    pub(super) inside: Arc<Inside>,
    /// Which of the machine's addresses NodePorts answer at; empty: all of them.
    pub(super) node_port_networks: Vec<Network>,
    /// Networks whose addresses Services may have that are not the cluster's own.
    pub(super) external_networks: Vec<Network>,
    /// So many sockets are listened to.
    pub(super) max_listeners: usize,
}

/// What is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The addresses that are delivered to this machine.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// What is listened to: only what has endpoints, so that everything else is refused at once by the kernel.
    pub(super) targets: BTreeMap<Place, Target>,
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
    }
    for (name, service) in proxied() {
        plan.add_node_ports(name, service, machine);
    }
    plan.leave_out_circles();
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
        for address in addresses {
            if let Err(why) = may_have(*address, is_own, machine) {
                let (namespace, name) = name;
                self.refused.insert(format!("Service {namespace}/{name} claims {address}, {why}"));
                continue;
            }
            // nothing else answers at an address of the cluster's own; another one is left to whom it belongs while nothing serves
            let mut is_served = is_own;
            for port in &service.ports {
                let place = Place { protocol: port.protocol, address: SocketAddr::new(*address, port.port) };
                let target = self.target(name, service, port, (is_own, *address, machine));
                is_served |= target.has_endpoints();
                self.add(place, target, machine);
            }
            if is_served {
                self.addresses.insert(*address);
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
                    let target = self.target(name, service, port, (false, *address, machine));
                    self.add(place, target, machine);
                }
            }
        }
    }

    /// Where connections to a port of the Service go.
    fn target(
        &mut self,
        (namespace, name): &Name,
        service: &Service,
        port: &Port,
        (is_own, address, machine): (bool, IpAddr, &Machine),
    ) -> Target {
        let policy = Policy { balancing: service.balancing, affinity: service.affinity };
        let mut usable = usable(service, port, &machine.here, address.is_ipv4());
        for endpoints in
            [&mut usable.internal, &mut usable.cluster, &mut usable.external, &mut usable.serving]
        {
            endpoints.retain(|endpoint| {
                let is_special = is_special(endpoint.ip());
                if is_special {
                    let address = endpoint.ip();
                    self.refused.insert(format!(
                        "Service {namespace}/{name} has the endpoint {address}, which no pod can have; it is left out"
                    ));
                }
                !is_special
            });
        }
        let (insiders, outsiders) = if is_own {
            (usable.internal.clone(), usable.internal)
        } else {
            (usable.cluster, usable.external)
        };
        Target {
            service: format!("{namespace}/{name}"),
            insiders,
            outsiders,
            serving: usable.serving,
            policy,
            inside: machine.inside.clone(),
        }
    }

    /// Leaves out endpoints that are Services here: what is sent to one of them would come back to the agent, without end.
    fn leave_out_circles(&mut self) {
        let places: BTreeSet<Place> = self.targets.keys().copied().collect();
        let (addresses, refused) = (&self.addresses, &mut self.refused);
        self.targets.retain(|place, target| {
            let service = &target.service;
            for endpoints in [&mut target.insiders, &mut target.outsiders, &mut target.serving] {
                endpoints.retain(|endpoint| {
                    let same = Place { protocol: place.protocol, address: *endpoint };
                    let is_circle = addresses.contains(&endpoint.ip()) || places.contains(&same);
                    if is_circle {
                        refused.insert(format!(
                            "Service {service} has the endpoint {endpoint}, which is itself the address of a Service; it is left out"
                        ));
                    }
                    !is_circle
                });
            }
            target.has_endpoints()
        });
    }

    fn add(&mut self, place: Place, target: Target, machine: &Machine) {
        if !target.has_endpoints() {
            return;
        }
        if let Some(other) = self.targets.get(&place) {
            let (loser, winner) = (&target.service, &other.service);
            if loser != winner {
                self.refused
                    .insert(format!("Service {loser} does not get {place}, which Service {winner} has"));
            }
        } else if self.targets.len() >= machine.max_listeners {
            let (service, most) = (&target.service, machine.max_listeners);
            self.refused.insert(format!(
                "Service {service} does not get {place}: {most} ports are listened to, and the process may not have files for more \
                 (LimitNOFILE of its unit, ulimit -n)"
            ));
        } else {
            self.targets.insert(place, target);
        }
    }
}

/// Whether a Service may have this address, which is the cluster's own or one from outside of it.
fn may_have(address: IpAddr, is_own: bool, machine: &Machine) -> Result<(), &'static str> {
    if machine.inside.addresses.contains(&address) {
        Err("which is this machine's own; what listens there goes on")
    } else if is_special(address) {
        Err("which no Service can have")
    } else if !is_own && !machine.external_networks.iter().any(|network| network.contains(address)) {
        Err(
            "which is not in modules.edgeMesh.externalAddresses; what is sent there leaves the node as before",
        )
    } else {
        Ok(())
    }
}

/// Addresses that neither a Service nor a pod has: Kubernetes' `ValidateNonSpecialIP`, multicast and broadcast.
fn is_special(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.to_ipv4_mapped().is_some(),
    };
    address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_link_local
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
