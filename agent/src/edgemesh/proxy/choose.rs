//! Which endpoint a new connection goes to, and which ones are tried after it. Pure: chance and time are given.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
    time::{Duration, Instant},
};

use super::endpoint_address::EndpointAddress;
use crate::config::Strategy;

/// So many clients of one port of a Service keep their endpoints; beyond them whoever came longest ago is chosen for anew.
const CLIENTS: usize = 10_000;
/// So many endpoints are tried for one connection.
const TRIES: usize = 4;
/// An endpoint that could not be reached is tried last for so long.
const AVOIDED: Duration = Duration::from_secs(5);
/// So many of them are remembered.
const MISSED: usize = 1000;

/// What is remembered of one port of a Service.
#[derive(Debug, Default)]
pub(super) struct Balancer {
    /// How many connections there were.
    round: usize,
    /// The endpoint of each client, and when it last began a connection.
    clients: HashMap<IpAddr, (EndpointAddress, Instant)>,
    /// Endpoints that could not be reached, and when.
    missed: HashMap<EndpointAddress, Instant>,
}

/// How it is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) balancing: Strategy,
    /// How long a client keeps its endpoint after its last connection; `None`: it keeps none.
    pub(super) affinity: Option<Duration>,
}

impl Balancer {
    /// The endpoints to try for `client`, the first of which is the chosen one; none where there are none.
    pub(super) fn choose(
        &mut self,
        usable: &[EndpointAddress],
        policy: Policy,
        client: IpAddr,
        (now, chance): (Instant, usize),
    ) -> Vec<EndpointAddress> {
        let mut order = self.order(usable, policy.balancing, client, chance);
        if let Some(timeout) = policy.affinity
            && let Some((kept, last)) = self.clients.get(&client)
            && now.saturating_duration_since(*last) < timeout
            && let Some(at) = order.iter().position(|one| one == kept)
        {
            order.swap(0, at);
        }
        if !self.missed.is_empty() {
            self.missed.retain(|_, at| now.saturating_duration_since(*at) < AVOIDED);
            // stable: among the others the order stays
            order.sort_by_key(|endpoint| self.missed.contains_key(endpoint));
        }
        order.truncate(TRIES);
        order
    }

    /// The endpoint could not be reached.
    pub(super) fn missed(&mut self, endpoint: EndpointAddress, now: Instant) {
        if self.missed.len() < MISSED {
            self.missed.insert(endpoint, now);
        }
    }

    /// The client has its endpoint: it keeps it as long as the Service says.
    pub(super) fn keep(&mut self, policy: Policy, client: IpAddr, endpoint: EndpointAddress, now: Instant) {
        let Some(timeout) = policy.affinity else {
            self.clients.clear();
            return;
        };
        if self.clients.len() >= CLIENTS && !self.clients.contains_key(&client) {
            self.clients.retain(|_, (_, last)| now.saturating_duration_since(*last) < timeout);
            let oldest = self.clients.iter().min_by_key(|(_, (_, last))| *last).map(|(client, _)| *client);
            if let Some(oldest) = oldest.filter(|_| self.clients.len() >= CLIENTS) {
                self.clients.remove(&oldest);
            }
        }
        self.clients.insert(client, (endpoint, now));
    }

    fn order(
        &mut self,
        usable: &[EndpointAddress],
        balancing: Strategy,
        client: IpAddr,
        chance: usize,
    ) -> Vec<EndpointAddress> {
        let mut order = usable.to_vec();
        if order.is_empty() {
            return order;
        }
        let count = order.len();
        match balancing {
            Strategy::Random => order.rotate_left(chance % count),
            Strategy::RoundRobin => {
                order.rotate_left(self.round % count);
                self.round = self.round.wrapping_add(1);
            }
            // rendezvous hashing: an endpoint that comes or goes moves no clients but its own
            Strategy::ConsistentHash => order.sort_by_cached_key(|at| (weight(client, at), at.clone())),
        }
        order
    }
}

/// The same in every process, and on every node: the hasher's keys are fixed.
fn weight(client: IpAddr, endpoint: &EndpointAddress) -> u64 {
    let mut hasher = DefaultHasher::new();
    (client, endpoint.address).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[path = "choose/tests.rs"]
mod tests;
