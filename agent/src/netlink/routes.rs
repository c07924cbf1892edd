//! The kernel's routes: which networks are behind which interface.
//!
//! Source: rtnetlink(7), `linux/rtnetlink.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::errno::Errno;

use super::{Kernel, attributes};
use crate::config::Network;

/// Types: `RTM_NEWROUTE`, `RTM_GETROUTE`.
const ROUTE: u16 = 24;
const GET: u16 = 26;
/// The length of `struct rtmsg`.
const RTMSG_LENGTH: usize = 12;
/// Attributes: `RTA_DST`, `RTA_OIF`, `RTA_MULTIPATH`.
const DESTINATION: u16 = 1;
const INTERFACE: u16 = 4;
const MULTIPATH: u16 = 9;
/// The length of `struct rtnexthop`.
const NEXT_HOP_LENGTH: usize = 8;
/// Families: `AF_INET`, `AF_INET6`.
const INET: u8 = 2;
const INET6: u8 = 10;
/// Kinds of routes: `RTN_UNICAST`, `RTN_LOCAL`.
const UNICAST: u8 = 1;
const LOCAL: u8 = 2;

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The destination.
    pub(crate) network: Network,
    /// The numbers of the outgoing interfaces: several for a route with several gateways.
    pub(crate) interfaces: Vec<u32>,
    /// Whether the destination is this machine itself.
    pub(crate) is_local: bool,
}

/// Returns the routes to this machine and to others, of all tables. Those that refuse, and of broadcast and multicast, are left out.
pub(crate) fn routes() -> Result<Vec<Route>, Errno> {
    let (kernel, mut all) = (Kernel::open()?, Vec::new());
    for family in [INET, INET6] {
        let mut body = [0; RTMSG_LENGTH];
        body[0] = family;
        match kernel.list(GET, ROUTE, &body) {
            Ok(routes) => all.extend(routes.iter().filter_map(|route| parse(route))),
            // a kernel without IPv6
            Err(Errno::EAFNOSUPPORT | Errno::EOPNOTSUPP) if family == INET6 => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(all)
}

/// Parses a route of the kernel.
fn parse(body: &[u8]) -> Option<Route> {
    let (head, rest) = body.split_at_checked(RTMSG_LENGTH)?;
    let (family, bits, kind) = (head[0], head[1], head[7]);
    if !matches!(kind, UNICAST | LOCAL) {
        return None;
    }
    let mut address: IpAddr = if family == INET {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let mut interfaces = Vec::new();
    for (attribute, value) in attributes(rest) {
        match attribute {
            DESTINATION if family == INET => {
                address = Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?).into();
            }
            DESTINATION => address = Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).into(),
            INTERFACE => interfaces.push(u32::from_ne_bytes(value.try_into().ok()?)),
            MULTIPATH => interfaces.extend(next_hops(value)),
            _ => {}
        }
    }
    Some(Route {
        network: Network::new(address, bits)?,
        interfaces,
        is_local: kind == LOCAL,
    })
}

/// Parses the interfaces of a route with several gateways: each entry begins with its length, and has its interface at byte 4.
fn next_hops(mut bytes: &[u8]) -> Vec<u32> {
    let mut all = Vec::new();
    while let Some(&[a, b, _, _, c, d, e, f]) = bytes.get(..NEXT_HOP_LENGTH) {
        all.push(u32::from_ne_bytes([c, d, e, f]));
        let length = usize::from(u16::from_ne_bytes([a, b])).max(NEXT_HOP_LENGTH);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute;

    fn body(family: u8, bits: u8, kind: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        [
            vec![family, bits, 0, 0, 254, 3, 0, kind, 0, 0, 0, 0],
            attributes.concat(),
        ]
        .concat()
    }

    #[test]
    fn routes_are_read() {
        let network = |text: &str| Network::parse(text).unwrap();
        let interface = |number: u32| attribute(INTERFACE, &number.to_ne_bytes());
        let hop = |number: u32| [&8u16.to_ne_bytes()[..], &[0, 0], &number.to_ne_bytes()].concat();
        let two = attribute(MULTIPATH, &[hop(3), hop(4)].concat());
        for (bytes, expected) in [
            (
                body(
                    INET,
                    16,
                    UNICAST,
                    &[attribute(DESTINATION, &[10, 22, 0, 0]), interface(5)],
                ),
                Some((network("10.22.0.0/16"), vec![5], false)),
            ),
            (
                body(
                    INET,
                    32,
                    LOCAL,
                    &[attribute(DESTINATION, &[10, 22, 0, 1]), interface(5)],
                ),
                Some((network("10.22.0.1/32"), vec![5], true)),
            ),
            (
                body(INET, 0, UNICAST, &[interface(2)]),
                Some((network("0.0.0.0/0"), vec![2], false)),
            ),
            (
                body(INET6, 0, UNICAST, &[two]),
                Some((network("::/0"), vec![3, 4], false)),
            ),
            // broadcast, and what is cut off
            (body(INET, 32, 3, &[interface(2)]), None),
            (
                body(INET, 32, LOCAL, &[attribute(DESTINATION, &[10])]),
                None,
            ),
            (body(INET, 33, LOCAL, &[]), None),
            (vec![INET, 0, 0], None),
        ] {
            let expected = expected.map(|(network, interfaces, is_local)| Route {
                network,
                interfaces,
                is_local,
            });
            assert_eq!(parse(&bytes), expected, "{bytes:?}");
        }
        assert_eq!(
            next_hops(&[0; 8]).len(),
            1,
            "a length of zero does not stand still"
        );
    }
}
