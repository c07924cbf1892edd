//! From a snapshot to a plan. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
};

use super::{
    choose::Policy,
    endpoint_address::EndpointAddress,
    plan::{Machine, Place, Plan, Target},
    usable::{Usable, usable},
};
use crate::edgemesh::snapshot::{Kind, Port, Protocol, Service, Snapshot, is_special};

/// The Service of the API: namespace and name.
const API: (&str, &str) = ("default", "kubernetes");
/// Namespaces whose Services come before those of others, which could otherwise leave them no port.
const FIRST: [&str; 1] = ["kube-system"];
/// Ports of one Service that are listened to.
const MAX_PORTS: usize = 256;
/// Endpoints of all ports of one Service together.
const MAX_ENDPOINTS: usize = 20_000;

/// The plan for a snapshot. Services come in their order, that of the API and those of the system first, and what one has another does
/// not get: their own addresses before those that they only claim.
pub(super) fn plan(snapshot: &Snapshot, machine: &Machine) -> Plan {
    let is_proxied = |(_, service): &(_, &Service)| service.kind == Kind::Proxied && !service.elsewhere;
    let mut services: Vec<_> = snapshot.services.iter().filter(is_proxied).collect();
    services.sort_by_key(|((namespace, name), _)| {
        let is_api = (namespace.as_str(), name.as_str()) == API;
        (!is_api, !FIRST.contains(&namespace.as_str()))
    });
    let mut planner = Planner {
        machine,
        own: own_places(&services, machine),
        of_namespace: HashMap::new(),
        plan: Plan::default(),
    };
    for (name, service) in &services {
        planner.add_addresses(name, service, &service.cluster_ips, true);
    }
    for (name, service) in &services {
        planner.add_addresses(name, service, &service.external_ips, false);
        planner.add_addresses(name, service, &service.balancer_ips, false);
    }
    for (name, service) in &services {
        planner.add_node_ports(name, service);
        for what in &service.unserved {
            planner.refuse(name, what);
        }
    }
    planner.plan
}

type Name = (String, String);

/// Addresses and ports of Services on this machine. An endpoint that is one of them would lead back to the agent, without end.
struct OwnPlaces {
    addresses: BTreeSet<IpAddr>,
    node_ports: BTreeSet<(Protocol, u16)>,
}

/// What is only claimed, and may not be had, is nobody's place.
fn own_places(services: &[(&Name, &Service)], machine: &Machine) -> OwnPlaces {
    let mut own = OwnPlaces { addresses: BTreeSet::new(), node_ports: BTreeSet::new() };
    for (_, service) in services {
        let external = service.external_ips.iter().chain(&service.balancer_ips);
        let all = service.cluster_ips.iter().map(|address| (address, true));
        for (address, is_own) in all.chain(external.map(|address| (address, false))) {
            if may_have(*address, is_own, machine).is_ok() {
                own.addresses.insert(*address);
            }
        }
        let ports = service.ports.iter();
        own.node_ports.extend(ports.filter_map(|port| Some((port.protocol, port.node_port?))));
    }
    own
}

struct Planner<'a> {
    machine: &'a Machine,
    own: OwnPlaces,
    /// Ports that are listened to, by namespace.
    of_namespace: HashMap<&'a str, usize>,
    plan: Plan,
}

impl<'a> Planner<'a> {
    /// Says something of a Service that is not served.
    fn refuse(&mut self, (namespace, name): &Name, what: &str) {
        self.plan.refused.insert(format!("Service {namespace}/{name} {what}"));
    }

    fn add_addresses(&mut self, name: &'a Name, service: &Service, addresses: &[IpAddr], is_own: bool) {
        let is_api = is_own && self.machine.serves_api && (name.0.as_str(), name.1.as_str()) == API;
        for address in addresses {
            if let Err(why) = may_have(*address, is_own, self.machine) {
                self.refuse(name, &format!("claims {address}, {why}"));
                continue;
            }
            // nothing else answers at an address of the cluster's own; another one is left to whom it belongs while nothing serves
            let mut is_served = is_own;
            for port in self.ports(name, service) {
                let place = Place { protocol: port.protocol, address: SocketAddr::new(*address, port.port) };
                if is_api && port.protocol == Protocol::Tcp {
                    self.plan.api.insert(place.address);
                    continue;
                }
                let target = self.target(name, service, port, (is_own, *address));
                is_served |= target.has_endpoints();
                self.add(name, place, target);
            }
            if is_served {
                self.plan.addresses.insert(*address);
            }
        }
    }

