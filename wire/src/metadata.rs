//! The addresses at which clouds serve the metadata and credentials of their machines. What a user of the cluster chooses as a target, such
//! as a rule's URL or an endpoint, must not lead there. Link-local addresses, where most of these services are, are blocked as a whole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 addresses outside 169.254.0.0/16: Alibaba Cloud, Azure's WireServer, Oracle Cloud.
const OUTSIDE_LINK_LOCAL_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];
/// IPv6 addresses outside fe80::/10: Amazon, Google.
const OUTSIDE_LINK_LOCAL_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];
/// The prefixes of IPv4 addresses in the last four bytes: behind NAT64 (RFC 6052), IPv4-compatible (RFC 4291) and translated (RFC 2765).
const EMBEDDING_PREFIXES: [[u16; 6]; 3] =
    [[0x64, 0xff9b, 0, 0, 0, 0], [0; 6], [0, 0, 0, 0, 0xffff, 0]];

/// Reports whether an address is link-local or a metadata service's, also as an IPv4 address in an IPv6 one.
pub fn is_metadata_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_metadata_v4(address),
        IpAddr::V6(address) => {
            address.is_unicast_link_local()
                || OUTSIDE_LINK_LOCAL_V6.contains(&address)
                || embedded_ipv4(address).is_some_and(is_metadata_v4)
        }
    }
}

fn is_metadata_v4(address: Ipv4Addr) -> bool {
    address.is_link_local() || OUTSIDE_LINK_LOCAL_V4.contains(&address)
}

/// Returns the IPv4 address that a gateway or an old system sees in this one.
fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [prefix @ .., _, _] = address.segments();
    let octets = address.octets();
    let [.., a, b, c, d] = octets;
    match prefix {
        // 6to4 (RFC 3056): after the first two bytes
        [0x2002, ..] => Some(Ipv4Addr::new(octets[2], octets[3], octets[4], octets[5])),
        // NAT64 of a network's own (RFC 8215)
        [0x64, 0xff9b, 1, ..] => Some(Ipv4Addr::new(a, b, c, d)),
        _ => EMBEDDING_PREFIXES
            .contains(&prefix)
            .then(|| Ipv4Addr::new(a, b, c, d)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_addresses_of_clouds_are_recognized_in_every_form() {
        for (address, expected) in [
            ("169.254.169.254", true),
            ("169.254.0.1", true),
            ("100.100.100.200", true),
            ("168.63.129.16", true),
            ("192.0.0.192", true),
            ("fe80::1", true),
            ("fd00:ec2::254", true),
            ("fd20:ce::254", true),
            ("::ffff:169.254.169.254", true),
            ("::ffff:100.100.100.200", true),
            ("::168.63.129.16", true),
            ("64:ff9b::169.254.169.254", true),
            ("64:ff9b::192.0.0.192", true),
            ("64:ff9b:1::169.254.169.254", true),
            ("2002:a9fe:a9fe::", true),
            ("::ffff:0:169.254.169.254", true),
            ("2002:c000:201::1", false),
            ("100.100.100.201", false),
            ("168.63.129.17", false),
            ("192.0.0.1", false),
            ("fd00:ec2::253", false),
            ("64:ff9b::192.0.2.1", false),
            ("127.0.0.1", false),
            ("::1", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(
                is_metadata_address(address.parse().unwrap()),
                expected,
                "{address}"
            );
        }
    }
}
