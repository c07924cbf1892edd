//! Netlink messages about interfaces and addresses. Pure.
//!
//! Source: rtnetlink(7), `linux/rtnetlink.h`, `linux/if_link.h`, `linux/if_addr.h`.

use std::net::IpAddr;

use crate::netlink::{ASK, NEW, attribute, message};

/// Message types.
const LINK: u16 = 16;
const LINK_GONE: u16 = 17;
const ADDRESS: u16 = 20;
const ADDRESS_GONE: u16 = 21;
/// Attributes of links, and of addresses.
const IFLA_NAME: u16 = 3;
const IFLA_INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// Flag of an interface: it is up.
const UP: u32 = 1;
/// Address families.
const INET: u8 = 2;
const INET6: u8 = 10;
/// Flag of an address: no duplicate address detection, because no other host can have it on this link.
const NO_DUPLICATES: u8 = 2;
/// Scope of an address: traffic that leaves the link never has it as its source.
const OF_LINK: u8 = 253;

/// Builds a message that creates an interface of this kind, up from the beginning.
pub(super) fn link(name: &str, kind: &str) -> Vec<u8> {
    let kind = attribute(INFO_KIND, kind.as_bytes());
    let name = [name.as_bytes(), &[0]].concat();
    let body = [interface(0), attribute(IFLA_NAME, &name), attribute(IFLA_INFO, &kind)].concat();
    message(LINK, ASK | NEW, &body)
}

/// Builds a message that sets the interface with this index up.
pub(super) fn up(index: u32) -> Vec<u8> {
    message(LINK, ASK, &interface(index))
}

/// Builds a message that deletes the interface with this index.
pub(super) fn remove_link(index: u32) -> Vec<u8> {
    message(LINK_GONE, ASK, &interface(index))
}

/// Builds a message that adds an address to the interface with this index, with the longest prefix.
pub(super) fn address(index: u32, address: IpAddr) -> Vec<u8> {
    message(ADDRESS, ASK | NEW, &address_of(index, address))
}

/// Builds a message that removes the address from the interface with this index.
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

/// Encodes a `struct ifinfomsg` that sets the interface up.
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
