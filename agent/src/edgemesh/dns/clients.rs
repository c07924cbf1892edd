//! Which clients are answered: this machine's own programs, and what is behind interfaces that have no default route, as pods are.
//! Machines that the node reaches by its default route's interface are refused: Linux accepts packets for the server's address from every
//! interface, and the server would be an open resolver for the node's network.

use std::{
    collections::{BTreeSet, HashSet},
    net::IpAddr,
    time::Duration,
};

use clock::Instant;
use nix::errno::Errno;
use parking_lot::Mutex;
use tracing::warn;

use crate::{
    config::Network,
    netlink::routes::{Route, routes},
};

/// How long the networks that were read are valid.
const MAX_AGE: Duration = Duration::from_secs(10);
/// How soon they are read again for a client that is in none of them: a pod's network may be younger.
const MIN_AGE: Duration = Duration::from_secs(1);

/// The networks whose clients are answered.
#[derive(Debug, Default)]
struct Networks {
    /// This machine's own addresses.
    own: HashSet<IpAddr>,
    networks: Vec<Network>,
}

impl Networks {
    fn new(routes: Vec<Route>) -> Self {
        let is_default = |route: &&Route| !route.is_local && route.network.is_all();
        let outside: BTreeSet<u32> = routes
            .iter()
            .filter(is_default)
            .flat_map(|route| route.interfaces.clone())
            .collect();
        let mut all = Self::default();
        for Route {
            network,
            interfaces,
            is_local,
        } in routes
        {
            let is_inside =
                || !interfaces.is_empty() && interfaces.iter().all(|one| !outside.contains(one));
            match network.only_address().filter(|_| is_local) {
                Some(address) => drop(all.own.insert(address)),
                // every interface has the network of link-local addresses of IPv6
                None if is_local || is_inside() && !network.is_unicast_link_local() => {
                    all.networks.push(network);
                }
                None => {}
            }
        }
        all
    }

    fn contain(&self, client: IpAddr) -> bool {
        self.own.contains(&client) || self.networks.iter().any(|network| network.contains(client))
    }
}

#[derive(Debug, Default)]
struct State {
    /// When they were last read, and what they are; `None` if the kernel does not tell.
    read: Option<(Instant, Option<Networks>)>,
}

/// Decides which clients are answered.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<State>);

impl Clients {
    /// Reports whether this client is answered. Where the kernel does not tell its routes, all are.
    pub(super) fn allow(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        client.is_loopback() || self.0.lock().allows(client, Instant::now(), routes)
    }
}

impl State {
    fn allows(
        &mut self,
        client: IpAddr,
        now: Instant,
        routes: impl FnOnce() -> Result<Vec<Route>, Errno>,
    ) -> bool {
        let allows =
            |networks: &Option<Networks>| networks.as_ref().is_none_or(|all| all.contain(client));
        if let Some((read, networks)) = &self.read {
            let age = now.saturating_duration_since(*read);
            let is_allowed = allows(networks);
            if age < if is_allowed { MAX_AGE } else { MIN_AGE } {
                return is_allowed;
            }
        }
        let networks = match routes() {
            Ok(routes) => Some(Networks::new(routes)),
            Err(error) => {
                if self
                    .read
                    .as_ref()
                    .is_none_or(|(_, networks)| networks.is_some())
                {
                    warn!(%error, "cannot read routes; DNS will answer all clients");
                }
                None
            }
        };
        let is_allowed = allows(&networks);
        self.read = Some((now, networks));
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(network: &str, interface: u32, is_local: bool) -> Route {
        Route {
            network: Network::parse(network).unwrap(),
            interfaces: vec![interface],
            is_local,
        }
    }

    /// eth0 (2), a bridge of pods (3), a pod's own link (4).
    fn machine() -> Vec<Route> {
        vec![
            route("0.0.0.0/0", 2, false),
            route("192.168.77.0/24", 2, false),
            route("192.168.77.10/32", 2, true),
            route("10.22.0.0/16", 3, false),
            route("10.23.0.7/32", 4, false),
            route("127.0.0.0/8", 1, true),
            route("::/0", 2, false),
            route("fd00::/64", 3, false),
            route("fe80::/64", 2, false),
            route("fe80::/64", 3, false),
            route("10.99.0.0/16", 2, false),
        ]
    }

    #[test]
    fn who_is_behind_the_default_routes_interface_is_refused() {
        let networks = Networks::new(machine());
        for client in [
            "192.168.77.10",
            "127.0.0.2",
            "10.22.0.5",
            "10.23.0.7",
            "fd00::5",
        ] {
            assert!(networks.contain(client.parse().unwrap()), "{client}");
        }
        for client in [
            "192.168.77.20",
            "8.8.8.8",
            "10.99.0.1",
            "10.23.0.8",
            "2001:db8::1",
            "fe80::1",
        ] {
            assert!(!networks.contain(client.parse().unwrap()), "{client}");
        }
    }

    #[test]
    fn the_routes_are_read_again_for_who_is_unknown_but_not_for_each_question() {
        let mut state = State::default();
        let (start, pod) = (Instant::now(), IpAddr::from([10, 24, 0, 5]));
        assert!(!state.allows(pod, start, || Ok(machine())));
        assert!(!state.allows(pod, start + MIN_AGE / 2, || panic!("it was just read")));
        let with_pod = || Ok([machine(), vec![route("10.24.0.0/24", 5, false)]].concat());
        assert!(state.allows(pod, start + MIN_AGE, with_pod));
        assert!(state.allows(pod, start + MIN_AGE * 2, || panic!("it was just read")));
        assert!(
            !state.allows(pod, start + MIN_AGE + MAX_AGE, || Ok(machine())),
            "its network is gone"
        );
        assert!(state.allows(pod, start + MAX_AGE * 3, || Err(Errno::EPERM)));
    }
}
