//! Messages to the kernel about interfaces and addresses: pure.
//!
//! Source: rtnetlink(7), `linux/rtnetlink.h`, `linux/if_link.h`, `linux/if_addr.h`.

use std::net::IpAddr;

use crate::netlink::{ASK, NEW, attribute, message};

/// Types: `RTM_NEWLINK`, `RTM_DELLINK`, `RTM_NEWADDR`, `RTM_DELADDR`.
const LINK: u16 = 16;
const LINK_GONE: u16 = 17;
const ADDRESS: u16 = 20;
const ADDRESS_GONE: u16 = 21;
/// Attributes: `IFLA_IFNAME`, `IFLA_LINKINFO` and in it `IFLA_INFO_KIND`; `IFA_ADDRESS`, `IFA_LOCAL`.
const IFLA_NAME: u16 = 3;
const IFLA_INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// `IFF_UP`.
const UP: u32 = 1;
/// Families: `AF_INET`, `AF_INET6`.
const INET: u8 = 2;
const INET6: u8 = 10;
/// `IFA_F_NODAD`: nobody else can have it on this link.
const NO_DUPLICATES: u8 = 2;
/// `RT_SCOPE_LINK`: no traffic to elsewhere has this address as its source.
const OF_LINK: u8 = 253;

/// A new interface of this kind, up from the beginning.
pub(super) fn link(name: &str, kind: &str) -> Vec<u8> {
    let kind = attribute(INFO_KIND, kind.as_bytes());
    let name = [name.as_bytes(), &[0]].concat();
    let body = [interface(0), attribute(IFLA_NAME, &name), attribute(IFLA_INFO, &kind)].concat();
    message(LINK, ASK | NEW, &body)
}

/// The interface of this number is to be up.
pub(super) fn up(index: u32) -> Vec<u8> {
    message(LINK, ASK, &interface(index))
}

/// The interface of this number is to be no more.
pub(super) fn remove_link(index: u32) -> Vec<u8> {
    message(LINK_GONE, ASK, &interface(index))
}

/// The interface of this number gets an address of its own, with no network around it.
pub(super) fn address(index: u32, address: IpAddr) -> Vec<u8> {
    message(ADDRESS, ASK | NEW, &address_of(index, address))
}

/// The interface of this number has the address no more.
pub(super) fn remove_address(index: u32, address: IpAddr) -> Vec<u8> {
    message(ADDRESS_GONE, ASK, &address_of(index, address))
}

fn address_of(index: u32, address: IpAddr) -> Vec<u8> {
    let (family, flags, bytes) = match address {
        IpAddr::V4(address) => (INET, 0, address.octets().to_vec()),
        IpAddr::V6(address) => (INET6, NO_DUPLICATES, address.octets().to_vec()),
    };
    let bits = if family == INET { 32 } else { 128 };
    let head = [[family, bits, flags, OF_LINK], index.to_ne_bytes()].concat();
    [head, attribute(IFA_LOCAL, &bytes), attribute(IFA_ADDRESS, &bytes)].concat()
}

/// `struct ifinfomsg` that sets the interface up.
fn interface(index: u32) -> Vec<u8> {
    let (unspecified, kind) = ([0, 0], [0, 0]);
    let head = [unspecified, kind].concat();
    [head, index.to_ne_bytes().to_vec(), UP.to_ne_bytes().to_vec(), UP.to_ne_bytes().to_vec()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_long_as_they_say() {
        let messages = [
            link("edge-dummy0", "dummy"),
            up(7),
            address(7, [169, 254, 30, 10].into()),
            address(7, "fd00::1".parse().unwrap()),
        ];
        for (message, size) in messages.iter().zip([64, 32, 40, 64]) {
            assert_eq!(message.len(), size);
            assert_eq!(u32::from_ne_bytes(message[..4].try_into().unwrap()) as usize, size);
        }
        assert!(messages[0].windows(12).any(|bytes| bytes == b"edge-dummy0\0"));
        assert_eq!(messages[2][16..20], [INET, 32, 0, OF_LINK]);
    }
}
