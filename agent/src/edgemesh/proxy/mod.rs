//! The addresses of Services on this machine: what is sent to one of them goes to an endpoint.
//!
//! A route makes each address this machine's ([`routes`]); a socket at each of its ports takes what comes, from pods as from the
//! machine itself, and the agent forwards it. A port without endpoints has no socket, so that the kernel refuses at once.

mod backend;
mod budget;
mod choose;
mod copy;
pub(super) mod endpoint_address;
mod open;
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

use self::{
    budget::Budget,
    open::Open,
    plan::{Inside, Machine, Place, Plan},
    planner::plan,
    routes::Routes,
    tcp::Connections,
};
pub(super) use self::{
    tcp::{connect, prepare, refuse},
    udp::connect as connect_datagrams,
    usable::Here,
};
use super::{dialer::Dialer, figures::Figures, snapshot::Snapshot};
use crate::{
    config::{EdgeMesh, Network},
    netlink::{own_addresses, own_networks},
};

/// What is said where the kernel takes no routes from this program.
const NO_ROUTES: &str = "Services have no addresses on this node: routes need the capability CAP_NET_ADMIN; run the agent as root, or give it that \
     capability. NodePorts and DNS at 127.0.0.1 work";
/// How long connections may take to end when the room ends.
const END: Duration = Duration::from_secs(2);

/// What the proxy has of the machine.
#[derive(Debug)]
pub(super) struct Proxy {
    /// `None`: not allowed, which was said.
    routes: Option<Routes>,
    /// The addresses that are delivered here; each connection holds its own.
    addresses: BTreeMap<IpAddr, Arc<IpAddr>>,
    open: BTreeMap<Place, Open>,
    /// What was said of Services that cannot be served.
    said: BTreeSet<String>,
    budget: Budget,
    connections: Connections,
    dialer: Dialer,
    /// Who serves the API at the addresses of its Service.
    api: Option<Api>,
}

/// Told where the API is served on this machine.
type Api = watch::Sender<BTreeSet<SocketAddr>>;

impl Proxy {
    /// Nothing yet. Connections end with `shutdown`.
    pub(super) fn new(
        figures: Arc<Figures>,
        dialer: Dialer,
        api: Option<Api>,
        shutdown: CancellationToken,
    ) -> Self {
        let routes = match Routes::open() {
            Ok(routes) => Some(routes),
            Err(errno) => {
                warn!(error = %errno, "the kernel cannot be asked for routes");
                None
            }
        };
        Self {
            routes,
            addresses: BTreeMap::new(),
            open: BTreeMap::new(),
            said: BTreeSet::new(),
            budget: Budget::of_process(figures),
            connections: Connections { tracker: TaskTracker::new(), shutdown },
            dialer,
            api,
        }
    }

    /// Makes the machine what a snapshot says. Called again it mends what has failed or was taken away.
    pub(super) async fn apply(&mut self, snapshot: &Snapshot, place: &Where<'_>) {
        let inside = Inside {
            addresses: own_addresses().unwrap_or_default(),
            pods: place.pods.to_vec(),
            near: near(place.own_pods, own_networks().unwrap_or_default()),
        };
        let machine = Machine {
            here: place.here.clone(),
            inside: Arc::new(inside),
            node_port_networks: place.settings.node_port_addresses.clone(),
            external_networks: place.settings.external_addresses.clone(),
            max_listeners: self.budget.max_listeners,
            serves_api: self.api.is_some(),
        };
        let mut plan = plan(snapshot, &machine);
        self.deliver(&mut plan);
        self.close(&plan).await;
        self.listen(&mut plan, &machine.inside.addresses);
        self.serve_api(&plan.api);
        self.give_up_addresses(&plan);
        self.say(plan.refused);
    }

    /// Sees to it that all addresses of the plan are delivered here.
    fn deliver(&mut self, plan: &mut Plan) {
        let Some(routes) = &self.routes else {
            plan.refused.insert(NO_ROUTES.to_owned());
            return;
        };
        let there = match routes.list() {
            Ok(there) => there,
            Err(errno) => {
                plan.refused.insert(format!("the routes of Services cannot be read: {errno}"));
                return;
            }
        };
        for address in &plan.addresses {
            if !there.contains(address) {
                match routes.add(*address) {
                    Ok(()) => {}
                    Err(Errno::EPERM | Errno::EACCES) => {
                        plan.refused.insert(NO_ROUTES.to_owned());
                        self.routes = None;
                        return;
                    }
                    Err(errno) => {
                        plan.refused.insert(format!("{address} is not delivered to this machine: {errno}"));
                        continue;
                    }
                }
            }
            self.addresses.entry(*address).or_insert_with(|| Arc::new(*address));
        }
        // of an agent that was killed, or of Services that are gone and whose last connection has ended
        for stale in there.iter().filter(|address| !self.addresses.contains_key(address)) {
            if let Err(errno) = routes.remove(*stale) {
                plan.refused.insert(format!("{stale} is still delivered to this machine: {errno}"));
            }
        }
    }

