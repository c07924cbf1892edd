//! Computes the plan for a snapshot. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use super::{
    choose::Policy,
    endpoint_address::EndpointAddress,
    plan::{ListenAddress, Plan, PlanConfig, Target},
    usable::{Usable, usable},
};
use crate::edgemesh::snapshot::{Kind, Port, Protocol, Service, Snapshot, is_special};

/// The Service of the API: namespace and name.
const API: (&str, &str) = ("default", "kubernetes");
/// Namespaces whose Services are planned before those of others, which could otherwise leave them no port.
const PRIORITY_NAMESPACES: [&str; 1] = ["kube-system"];
/// How many ports of one Service are served.
const MAX_PORTS: usize = 256;
/// How many endpoints all ports of one Service may have together.
const MAX_ENDPOINTS: usize = 20_000;

/// Computes the plan for a snapshot. Services are planned in the order of their names, that of the API and those of the system first;
/// what one has, another does not get. Their own addresses come before the external ones that they only claim.
pub(super) fn plan(snapshot: &Snapshot, config: &PlanConfig) -> Plan {
    let is_proxied =
        |(_, service): &(_, &Service)| service.kind == Kind::Proxied && !service.other_proxy;
    let mut services: Vec<_> = snapshot.services.iter().filter(is_proxied).collect();
    services.sort_by_key(|((namespace, name), _)| {
        let is_api = (namespace.as_str(), name.as_str()) == API;
        (!is_api, !PRIORITY_NAMESPACES.contains(&namespace.as_str()))
    });
    let mut planner = Planner {
        config,
        own: ServiceAddresses::new(&services, config),
        listeners_of: HashMap::new(),
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
            planner.record_unserved(name, what);
        }
    }
    planner.plan
}

type Name = (String, String);

/// The addresses and ports of Services on this node. An endpoint that is one of them would lead back to the agent, without end.
struct ServiceAddresses {
    addresses: BTreeSet<IpAddr>,
    node_ports: BTreeSet<(Protocol, u16)>,
    /// The addresses of endpoints with a NodePort's number. Which of them are those of other nodes, and lead to agents there, is not
    /// known here: a node does not see other Nodes. But an agent that sends a connection on comes from an address that is among these
    /// wherever Services lead from node to node in a circle.
    possible_nodes: Arc<BTreeSet<IpAddr>>,
}

impl ServiceAddresses {
    /// Collects them, without the addresses that a Service claims and may not have.
    fn new(services: &[(&Name, &Service)], config: &PlanConfig) -> Self {
        let mut all = Self {
            addresses: BTreeSet::new(),
            node_ports: BTreeSet::new(),
            possible_nodes: Arc::default(),
        };
        for (_, service) in services {
            let external = service.external_ips.iter().chain(&service.balancer_ips);
            let own = service.cluster_ips.iter().map(|address| (address, true));
            for (address, is_own) in own.chain(external.map(|address| (address, false))) {
                if check_address(*address, is_own, config).is_ok() {
                    all.addresses.insert(*address);
                }
            }
            let ports = service.ports.iter();
            all.node_ports
                .extend(ports.filter_map(|port| Some((port.protocol, port.node_port?))));
        }
        let endpoints = services.iter().flat_map(|(_, service)| &service.endpoints);
        let possible = endpoints.filter(|endpoint| {
            endpoint
                .ports
                .iter()
                .any(|((_, protocol), number)| all.is_node_port(*protocol, *number))
        });
        all.possible_nodes = Arc::new(possible.map(|endpoint| endpoint.address).collect());
        all
    }

    fn is_node_port(&self, protocol: Protocol, number: u16) -> bool {
        self.node_ports.contains(&(protocol, number))
    }
}

struct Planner<'a> {
    config: &'a PlanConfig,
    own: ServiceAddresses,
    /// The number of listeners of each namespace.
    listeners_of: HashMap<&'a str, usize>,
    plan: Plan,
}

