//! Pod addresses, 10.88.0.2 to 10.88.255.254, each given to one sandbox at a time.

use std::{collections::BTreeSet, net::Ipv4Addr};

/// The first two bytes, as in the default network of CNI's bridge.
const NETWORK: u32 = 0x0a58_0000;
/// 0 is the network, 1 its gateway.
const FIRST: u16 = 2;
/// The last one is for broadcasts.
const LAST: u16 = u16::MAX - 1;

/// Goes round, so that an address that became free is not given again at once.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    taken: BTreeSet<u16>,
    last: u16,
}

impl Addresses {
    pub(super) fn take(&mut self) -> Option<Ipv4Addr> {
        let start = self.last.saturating_add(1);
        let host = (start.max(FIRST)..=LAST).chain(FIRST..=LAST).find(|host| !self.taken.contains(host))?;
        self.taken.insert(host);
        self.last = host;
        Some(Ipv4Addr::from(NETWORK | u32::from(host)))
    }

    pub(super) fn claim(&mut self, address: Ipv4Addr) {
        let host = host_part(address);
        self.taken.insert(host);
        self.last = self.last.max(host);
    }

    pub(super) fn free(&mut self, address: Ipv4Addr) {
        self.taken.remove(&host_part(address));
    }
}

#[cfg(test)]
impl Addresses {
    pub(super) fn taken(&self) -> usize {
        self.taken.len()
    }
}

/// Whether pods may have this address.
pub(super) fn is_pods(address: Ipv4Addr) -> bool {
    u32::from(address) & 0xffff_0000 == NETWORK
}

fn host_part(address: Ipv4Addr) -> u16 {
    let [_, _, high, low] = address.octets();
    u16::from_be_bytes([high, low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_given_once_and_again_only_when_free() {
        let mut addresses = Addresses::default();
        let all: Vec<_> = std::iter::from_fn(|| addresses.take()).collect();
        assert_eq!(all.len(), usize::from(LAST - FIRST) + 1);
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
}
