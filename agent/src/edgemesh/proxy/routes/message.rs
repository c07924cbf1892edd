//! Messages to the kernel about routes to this machine itself. Pure.
//!
//! Source: rtnetlink(7), `linux/rtnetlink.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::{CREATE_EXCL, REQUEST_ACK, attribute, attributes, message};

/// Types: `RTM_NEWROUTE`, `RTM_DELROUTE`, `RTM_GETROUTE`.
pub(super) const ROUTE: u16 = 24;
const GONE: u16 = 25;
pub(super) const GET: u16 = 26;
/// Attributes: `RTA_DST`, `RTA_OIF`.
const DESTINATION: u16 = 1;
const INTERFACE: u16 = 4;
/// Families: `AF_INET`, `AF_INET6`.
const INET: u8 = 2;
const INET6: u8 = 10;
/// `RT_TABLE_LOCAL`, in which the kernel has its own routes of the kind; `RT_SCOPE_HOST`, `RTN_LOCAL`.
const TABLE: u8 = 255;
const SCOPE: u8 = 254;
const LOCAL: u8 = 2;
/// Who made a route: this number is nobody else's in `/etc/iproute2/rt_protos`, so that routes of an agent that was killed are known
/// again.
pub(super) const PROTOCOL: u8 = 77;
/// `struct rtmsg`.
const HEAD: usize = 12;

/// The address is delivered to this machine; `interface` is the number of the loopback interface.
pub(super) fn add(address: IpAddr, interface: u32) -> Vec<u8> {
    message(ROUTE, REQUEST_ACK | CREATE_EXCL, &route(address, interface))
}

/// The route was deleted.
pub(super) fn remove(address: IpAddr, interface: u32) -> Vec<u8> {
    message(GONE, REQUEST_ACK, &route(address, interface))
}

/// The question for all routes of one family.
pub(super) fn question(is_ipv4: bool) -> Vec<u8> {
    let mut body = vec![0; HEAD];
    body[0] = if is_ipv4 { INET } else { INET6 };
    body
}

/// The address of a route of ours.
pub(super) fn ours(body: &[u8]) -> Option<IpAddr> {
    let head = body.get(..HEAD)?;
    if (head[4], head[5], head[7]) != (TABLE, PROTOCOL, LOCAL) {
        return None;
    }
    let rest = attributes(body.get(HEAD..)?);
    let (_, address) = rest.into_iter().find(|(kind, _)| *kind == DESTINATION)?;
    match (head[0], head[1]) {
        (INET, 32) => Some(Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?).into()),
        (INET6, 128) => Some(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?).into()),
        _ => None,
    }
}

fn route(address: IpAddr, interface: u32) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(address) => (INET, address.octets().to_vec()),
        IpAddr::V6(address) => (INET6, address.octets().to_vec()),
    };
    let bits = if family == INET { 32 } else { 128 };
    let (source_bits, tos, flags) = (0, 0, 0u32);
    let head = [
        family,
        bits,
        source_bits,
        tos,
        TABLE,
        PROTOCOL,
        SCOPE,
        LOCAL,
    ];
    let interface = attribute(INTERFACE, &interface.to_ne_bytes());
    [
        &head[..],
        &flags.to_ne_bytes(),
        &attribute(DESTINATION, &bytes),
        &interface,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_known_again() {
        for address in ["10.96.0.10", "fd00::a"] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(ours(&route(address, 1)), Some(address));
            let mut others = route(address, 1);
            others[5] = 2;
            assert_eq!(ours(&others), None, "the kernel's");
            assert_eq!(ours(&route(address, 1)[..18]), None);
        }
        assert_eq!(add([10, 96, 0, 10].into(), 1).len(), 16 + 12 + 8 + 8);
        assert_eq!(
            remove("fd00::a".parse().unwrap(), 1).len(),
            16 + 12 + 20 + 8
        );
        assert_eq!(ours(&[]), None);
    }
}