impl<'a> Planner<'a> {
    /// Records what of a Service is not served.
    fn record_unserved(&mut self, (namespace, name): &Name, what: &str) {
        self.plan
            .unserved
            .insert(format!("Service {namespace}/{name} {what}"));
    }

    fn add_addresses(
        &mut self,
        name: &'a Name,
        service: &Service,
        addresses: &[IpAddr],
        is_own: bool,
    ) {
        let is_api = is_own && self.config.serves_api && (name.0.as_str(), name.1.as_str()) == API;
        for address in addresses {
            if let Err(why) = check_address(*address, is_own, self.config) {
                self.record_unserved(name, &format!("claims {address}, {why}"));
                continue;
            }
            // a cluster IP is always delivered here; an external address only while an endpoint serves it, since it may belong to another
            // host
            let mut is_served = is_own;
            for port in self.ports(name, service) {
                let listen = ListenAddress {
                    protocol: port.protocol,
                    address: SocketAddr::new(*address, port.port),
                };
                if is_api && port.protocol == Protocol::Tcp {
                    self.plan.api.insert(listen.address);
                    continue;
                }
                let target = self.target(name, service, port, is_own, *address);
                is_served |= target.has_endpoints();
                self.add_listener(name, listen, target);
            }
            if is_served {
                self.plan.addresses.insert(*address);
            }
        }
    }

    fn add_node_ports(&mut self, name: &'a Name, service: &Service) {
        let config = self.config;
        for port in self.ports(name, service) {
            let Some(number) = port.node_port else {
                continue;
            };
            for address in &config.local.addresses {
                // as kube-proxy does: not at ::1, nor at addresses of one link only
                let is_served = service
                    .cluster_ips
                    .iter()
                    .any(|own| own.is_ipv4() == address.is_ipv4())
                    && !matches!(address, IpAddr::V6(six) if six.is_loopback() || six.is_unicast_link_local());
                let is_wanted = config.node_port_networks.is_empty()
                    || config
                        .node_port_networks
                        .iter()
                        .any(|network| network.contains(*address));
                if is_served && is_wanted {
                    let listen = ListenAddress {
                        protocol: port.protocol,
                        address: SocketAddr::new(*address, number),
                    };
                    let target = self.target(name, service, port, false, *address);
                    self.add_listener(name, listen, target);
                }
            }
        }
    }

