//! Netlink messages about interfaces and addresses. Pure.
//!
//! Source: rtnetlink(7), `linux/rtnetlink.h`, `linux/if_link.h`, `linux/if_addr.h`.

use std::net::IpAddr;

use crate::netlink::{CREATE_EXCL, REQUEST_ACK, attribute, message};

/// Message types.
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
/// Attributes of links, and of addresses.
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// Flag of an interface: it is up.
const IFF_UP: u32 = 1;
/// Address families.
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// Flag of an address: no duplicate address detection, because no other host can have it on this link.
const IFA_F_NODAD: u8 = 2;
/// Scope of an address: traffic that leaves the link never has it as its source.
const RT_SCOPE_LINK: u8 = 253;

/// Builds a message that creates an interface of this kind, up from the beginning.
pub(super) fn create_link(name: &str, kind: &str) -> Vec<u8> {
    let kind = attribute(IFLA_INFO_KIND, kind.as_bytes());
    let name = [name.as_bytes(), &[0]].concat();
    let body = [
        interface(0),
        attribute(IFLA_IFNAME, &name),
        attribute(IFLA_LINKINFO, &kind),
    ]
    .concat();
    message(RTM_NEWLINK, REQUEST_ACK | CREATE_EXCL, &body)
}

/// Builds a message that sets the interface with this index up.
pub(super) fn set_link_up(index: u32) -> Vec<u8> {
    message(RTM_NEWLINK, REQUEST_ACK, &interface(index))
}

/// Builds a message that deletes the interface with this index.
pub(super) fn remove_link(index: u32) -> Vec<u8> {
    message(RTM_DELLINK, REQUEST_ACK, &interface(index))
}

/// Builds a message that adds an address to the interface with this index, with the longest prefix.
pub(super) fn add_address(index: u32, address: IpAddr) -> Vec<u8> {
    message(
        RTM_NEWADDR,
        REQUEST_ACK | CREATE_EXCL,
        &address_of(index, address),
    )
}

/// Builds a message that removes the address from the interface with this index.
pub(super) fn remove_address(index: u32, address: IpAddr) -> Vec<u8> {
    message(RTM_DELADDR, REQUEST_ACK, &address_of(index, address))
}

fn address_of(index: u32, address: IpAddr) -> Vec<u8> {
    let (family, flags, bytes) = match address {
        IpAddr::V4(address) => (AF_INET, 0, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, IFA_F_NODAD, address.octets().to_vec()),
    };
    let bits = if family == AF_INET { 32 } else { 128 };
    let head = [[family, bits, flags, RT_SCOPE_LINK], index.to_ne_bytes()].concat();
    [
        head,
        attribute(IFA_LOCAL, &bytes),
        attribute(IFA_ADDRESS, &bytes),
    ]
    .concat()
}

/// Encodes a `struct ifinfomsg` that sets the interface up.
fn interface(index: u32) -> Vec<u8> {
    let (unspecified, kind) = ([0, 0], [0, 0]);
    let head = [unspecified, kind].concat();
    [
        head,
        index.to_ne_bytes().to_vec(),
        IFF_UP.to_ne_bytes().to_vec(),
        IFF_UP.to_ne_bytes().to_vec(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_long_as_they_say() {
        let messages = [
            create_link("edge-dummy0", "dummy"),
            set_link_up(7),
            add_address(7, [169, 254, 30, 10].into()),
            add_address(7, "fd00::1".parse().unwrap()),
        ];
        for (message, size) in messages.iter().zip([64, 32, 40, 64]) {
            assert_eq!(message.len(), size);
            assert_eq!(
                u32::from_ne_bytes(message[..4].try_into().unwrap()) as usize,
                size
            );
        }
        assert!(
            messages[0]
                .windows(12)
                .any(|bytes| bytes == b"edge-dummy0\0")
        );
        assert_eq!(messages[2][16..20], [AF_INET, 32, 0, RT_SCOPE_LINK]);
    }
}