    fn add_node_ports(&mut self, name: &'a Name, service: &Service) {
        let machine = self.machine;
        for port in self.ports(name, service) {
            let Some(number) = port.node_port else { continue };
            for address in &machine.inside.addresses {
                // as kube-proxy: never at ::1, and an address that is of one link only is no node's
                let is_served = service.cluster_ips.iter().any(|own| own.is_ipv4() == address.is_ipv4())
                    && !matches!(address, IpAddr::V6(six) if six.is_loopback() || six.is_unicast_link_local());
                let is_wanted = machine.node_port_networks.is_empty()
                    || machine.node_port_networks.iter().any(|network| network.contains(*address));
                if is_served && is_wanted {
                    let place = Place { protocol: port.protocol, address: SocketAddr::new(*address, number) };
                    let target = self.target(name, service, port, (false, *address));
                    self.add(name, place, target);
                }
            }
        }
    }

    /// The ports of a Service that are served: as many as the bounds allow for their endpoints.
    fn ports<'s>(&mut self, name: &Name, service: &'s Service) -> &'s [Port] {
        let most = MAX_PORTS.min((MAX_ENDPOINTS / service.endpoints.len().max(1)).max(1));
        if service.ports.len() > most {
            let (ports, endpoints) = (service.ports.len(), service.endpoints.len());
            self.refuse(
                name,
                &format!(
                    "has {ports} ports and {endpoints} endpoints, of which the first {most} ports are served"
                ),
            );
        }
        service.ports.get(..most).unwrap_or(&service.ports)
    }

    /// Where connections to a port of the Service go.
    fn target(
        &mut self,
        name: &Name,
        service: &Service,
        port: &Port,
        (is_own, address): (bool, IpAddr),
    ) -> Target {
        let mut usable = usable(service, port, &self.machine.here, address.is_ipv4());
        let Usable { internal, cluster, external, serving } = &mut usable;
        for endpoints in [internal, cluster, external, serving] {
            endpoints.retain(|endpoint| match self.may_lead_to(endpoint, port.protocol) {
                Ok(()) => true,
                Err(why) => {
                    self.refuse(name, &format!("has the endpoint {endpoint}, {why}; it is left out"));
                    false
                }
            });
        }
        let (insiders, outsiders) = if is_own {
            (usable.internal.clone(), usable.internal)
        } else {
            (usable.cluster, usable.external)
        };
        let is_balancer = service.balancer_ips.contains(&address);
        let (namespace, name) = name;
        Target {
            service: format!("{namespace}/{name}"),
            port: port.name.clone(),
            insiders,
            outsiders,
            serving: usable.serving,
            policy: Policy { balancing: service.balancing, affinity: service.affinity },
            inside: self.machine.inside.clone(),
            address: Some(address),
            // NodePorts are at the machine's own addresses, which no load balancer has
            sources: if is_balancer { service.source_ranges.clone() } else { Vec::new() },
        }
    }

    /// Whether an endpoint can be a pod.
    fn may_lead_to(&self, endpoint: &EndpointAddress, protocol: Protocol) -> Result<(), &'static str> {
        let address = endpoint.address.ip();
        let is_node_port = self.own.node_ports.contains(&(protocol, endpoint.address.port()))
            && self.machine.inside.addresses.contains(&address);
        if is_special(address) {
            Err("whose address no pod can have")
        } else if self.own.addresses.contains(&address) || is_node_port {
            Err("which is itself the address of a Service")
        } else {
            Ok(())
        }
    }

    fn add(&mut self, name: &'a Name, place: Place, target: Target) {
        if !target.has_endpoints() {
            return;
        }
        let most = self.machine.max_listeners;
        let of_namespace = self.of_namespace.get(name.0.as_str()).copied().unwrap_or_default();
        if place.protocol == Protocol::Tcp && self.plan.api.contains(&place.address) {
            let (namespace, api) = API;
            self.refuse(name, &format!("does not get {place}, which Service {namespace}/{api} has"));
        } else if let Some(other) = self.plan.targets.get(&place) {
            let winner = other.service.clone();
            if target.service != winner {
                self.refuse(name, &format!("does not get {place}, which Service {winner} has"));
            }
        } else if of_namespace >= most.div_ceil(2) {
            self.refuse(name, &format!("does not get all its ports: half of the {most} that are listened to are for one namespace"));
        } else if self.plan.targets.len() >= most {
            self.refuse(
                name,
                &format!(
                    "does not get all its ports: {most} are listened to, and the process may not have files for more (LimitNOFILE of its \
                     unit, ulimit -n)"
                ),
            );
        } else {
            *self.of_namespace.entry(name.0.as_str()).or_default() += 1;
            self.plan.targets.insert(place, target);
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

#[cfg(test)]
#[path = "planner/tests.rs"]
mod tests;