    /// Returns the ports of a Service that are served: as many as the limits allow for its endpoints.
    fn ports<'s>(&mut self, name: &Name, service: &'s Service) -> &'s [Port] {
        let most = MAX_PORTS.min((MAX_ENDPOINTS / service.endpoints.len().max(1)).max(1));
        if service.ports.len() > most {
            let (ports, endpoints) = (service.ports.len(), service.endpoints.len());
            self.record_unserved(
                name,
                &format!(
                    "has {ports} ports and {endpoints} endpoints, of which the first {most} ports are served"
                ),
            );
        }
        service.ports.get(..most).unwrap_or(&service.ports)
    }

    /// Computes where connections to a port of the Service go.
    fn target(
        &mut self,
        name: &Name,
        service: &Service,
        port: &Port,
        is_own: bool,
        address: IpAddr,
    ) -> Target {
        let mut usable = usable(service, port, &self.config.node, address.is_ipv4());
        let Usable {
            internal,
            cluster,
            external,
            serving,
        } = &mut usable;
        for endpoints in [internal, cluster, external, serving] {
            endpoints.retain(
                |endpoint| match self.check_endpoint(endpoint, port.protocol) {
                    Ok(()) => true,
                    Err(why) => {
                        self.record_unserved(
                            name,
                            &format!("has the endpoint {endpoint}, {why}; endpoint skipped"),
                        );
                        false
                    }
                },
            );
        }
        let (for_local, for_others) = if is_own {
            (usable.internal.clone(), usable.internal)
        } else {
            (usable.cluster, usable.external)
        };
        let (possible_nodes, for_possible_nodes) =
            self.loop_free(&for_others, port.protocol, address);
        let is_balancer = service.balancer_ips.contains(&address);
        let (namespace, name) = name;
        Target {
            service: format!("{namespace}/{name}"),
            port: port.name.clone(),
            for_local,
            for_others,
            serving: usable.serving,
            policy: Policy {
                balancing: service.balancing,
                affinity: service.affinity,
            },
            local: self.config.local.clone(),
            address: Some(address),
            // NodePorts are at the node's own addresses, which no load balancer has
            sources: if is_balancer {
                service.source_ranges.clone()
            } else {
                Vec::new()
            },
            possible_nodes,
            for_possible_nodes,
        }
    }

    /// Returns the machines that get other endpoints at a NodePort, and these endpoints; nothing for other addresses than the node's, and
    /// where no endpoint may be a NodePort.
    fn loop_free(
        &self,
        endpoints: &[EndpointAddress],
        protocol: Protocol,
        address: IpAddr,
    ) -> (Arc<BTreeSet<IpAddr>>, Vec<EndpointAddress>) {
        let may_loop =
            |endpoint: &&EndpointAddress| self.own.is_node_port(protocol, endpoint.address.port());
        if !self.config.local.addresses.contains(&address)
            || !endpoints.iter().any(|one| may_loop(&one))
        {
            return Default::default();
        }
        let others = endpoints.iter().filter(|one| !may_loop(one)).cloned();
        (self.own.possible_nodes.clone(), others.collect())
    }

    /// Checks that an endpoint can be a pod; the error is the reason why not.
    fn check_endpoint(
        &self,
        endpoint: &EndpointAddress,
        protocol: Protocol,
    ) -> Result<(), &'static str> {
        let address = endpoint.address.ip();
        let is_node_port = self.own.is_node_port(protocol, endpoint.address.port())
            && self.config.local.addresses.contains(&address);
        if is_special(address) {
            Err("whose address no pod can have")
        } else if self.own.addresses.contains(&address) || is_node_port {
            Err("which is itself the address of a Service")
        } else {
            Ok(())
        }
    }

    /// Adds a listener, if it has endpoints and the limits allow it.
    fn add_listener(&mut self, name: &'a Name, listen: ListenAddress, target: Target) {
        if !target.has_endpoints() {
            return;
        }
        let most = self.config.max_listeners;
        let of_namespace = self
            .listeners_of
            .get(name.0.as_str())
            .copied()
            .unwrap_or_default();
        if listen.protocol == Protocol::Tcp && self.plan.api.contains(&listen.address) {
            let (namespace, api) = API;
            self.record_unserved(
                name,
                &format!("cannot listen on {listen}, which Service {namespace}/{api} uses"),
            );
        } else if let Some(other) = self.plan.targets.get(&listen) {
            let winner = other.service.clone();
            if target.service != winner {
                self.record_unserved(
                    name,
                    &format!("cannot listen on {listen}, which Service {winner} uses"),
                );
            }
        } else if of_namespace >= most.div_ceil(2) {
            self.record_unserved(
                name,
                &format!(
                    "is not served on all its ports: one namespace can use half of the {most} ports"
                ),
            );
        } else if self.plan.targets.len() >= most {
            self.record_unserved(
                name,
                &format!(
                    "is not served on all its ports: the limit of open files allows {most} (LimitNOFILE of the agent's unit, ulimit -n)"
                ),
            );
        } else {
            *self.listeners_of.entry(name.0.as_str()).or_default() += 1;
            self.plan.targets.insert(listen, target);
        }
    }
}

/// Checks that a Service may have this address, which is a cluster IP (`is_own`) or an external one; the error is the reason why not.
fn check_address(address: IpAddr, is_own: bool, config: &PlanConfig) -> Result<(), &'static str> {
    if config.local.addresses.contains(&address) {
        Err("which is this machine's own; existing listeners continue")
    } else if is_special(address) {
        Err("which no Service can have")
    } else if !is_own
        && !config
            .external_networks
            .iter()
            .any(|network| network.contains(address))
    {
        Err(
            "which is not in modules.edgeMesh.externalAddresses; traffic to it leaves the node as before",
        )
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
