//! The addresses of Services on this node: connections to them are forwarded to endpoints.
//!
//! A route delivers each address to this node ([`routes`]); a socket at each of its ports accepts connections, from pods and from the node
//! itself, and the agent forwards them. A port without endpoints has no socket, so that the kernel refuses connections to it at once.

mod backend;
mod budget;
mod choose;
mod copy;
pub(super) mod endpoint_address;
mod listener;
mod plan;
mod planner;
pub(super) mod routes;
mod tcp;
mod udp;
mod usable;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use nix::errno::Errno;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

pub(super) use self::usable::NodeTopology;
use self::{
    budget::Budget,
    listener::Listener,
    plan::{ListenAddress, LocalAddresses, Plan, PlanConfig},
    planner::plan,
    routes::Routes,
    tcp::Connections,
};
use super::{dialer::Dialer, metrics::MeshMetrics, snapshot::Snapshot};
use crate::{
    config::{EdgeMesh, Network},
    netlink::own_networks,
};

/// The warning where the kernel refuses routes from this program.
const NO_ROUTES: &str = "Services have no addresses on this node: routes need the capability CAP_NET_ADMIN; run the agent as root, or give it that \
     capability. NodePorts and DNS at 127.0.0.1 work";
/// How long connections may take to end on shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The state of the proxy: its routes and listeners.
#[derive(Debug)]
pub(super) struct Proxy {
    /// `None`: the kernel refuses them, which was logged.
    routes: Option<Routes>,
    /// The addresses that are delivered to this node. Each connection holds a clone of its own.
    addresses: BTreeMap<IpAddr, Arc<IpAddr>>,
    listeners: BTreeMap<ListenAddress, Listener>,
    /// What cannot be served, as it was logged last.
    unserved: BTreeSet<String>,
    budget: Budget,
    connections: Connections,
    dialer: Dialer,
    /// Receives the addresses at which MetaServer serves the API.
    api: Option<ApiAddresses>,
}

/// The addresses at which the API is served on this node.
type ApiAddresses = watch::Sender<BTreeSet<SocketAddr>>;

impl Proxy {
    /// Creates a proxy without routes and listeners. Its connections end with `shutdown`.
    pub(super) fn new(
        metrics: Arc<MeshMetrics>,
        dialer: Dialer,
        api: Option<ApiAddresses>,
        shutdown: CancellationToken,
    ) -> Self {
        let routes = match Routes::open() {
            Ok(routes) => Some(routes),
            Err(errno) => {
                warn!(error = %errno, "cannot access the kernel's routes; Service addresses are not reachable on this node");
                None
            }
        };
        Self {
            routes,
            addresses: BTreeMap::new(),
            listeners: BTreeMap::new(),
            unserved: BTreeSet::new(),
            budget: Budget::of_process(metrics),
            connections: Connections {
                tracker: TaskTracker::new(),
                shutdown,
            },
            dialer,
            api,
        }
    }

    /// Makes routes and listeners what a snapshot demands. It is called again regularly, and repairs what has failed or was removed.
    pub(super) async fn apply(&mut self, snapshot: &Snapshot, node: &LocalNode<'_>) {
        let local = LocalAddresses {
            addresses: componentbase::addresses::own().unwrap_or_default(),
            pod_networks: node.pod_networks.to_vec(),
            interface_networks: pod_interface_networks(
                node.pods,
                own_networks().unwrap_or_default(),
            ),
        };
        let config = PlanConfig {
            node: node.topology.clone(),
            local: Arc::new(local),
            node_port_networks: node.settings.node_port_addresses.clone(),
            external_networks: node.settings.external_addresses.clone(),
            max_listeners: self.budget.max_listeners,
            serves_api: self.api.is_some(),
        };
        let mut plan = plan(snapshot, &config);
        self.add_routes(&mut plan);
        self.close_listeners(&plan).await;
        self.open_listeners(&mut plan, &config.local.addresses);
        self.publish_api_addresses(&plan.api);
        self.remove_routes(&plan);
        self.log_unserved(plan.unserved);
    }

    /// Adds the routes that are missing, and removes those of an earlier agent.
    fn add_routes(&mut self, plan: &mut Plan) {
        let Some(routes) = &self.routes else {
            plan.unserved.insert(NO_ROUTES.to_owned());
            return;
        };
        let existing = match routes.list() {
            Ok(existing) => existing,
            Err(errno) => {
                plan.unserved
                    .insert(format!("cannot read the routes of Services: {errno}"));
                return;
            }
        };
        for address in &plan.addresses {
            if !existing.contains(address) {
                match routes.add(*address) {
                    Ok(()) => {}
                    Err(Errno::EPERM | Errno::EACCES) => {
                        plan.unserved.insert(NO_ROUTES.to_owned());
                        self.routes = None;
                        return;
                    }
                    Err(errno) => {
                        plan.unserved.insert(format!(
                            "cannot add the route of {address} to this machine: {errno}"
                        ));
                        continue;
                    }
                }
            }
            self.addresses
                .entry(*address)
                .or_insert_with(|| Arc::new(*address));
        }
        // left by an agent that was killed, or by Services that are gone and whose last connection has ended
        for stale in existing
            .iter()
            .filter(|address| !self.addresses.contains_key(address))
        {
            if let Err(errno) = routes.remove(*stale) {
                plan.unserved.insert(format!(
                    "cannot remove the route of {stale} to this machine: {errno}"
                ));
            }
        }
    }

