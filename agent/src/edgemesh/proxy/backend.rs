//! What a listening socket shares with the connections that it has taken.

use std::{net::IpAddr, sync::Arc, time::Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::{
    budget::Budget,
    choose::{Balancer, Policy},
    endpoint_address::EndpointAddress,
    plan::Target,
};
use crate::edgemesh::dialer::Dialer;

/// Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Backend {
    pub(super) target: watch::Receiver<Arc<Target>>,
    balancer: Arc<Mutex<Balancer>>,
    pub(super) budget: Budget,
    /// The share of this port.
    pub(super) own: Arc<Semaphore>,
    /// As long as one of these is held, the address is delivered to this machine; `None` for the machine's own.
    pub(super) address: Option<Arc<IpAddr>>,
    /// How endpoints are reached.
    pub(super) dialer: Dialer,
}

impl Backend {
    pub(super) fn new(
        target: watch::Receiver<Arc<Target>>,
        budget: Budget,
        address: Option<Arc<IpAddr>>,
        dialer: Dialer,
    ) -> Self {
        let own = Arc::new(Semaphore::new(budget.port_share));
        Self { target, balancer: Arc::default(), budget, own, address, dialer }
    }

    /// The endpoints to try for this client, and how they were chosen.
    pub(super) fn choose(&self, client: IpAddr) -> (Vec<EndpointAddress>, Policy) {
        let target = self.target.borrow().clone();
        let moment = (Instant::now(), rand::random::<u32>() as usize);
        let chosen = self.balancer.lock().choose(target.endpoints(client), target.policy, client, moment);
        (chosen, target.policy)
    }

    /// The client has reached this endpoint.
    pub(super) fn reached(&self, policy: Policy, client: IpAddr, endpoint: EndpointAddress) {
        self.balancer.lock().keep(policy, client, endpoint, Instant::now());
    }

    /// The endpoint could not be reached: for a while it is tried last.
    pub(super) fn missed(&self, endpoint: EndpointAddress) {
        self.balancer.lock().missed(endpoint, Instant::now());
    }
}
