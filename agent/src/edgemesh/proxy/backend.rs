//! What a listening socket shares with the connections that it has accepted.

use std::{net::IpAddr, sync::Arc};

use clock::Instant;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::{
    budget::Budget,
    choose::{Balancer, Policy},
    endpoint_address::EndpointAddress,
    plan::Target,
};
use crate::edgemesh::dialer::Dialer;

/// The endpoints behind a listening socket, and how one is chosen and dialled. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Backend {
    pub(super) target: watch::Receiver<Arc<Target>>,
    balancer: Arc<Mutex<Balancer>>,
    pub(super) budget: Budget,
    /// Limits the connections of this port.
    pub(super) port_limit: Arc<Semaphore>,
    /// The Service's address: its route stays as long as a clone of this is held. `None` for the node's own addresses.
    pub(super) address: Option<Arc<IpAddr>>,
    pub(super) dialer: Dialer,
}

impl Backend {
    pub(super) fn new(
        target: watch::Receiver<Arc<Target>>,
        budget: Budget,
        address: Option<Arc<IpAddr>>,
        dialer: Dialer,
    ) -> Self {
        let port_limit = Arc::new(Semaphore::new(budget.port_share));
        Self {
            target,
            balancer: Arc::default(),
            budget,
            port_limit,
            address,
            dialer,
        }
    }

    /// Chooses the endpoints to try for this client, in order; returns the policy as well.
    pub(super) fn choose(&self, client: IpAddr) -> (Vec<EndpointAddress>, Policy) {
        let target = self.target.borrow().clone();
        let (now, random) = (Instant::now(), clock::rng().random::<u32>() as usize);
        let chosen = self.balancer.lock().choose(
            target.endpoints(client),
            target.policy,
            client,
            now,
            random,
        );
        (chosen, target.policy)
    }

    /// Records that a client has reached this endpoint.
    pub(super) fn record_reached(&self, policy: Policy, client: IpAddr, endpoint: EndpointAddress) {
        self.balancer
            .lock()
            .record_reached(policy, client, endpoint, Instant::now());
    }

    /// Records that the endpoint could not be reached: for a while it is tried last.
    pub(super) fn record_unreachable(&self, endpoint: EndpointAddress) {
        self.balancer
            .lock()
            .record_unreachable(endpoint, Instant::now());
    }
}