    /// Closes the listeners that the plan does not have any more.
    async fn close_listeners(&mut self, plan: &Plan) {
        let gone: Vec<_> = self
            .listeners
            .keys()
            .filter(|listen| !plan.targets.contains_key(listen))
            .copied()
            .collect();
        for listen in gone {
            if let Some(listener) = self.listeners.remove(&listen) {
                listener.close().await;
            }
        }
    }

    /// Opens the listeners that are missing, and gives all of them their endpoints.
    fn open_listeners(&mut self, plan: &mut Plan, own: &BTreeSet<IpAddr>) {
        for (listen, target) in std::mem::take(&mut plan.targets) {
            if let Some(listener) = self.listeners.get(&listen) {
                listener.set_target(target);
                continue;
            }
            let address = self.addresses.get(&listen.address.ip()).cloned();
            if address.is_none() && !own.contains(&listen.address.ip()) {
                // it has no route, which was logged
                continue;
            }
            let service = target.service.clone();
            match Listener::new(
                listen,
                target,
                (self.budget.clone(), address, self.dialer.clone()),
                &self.connections,
            ) {
                Ok(listener) => drop(self.listeners.insert(listen, listener)),
                Err(error) => {
                    plan.unserved.insert(format!(
                        "Service {service} cannot listen on {listen}: {error}"
                    ));
                }
            }
        }
    }

    /// Publishes the addresses of the API that are delivered to this node.
    fn publish_api_addresses(&self, addresses: &BTreeSet<SocketAddr>) {
        let Some(api) = &self.api else { return };
        let is_delivered = |address: &&SocketAddr| self.addresses.contains_key(&address.ip());
        let addresses: BTreeSet<_> = addresses.iter().filter(is_delivered).copied().collect();
        api.send_if_modified(|current| {
            let is_new = *current != addresses;
            *current = addresses;
            is_new
        });
    }

    /// Removes the routes of addresses that no Service has any more, once their last connection has ended.
    fn remove_routes(&mut self, plan: &Plan) {
        let Some(routes) = &self.routes else { return };
        self.addresses.retain(|address, held| {
            if plan.addresses.contains(address) || Arc::strong_count(held) > 1 {
                return true;
            }
            !remove_route(routes, *address)
        });
    }

    /// Logs Services that cannot be served completely, once, and when they can be served again.
    fn log_unserved(&mut self, unserved: BTreeSet<String>) {
        for what in unserved.difference(&self.unserved) {
            warn!(error = what, "cannot serve a Service completely");
        }
        for what in self.unserved.difference(&unserved) {
            info!(ended = what, "Service served completely again");
        }
        self.unserved = unserved;
    }

    /// Returns what cannot be served now, each in a sentence.
    pub(super) fn unserved_names(&self) -> &BTreeSet<String> {
        &self.unserved
    }

    /// Ends all connections, and removes all listeners and routes.
    pub(super) async fn shut_down(mut self) {
        self.publish_api_addresses(&BTreeSet::new());
        for (_, listener) in std::mem::take(&mut self.listeners) {
            listener.close().await;
        }
        self.connections.shutdown.cancel();
        self.connections.tracker.close();
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, self.connections.tracker.wait()).await;
        if let Some(routes) = &self.routes {
            for address in self.addresses.keys() {
                remove_route(routes, *address);
            }
        }
    }
}

/// What the proxy needs to know of this node.
#[derive(Debug)]
pub(super) struct LocalNode<'a> {
    pub(super) topology: &'a NodeTopology,
    /// The networks of this node's pods, by its `spec.podCIDRs`.
    pub(super) pod_networks: &'a [Network],
    /// The addresses of this node's pods.
    pub(super) pods: &'a BTreeSet<IpAddr>,
    pub(super) settings: &'a EdgeMesh,
}

/// Returns where this node's pods are: their own addresses, and the networks of the interfaces behind which they are.
fn pod_interface_networks(pods: &BTreeSet<IpAddr>, networks: Vec<Network>) -> Vec<Network> {
    let has_pods = |network: &Network| pods.iter().any(|pod| network.contains(*pod));
    let mut all: Vec<_> = networks.into_iter().filter(has_pods).collect();
    all.extend(pods.iter().map(|pod| Network::of(*pod)));
    all
}

/// Removes the route of a Service's address, and logs a failure; reports whether it was removed.
fn remove_route(routes: &Routes, address: IpAddr) -> bool {
    let removed = routes.remove(address);
    if let Err(errno) = removed {
        warn!(%address, error = %errno, "failed to remove the route of a Service address");
    }
    removed.is_ok()
}

#[cfg(test)]
mod tests;
