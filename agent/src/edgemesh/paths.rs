//! How the pods of other nodes are reached, as connections have found it. Pure: the time is a parameter.
//!
//! A path is known for an address on a node. Whoever may create EndpointSlices may name any node with any address; what is found there must
//! not change how other addresses of that node are reached.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    net::IpAddr,
    time::Duration,
};

use clock::Instant;
use wire::relay::{MAX_REPORT, Path};

/// How many addresses are remembered, and how many nodes; beyond that the one that was tried longest ago is forgotten.
const MAX_KNOWN: usize = 1000;
/// How many addresses of one node are remembered.
const MAX_OF_NODE: usize = 250;
/// While an address is reached over the relay, how long until a connection tries its direct path again.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// How many bytes of a report are not names.
const REPORT_OVERHEAD: usize = 64;

/// What a connection tries first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// The direct path; the relay as well if that does not answer soon.
    Direct,
    /// Both at once, to see whether the direct path works.
    Both,
    /// The relay alone.
    Relay,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    path: Path,
    /// When the direct path was last tried.
    tried: Instant,
}

/// The known paths.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// By node and address.
    addresses: HashMap<(String, IpAddr), Known>,
    /// By node: the path of the address whose path changed last.
    nodes: HashMap<String, Known>,
}

impl Paths {
    /// Decides what a connection to this address of this node tries first. If that includes the direct path, it counts as tried now.
    pub(super) fn first(&mut self, node: &str, address: IpAddr, now: Instant) -> First {
        let is_node_relayed = self.of_node(node) == Some(Path::Relayed);
        match self.addresses.get_mut(&(node.to_owned(), address)) {
            Some(known) if known.path == Path::Relayed => {
                if now.saturating_duration_since(known.tried) < PROBE_INTERVAL {
                    return First::Relay;
                }
                known.tried = now;
                First::Both
            }
            // as other addresses of the node, but without relying on it
            None if is_node_relayed => First::Both,
            _ => First::Direct,
        }
    }

    /// Returns the path to an address of a node: if none is known, that of another address of the node, if it is the relay.
    pub(super) fn of(&self, node: &str, address: IpAddr) -> Option<Path> {
        let known = self.known_path(node, address);
        known.or_else(|| self.of_node(node).filter(|path| *path == Path::Relayed))
    }

    fn known_path(&self, node: &str, address: IpAddr) -> Option<Path> {
        self.addresses
            .get(&(node.to_owned(), address))
            .map(|known| known.path)
    }

    fn of_node(&self, node: &str) -> Option<Path> {
        self.nodes.get(node).map(|known| known.path)
    }

    /// Reports whether the direct path was not tried within `age`.
    pub(super) fn is_old(&self, node: &str, address: IpAddr, age: Duration, now: Instant) -> bool {
        let known = self.addresses.get(&(node.to_owned(), address));
        known.is_none_or(|known| now.saturating_duration_since(known.tried) >= age)
    }

    /// Records the path that a connection has found; reports whether it is another one than before.
    pub(super) fn record_path(
        &mut self,
        node: &str,
        address: IpAddr,
        path: Path,
        now: Instant,
    ) -> bool {
        let before = self.known_path(node, address);
        if before == Some(Path::Relayed) && path == Path::Relayed {
            // a connection over the relay does not show how the direct path is
            return false;
        }
        let known = Known { path, tried: now };
        if before.is_none() {
            make_room(&mut self.addresses, MAX_OF_NODE, |(of, _)| of == node);
            make_room(&mut self.addresses, MAX_KNOWN, |_| true);
        }
        self.addresses.insert((node.to_owned(), address), known);
        if before == Some(path) {
            return false;
        }
        if !self.nodes.contains_key(node) {
            make_room(&mut self.nodes, MAX_KNOWN, |_| true);
        }
        self.nodes.insert(node.to_owned(), known);
        true
    }

    /// Records that the direct path is being tried now.
    pub(super) fn record_attempt(&mut self, node: &str, address: IpAddr, now: Instant) {
        let path = self.of(node, address).unwrap_or(Path::Direct);
        if let Some(known) = self.addresses.get_mut(&(node.to_owned(), address)) {
            known.tried = now;
        } else {
            self.record_path(node, address, path, now);
        }
    }

