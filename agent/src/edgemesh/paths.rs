//! How other nodes are reached, as connections have found it. Pure: the time is a parameter.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use wire::relay::Path;

/// How many nodes are remembered; beyond that all are forgotten, and found anew.
const MAX_NODES: usize = 1000;
/// While a node is reached over the relay, how long until a connection tries its direct path again.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// What a connection tries first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// The direct path; the relay as well if that does not answer soon.
    Direct,
    /// Both at once, to see whether the direct path works again.
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

/// The known paths, by node.
#[derive(Debug, Default)]
pub(super) struct Paths(HashMap<String, Known>);

impl Paths {
    /// Decides what a connection to this node tries first. If that includes the direct path, it counts as tried now.
    pub(super) fn first(&mut self, node: &str, now: Instant) -> First {
        match self.0.get_mut(node) {
            Some(known) if known.path == Path::Relayed => {
                if now.saturating_duration_since(known.tried) < PROBE_INTERVAL {
                    return First::Relay;
                }
                known.tried = now;
                First::Both
            }
            _ => First::Direct,
        }
    }

    /// Returns the path to a node, if one is known.
    pub(super) fn of(&self, node: &str) -> Option<Path> {
        self.0.get(node).map(|known| known.path)
    }

    /// Reports whether the direct path was not tried within `age`.
    pub(super) fn is_old(&self, node: &str, age: Duration, now: Instant) -> bool {
        self.0.get(node).is_none_or(|known| now.saturating_duration_since(known.tried) >= age)
    }

    /// Records the path that a connection has found; reports whether it is another one than before.
    pub(super) fn found(&mut self, node: &str, path: Path, now: Instant) -> bool {
        let before = self.of(node);
        if before == Some(Path::Relayed) && path == Path::Relayed {
            // a connection over the relay does not show how the direct path is
            return false;
        }
        if self.0.len() >= MAX_NODES && before.is_none() {
            self.0.clear();
        }
        self.0.insert(node.to_owned(), Known { path, tried: now });
        before != Some(path)
    }

    /// Records that the direct path is being tried now.
    pub(super) fn tried(&mut self, node: &str, now: Instant) {
        if let Some(known) = self.0.get_mut(node) {
            known.tried = now;
        } else {
            self.found(node, Path::Direct, now);
        }
    }

    /// Returns all known paths, by node.
    pub(super) fn all(&self) -> BTreeMap<String, Path> {
        self.0.iter().map(|(node, known)| (node.clone(), known.path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_behind_the_relay_is_tried_directly_now_and_then() {
        let (mut paths, begun) = (Paths::default(), Instant::now());
        let at = |millis| begun + Duration::from_millis(millis);
        assert_eq!(paths.first("a", at(0)), First::Direct, "nothing is known of it");
        assert!(paths.found("a", Path::Relayed, at(0)));
        assert_eq!(paths.first("a", at(100)), First::Relay);
        assert_eq!(paths.first("a", at(2000)), First::Both);
        assert_eq!(paths.first("a", at(2100)), First::Relay, "one connection tries it, and not all");
        assert!(!paths.found("a", Path::Relayed, at(2200)));
        assert_eq!(paths.first("a", at(4000)), First::Both, "the relay's own connections do not put it off");
        assert!(paths.found("a", Path::Direct, at(4300)));
        assert_eq!(paths.first("a", at(4400)), First::Direct);
        assert!(paths.found("b", Path::Unreached, at(4400)));
        assert_eq!(paths.first("b", at(4500)), First::Direct);
        assert_eq!(paths.all().len(), 2);
    }

    #[test]
    fn so_many_nodes_are_remembered() {
        let (mut paths, now) = (Paths::default(), Instant::now());
        for number in 0..MAX_NODES + 10 {
            paths.found(&format!("edge-{number}"), Path::Direct, now);
        }
        assert_eq!(paths.all().len(), 10);
        assert!(
            paths.is_old("edge-0", PROBE_INTERVAL, now) && !paths.is_old("edge-1009", PROBE_INTERVAL, now)
        );
    }
}