    /// Closes the sockets that nothing is behind any more.
    async fn close(&mut self, plan: &Plan) {
        let gone: Vec<_> =
            self.open.keys().filter(|place| !plan.targets.contains_key(place)).copied().collect();
        for place in gone {
            if let Some(open) = self.open.remove(&place) {
                open.close().await;
            }
        }
    }

    /// Listens where it is not yet listened to, and tells all sockets their endpoints.
    fn listen(&mut self, plan: &mut Plan, own: &BTreeSet<IpAddr>) {
        for (place, target) in std::mem::take(&mut plan.targets) {
            if let Some(open) = self.open.get(&place) {
                open.set(target);
                continue;
            }
            let address = self.addresses.get(&place.address.ip()).cloned();
            if address.is_none() && !own.contains(&place.address.ip()) {
                // it is not delivered here, which was said
                continue;
            }
            let service = target.service.clone();
            match Open::new(
                place,
                target,
                (self.budget.clone(), address, self.dialer.clone()),
                &self.connections,
            ) {
                Ok(open) => drop(self.open.insert(place, open)),
                Err(error) => {
                    plan.refused.insert(format!("Service {service} does not get {place}: {error}"));
                }
            }
        }
    }

    /// Tells who serves the API where it is to be served: at what is delivered here.
    fn serve_api(&self, places: &BTreeSet<SocketAddr>) {
        let Some(api) = &self.api else { return };
        let delivered = |place: &&SocketAddr| self.addresses.contains_key(&place.ip());
        let places: BTreeSet<_> = places.iter().filter(delivered).copied().collect();
        api.send_if_modified(|current| {
            let is_new = *current != places;
            *current = places;
            is_new
        });
    }

    /// Gives up the addresses that no Service has any more; those of connections that go on wait for the next time.
    fn give_up_addresses(&mut self, plan: &Plan) {
        let Some(routes) = &self.routes else { return };
        self.addresses.retain(|address, held| {
            if plan.addresses.contains(address) || Arc::strong_count(held) > 1 {
                return true;
            }
            !give_up(routes, *address)
        });
    }

    /// Says what cannot be served, once, and when it can.
    fn say(&mut self, refused: BTreeSet<String>) {
        for what in refused.difference(&self.said) {
            warn!("{what}");
        }
        for what in self.said.difference(&refused) {
            info!("no longer: {what}");
        }
        self.said = refused;
    }

    /// What cannot be served now.
    pub(super) fn unserved(&self) -> &BTreeSet<String> {
        &self.said
    }

    /// Takes away all that was added to the machine.
    pub(super) async fn end(mut self) {
        self.serve_api(&BTreeSet::new());
        for (_, open) in std::mem::take(&mut self.open) {
            open.close().await;
        }
        self.connections.shutdown.cancel();
        self.connections.tracker.close();
        let _ = tokio::time::timeout(END, self.connections.tracker.wait()).await;
        if let Some(routes) = &self.routes {
            for address in self.addresses.keys() {
                give_up(routes, *address);
            }
        }
    }
}

/// What a snapshot is applied to.
#[derive(Debug)]
pub(super) struct Where<'a> {
    pub(super) here: &'a Here,
    /// The networks of this node's pods.
    pub(super) pods: &'a [Network],
    /// The addresses of this node's pods.
    pub(super) own_pods: &'a BTreeSet<IpAddr>,
    pub(super) settings: &'a EdgeMesh,
}

/// Where this node's pods are: their own addresses, and the networks of the interfaces that they are behind.
fn near(pods: &BTreeSet<IpAddr>, networks: Vec<Network>) -> Vec<Network> {
    let has_pods = |network: &Network| pods.iter().any(|pod| network.contains(*pod));
    let mut near: Vec<_> = networks.into_iter().filter(has_pods).collect();
    near.extend(pods.iter().map(|pod| Network::of(*pod)));
    near
}

/// Has the address of a Service no longer delivered here; whether that was done, and says so where it was not.
fn give_up(routes: &Routes, address: IpAddr) -> bool {
    let removed = routes.remove(address);
    if let Err(errno) = removed {
        warn!(%address, error = %errno, "the address of a Service is still delivered to this machine");
    }
    removed.is_ok()
}

#[cfg(test)]
mod tests;