    /// Returns the paths by node, as many as a report may have: of more, nodes that are not reached are left out first.
    pub(super) fn report(&self) -> BTreeMap<String, Path> {
        let mut all: Vec<_> = self
            .nodes
            .iter()
            .map(|(node, known)| (known.path, node))
            .collect();
        all.sort_by_key(|(path, node)| (*path == Path::Unreached, *node));
        let mut size = REPORT_OVERHEAD;
        let fits = |(_, node): &(Path, &String)| {
            // the name, quoted, and the path
            size += node.len() + REPORT_OVERHEAD / 2;
            size <= MAX_REPORT
        };
        all.into_iter()
            .take_while(fits)
            .map(|(path, node)| (node.clone(), path))
            .collect()
    }
}

/// Where there are `most` such entries, forgets the one that was tried longest ago.
fn make_room<K: Clone + Eq + Hash>(
    all: &mut HashMap<K, Known>,
    most: usize,
    counts: impl Fn(&K) -> bool,
) {
    if all.len() < most || all.keys().filter(|key| counts(key)).count() < most {
        return;
    }
    let oldest = all
        .iter()
        .filter(|(key, _)| counts(key))
        .min_by_key(|(_, known)| known.tried);
    if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
        all.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + number).into())
    }

    #[test]
    fn an_address_behind_the_relay_is_tried_directly_now_and_then() {
        let (mut paths, begun, ip) = (Paths::default(), Instant::now(), address(1));
        let at = |millis| begun + Duration::from_millis(millis);
        assert_eq!(
            paths.first("a", ip, at(0)),
            First::Direct,
            "nothing is known of it"
        );
        assert!(paths.record_path("a", ip, Path::Relayed, at(0)));
        assert_eq!(paths.first("a", ip, at(100)), First::Relay);
        assert_eq!(paths.first("a", ip, at(2000)), First::Both);
        assert_eq!(
            paths.first("a", ip, at(2100)),
            First::Relay,
            "one connection tries it, and not all"
        );
        assert!(!paths.record_path("a", ip, Path::Relayed, at(2200)));
        assert_eq!(
            paths.first("a", ip, at(4000)),
            First::Both,
            "the relay's own connections do not put it off"
        );
        assert!(paths.record_path("a", ip, Path::Direct, at(4300)));
        assert_eq!(paths.first("a", ip, at(4400)), First::Direct);
        assert!(paths.record_path("b", ip, Path::Unreached, at(4400)));
        assert_eq!(paths.first("b", ip, at(4500)), First::Direct);
        assert_eq!(paths.report().len(), 2);
    }

    #[test]
    fn an_address_that_somebody_made_up_says_nothing_of_the_others() {
        let (mut paths, now) = (Paths::default(), Instant::now());
        let [pod, made_up, new] = [1, 2, 3].map(address);
        paths.record_path("a", pod, Path::Relayed, now);
        assert_eq!(
            (paths.first("a", new, now), paths.of("a", new)),
            (First::Both, Some(Path::Relayed))
        );
        paths.record_path("a", made_up, Path::Direct, now);
        assert_eq!(
            (paths.first("a", pod, now), paths.of("a", pod)),
            (First::Relay, Some(Path::Relayed))
        );
        assert_eq!(
            (paths.first("b", pod, now), paths.of("b", pod)),
            (First::Direct, None)
        );
    }

    #[test]
    fn so_much_is_remembered_and_reported() {
        let (mut paths, begun) = (Paths::default(), Instant::now());
        paths.record_path(
            "edge-1",
            address(1),
            Path::Relayed,
            begun + Duration::from_secs(3600),
        );
        for number in 0..2 * MAX_KNOWN {
            let (node, now) = (
                format!("{number:0>250}"),
                begun + Duration::from_secs(number as u64),
            );
            paths.record_path(&node, address(1), Path::Unreached, now);
            paths.record_path("edge-2", address(number as u32), Path::Direct, now);
        }
        assert!(paths.addresses.len() <= MAX_KNOWN && paths.nodes.len() <= MAX_KNOWN);
        assert_eq!(
            paths.of("edge-1", address(1)),
            Some(Path::Relayed),
            "the oldest are forgotten"
        );
        assert_eq!(
            paths
                .addresses
                .keys()
                .filter(|(node, _)| node == "edge-2")
                .count(),
            MAX_OF_NODE
        );
        let report = wire::relay::Report {
            paths: paths.report(),
        };
        assert_eq!(report.paths.get("edge-1"), Some(&Path::Relayed));
        assert!(report.paths.len() > 200);
        assert!(serde_json::to_vec(&report).unwrap().len() <= MAX_REPORT);
    }
}
