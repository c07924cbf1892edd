//! Pod addresses of one node, each given to one sandbox at a time.

use std::{
    collections::BTreeSet,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    net::Ipv4Addr,
    str::FromStr,
};

/// A range of addresses such as `10.88.0.0/16`; prefixes are 8 to 29 bits long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodCidr {
    network: u32,
    prefix: u32,
}

/// The error for a text that is not a valid range of pod addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a range of pod addresses; use an IPv4 network with a prefix of 8 to 29, for example 10.88.0.0/16"
)]
pub struct NoPodCidr(String);

impl Default for PodCidr {
    /// Returns 10.88.0.0/16, the default network of CNI's bridge, for a node that is alone.
    fn default() -> Self {
        Self {
            network: 0x0a58_0000,
            prefix: 16,
        }
    }
}

impl PodCidr {
    /// The prefix length of [`Self::of_node`]: 1,021 pods, while a kubelet admits 110 by default.
    const NODE_PREFIX: u32 = 22;
    /// All nodes' addresses, 10.128.0.0/9, which overlaps neither service addresses nor the network of CNI's bridge.
    const ALL_NODES: Self = Self {
        network: 0x0a80_0000,
        prefix: 9,
    };

    /// Returns the addresses of a node to which the cloud gives none. Nodes whose names differ only in the number at the end, as in a
    /// fleet, share none as long as they are fewer than 8,192; two others share them with a probability of 1 in 8,192.
    pub fn of_node(name: &str) -> Self {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name
            .get(stem.len()..)
            .and_then(|digits| digits.parse::<u64>().ok())
            .unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        stem.hash(&mut hasher);
        let networks = 1_u64 << (Self::NODE_PREFIX - Self::ALL_NODES.prefix);
        let which =
            u32::try_from(hasher.finish().wrapping_add(number) % networks).unwrap_or_default();
        let network = Self::ALL_NODES.network | (which << (32 - Self::NODE_PREFIX));
        Self {
            network,
            prefix: Self::NODE_PREFIX,
        }
    }

    fn hosts(self) -> u32 {
        (1 << (32 - self.prefix)) - 1
    }

    fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & !self.hosts() == self.network
    }

    /// Returns the first address for a pod: 0 is the network, 1 its gateway.
    fn first(self) -> u32 {
        self.network + 2
    }

    /// Returns the last address for a pod; the next one is for broadcasts.
    fn last(self) -> u32 {
        self.network + self.hosts() - 1
    }
}

impl FromStr for PodCidr {
    type Err = NoPodCidr;

    fn from_str(text: &str) -> Result<Self, NoPodCidr> {
        let parse = || {
            let (address, prefix) = text.split_once('/')?;
            let (address, prefix) = (
                address.parse::<Ipv4Addr>().ok()?,
                prefix.parse::<u32>().ok()?,
            );
            let all = Self { network: 0, prefix };
            (8..=29).contains(&prefix).then(|| Self {
                network: address.to_bits() & !all.hosts(),
                prefix,
            })
        };
        parse().ok_or_else(|| NoPodCidr(text.to_owned()))
    }
}

impl fmt::Display for PodCidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.network), self.prefix)
    }
}

/// Allocates addresses in turn, so that a freed address is not reused at once.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    range: PodCidr,
    taken: BTreeSet<Ipv4Addr>,
    last: u32,
}

impl Addresses {
    /// Allocates addresses of this range from now on; addresses in use stay.
    pub(super) fn set_range(&mut self, range: PodCidr) {
        self.range = range;
        self.last = self
            .taken
            .iter()
            .filter(|address| range.contains(**address))
            .map(|a| a.to_bits())
            .max()
            .unwrap_or_default();
    }

    pub(super) fn take(&mut self) -> Option<Ipv4Addr> {
        let (first, last) = (self.range.first(), self.range.last());
        let start = self.last.saturating_add(1).max(first);
        let mut all = (start..=last).chain(first..=last).map(Ipv4Addr::from_bits);
        let address = all.find(|address| !self.taken.contains(address))?;
        self.taken.insert(address);
        self.last = address.to_bits();
        Some(address)
    }

    pub(super) fn claim(&mut self, address: Ipv4Addr) {
        self.taken.insert(address);
        if self.range.contains(address) {
            self.last = self.last.max(address.to_bits());
        }
    }

    pub(super) fn free(&mut self, address: Ipv4Addr) {
        self.taken.remove(&address);
    }

    /// Reports whether the address is in the range of this node's pods.
    pub(super) fn is_pods(&self, address: Ipv4Addr) -> bool {
        self.range.contains(address) || self.taken.contains(&address)
    }
}

#[cfg(test)]
impl Addresses {
    pub(super) fn used_count(&self) -> usize {
        self.taken.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_given_once_and_again_only_when_free() {
        let mut addresses = Addresses::default();
        let all: Vec<_> = std::iter::from_fn(|| addresses.take()).collect();
        assert_eq!(all.len(), (1 << 16) - 3);
        assert_eq!(all.first(), Some(&Ipv4Addr::new(10, 88, 0, 2)));
        assert_eq!(all.last(), Some(&Ipv4Addr::new(10, 88, 255, 254)));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        addresses.free(Ipv4Addr::new(10, 88, 7, 7));
        assert_eq!(addresses.take(), Some(Ipv4Addr::new(10, 88, 7, 7)));
        assert_eq!(addresses.take(), None);
    }

    #[test]
    fn restored_addresses_are_not_given_again() {
        let mut addresses = Addresses::default();
        addresses.claim(Ipv4Addr::new(10, 88, 0, 2));
        assert_eq!(addresses.take(), Some(Ipv4Addr::new(10, 88, 0, 3)));
    }

    #[test]
    fn a_range_that_changes_leaves_the_pods_that_are_there() {
        let mut addresses = Addresses::default();
        let old = addresses.take().unwrap();
        addresses.set_range("10.7.3.99/24".parse().unwrap());
        assert_eq!(addresses.take(), Some(Ipv4Addr::new(10, 7, 3, 2)));
        let is_pods = |address: [u8; 4]| addresses.is_pods(address.into());
        assert!(addresses.is_pods(old) && is_pods([10, 7, 3, 200]));
        assert!(
            !is_pods([10, 88, 0, 3]) && !is_pods([10, 7, 4, 2]),
            "another node's"
        );
        addresses.free(old);
        assert!(!addresses.is_pods(old));
    }

    #[test]
    fn nodes_of_a_fleet_share_no_address() {
        let ranges: BTreeSet<String> = (1..=8000)
            .map(|number| PodCidr::of_node(&format!("edge-{number}")).to_string())
            .collect();
        assert_eq!(ranges.len(), 8000);
        assert!(ranges.iter().all(|range| {
            PodCidr::ALL_NODES.contains(range.parse::<PodCidr>().unwrap().network.into())
        }));
        assert_eq!(
            PodCidr::of_node("edge"),
            PodCidr::of_node("edge"),
            "over restarts, too"
        );
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            "10.1.0.0",
            "10.1.0.0/33",
            "10.1.0.0/30",
            "10.1.0.0/7",
            "fd00::/64",
            "10.1.0/24",
        ] {
            assert!(text.parse::<PodCidr>().is_err(), "{text}");
        }
        assert_eq!(
            "10.1.2.3/8".parse::<PodCidr>().unwrap().to_string(),
            "10.0.0.0/8"
        );
    }
}
