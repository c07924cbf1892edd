//! Which endpoint a new connection goes to, and which ones are tried after it. Pure: the random number and the time are parameters.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
    time::Duration,
};

use clock::Instant;

use super::endpoint_address::EndpointAddress;
use crate::config::Strategy;

/// How many clients of one port of a Service keep their endpoints; beyond that the one that connected longest ago loses its own.
const MAX_AFFINE_CLIENTS: usize = 10_000;
/// How many endpoints are tried for one connection.
const MAX_TRIES: usize = 4;
/// How long an endpoint that could not be reached is tried last.
const UNREACHABLE_PERIOD: Duration = Duration::from_secs(5);
/// How many unreachable endpoints are remembered.
const MAX_UNREACHABLE: usize = 1000;

/// Chooses endpoints for one port of a Service, and remembers what affinity and failures demand.
#[derive(Debug, Default)]
pub(super) struct Balancer {
    /// The number of connections so far.
    round: usize,
    /// The endpoint of each client, and when the client last connected.
    clients: HashMap<IpAddr, (EndpointAddress, Instant)>,
    /// Endpoints that could not be reached, and when.
    unreachable: HashMap<EndpointAddress, Instant>,
}

/// How endpoints are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) balancing: Strategy,
    /// How long a client keeps its endpoint after its last connection; `None`: it keeps none.
    pub(super) affinity: Option<Duration>,
}

impl Balancer {
    /// Chooses the endpoints to try for `client`, in order.
    pub(super) fn choose(
        &mut self,
        usable: &[EndpointAddress],
        policy: Policy,
        client: IpAddr,
        now: Instant,
        random: usize,
    ) -> Vec<EndpointAddress> {
        let mut order = self.order(usable, policy.balancing, client, random);
        if let Some(timeout) = policy.affinity
            && let Some((kept, last)) = self.clients.get(&client)
            && now.saturating_duration_since(*last) < timeout
            && let Some(position) = order.iter().position(|endpoint| endpoint == kept)
        {
            order.swap(0, position);
        }
        if !self.unreachable.is_empty() {
            self.unreachable
                .retain(|_, at| now.saturating_duration_since(*at) < UNREACHABLE_PERIOD);
            // a stable sort: the order of the others stays
            order.sort_by_key(|endpoint| self.unreachable.contains_key(endpoint));
        }
        order.truncate(MAX_TRIES);
        order
    }

    /// Records that the endpoint could not be reached.
    pub(super) fn record_unreachable(&mut self, endpoint: EndpointAddress, now: Instant) {
        if self.unreachable.len() < MAX_UNREACHABLE {
            self.unreachable.insert(endpoint, now);
        }
    }

    /// Records that a client has reached its endpoint, which it keeps as long as the Service's session affinity says.
    pub(super) fn record_reached(
        &mut self,
        policy: Policy,
        client: IpAddr,
        endpoint: EndpointAddress,
        now: Instant,
    ) {
        let Some(timeout) = policy.affinity else {
            self.clients.clear();
            return;
        };
        if self.clients.len() >= MAX_AFFINE_CLIENTS && !self.clients.contains_key(&client) {
            self.clients
                .retain(|_, (_, last)| now.saturating_duration_since(*last) < timeout);
            let oldest = self
                .clients
                .iter()
                .min_by_key(|(_, (_, last))| *last)
                .map(|(client, _)| *client);
            if let Some(oldest) = oldest.filter(|_| self.clients.len() >= MAX_AFFINE_CLIENTS) {
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
        random: usize,
    ) -> Vec<EndpointAddress> {
        let mut order = usable.to_vec();
        if order.is_empty() {
            return order;
        }
        let count = order.len();
        match balancing {
            Strategy::Random => order.rotate_left(random % count),
            Strategy::RoundRobin => {
                order.rotate_left(self.round % count);
                self.round = self.round.wrapping_add(1);
            }
            // rendezvous hashing: an endpoint that comes or goes moves no clients but its own
            Strategy::ConsistentHash => {
                order.sort_by_cached_key(|at| (weight(client, at), at.clone()))
            }
        }
        order
    }
}

/// Hashes a client with an endpoint. The result is the same in every process and on every node: the hasher's keys are fixed.
fn weight(client: IpAddr, endpoint: &EndpointAddress) -> u64 {
    let mut hasher = DefaultHasher::new();
    (client, endpoint.address).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
