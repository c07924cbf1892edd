//! What a listening socket shares with the connections that it has taken.

use std::{net::IpAddr, sync::Arc, time::Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::{
    at::At,
    budget::Budget,
    choose::{Balancer, Policy},
    plan::Target,
};
use crate::edgemesh::ways::Ways;

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
    pub(super) ways: Ways,
}

impl Backend {
    pub(super) fn new(
        target: watch::Receiver<Arc<Target>>,
        budget: Budget,
        address: Option<Arc<IpAddr>>,
        ways: Ways,
    ) -> Self {
        let own = Arc::new(Semaphore::new(budget.port_share));
        Self { target, balancer: Arc::default(), budget, own, address, ways }
    }

    /// The endpoints to try for this client, and how they were chosen.
    pub(super) fn choose(&self, client: IpAddr) -> (Vec<At>, Policy) {
        let target = self.target.borrow().clone();
        let moment = (Instant::now(), rand::random::<u32>() as usize);
        let chosen = self.balancer.lock().choose(target.endpoints(client), target.policy, client, moment);
        (chosen, target.policy)
    }

    /// The client has reached this endpoint.
    pub(super) fn reached(&self, policy: Policy, client: IpAddr, endpoint: At) {
        self.balancer.lock().keep(policy, client, endpoint, Instant::now());
    }

    /// The endpoint could not be reached: for a while it is tried last.
    pub(super) fn missed(&self, endpoint: At) {
        self.balancer.lock().missed(endpoint, Instant::now());
    }
}
