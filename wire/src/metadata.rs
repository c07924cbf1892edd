//! The addresses at which clouds serve the metadata and credentials of their machines. What a user of the cluster chooses as a target, such
//! as a rule's URL or an endpoint, must not lead there. Link-local addresses, where most of these services are, are blocked as a whole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 addresses outside 169.254.0.0/16: Alibaba Cloud, Azure's WireServer, Oracle Cloud.
const OUTSIDE_LINK_LOCAL_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
/// IPv6 addresses outside fe80::/10: Amazon, Google.
const OUTSIDE_LINK_LOCAL_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];
/// The prefix of IPv4 addresses behind NAT64 (RFC 6052), and that of deprecated IPv4-compatible addresses (RFC 4291).
const EMBEDDING_PREFIXES: [[u16; 6]; 2] = [[0x64, 0xff9b, 0, 0, 0, 0], [0; 6]];

/// Reports whether an address is link-local or a metadata service's, also as an IPv4 address in an IPv6 one.
pub fn is_metadata_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_metadata_v4(address),
        IpAddr::V6(address) => {
            address.is_unicast_link_local()
                || OUTSIDE_LINK_LOCAL_V6.contains(&address)
                || embedded(address).is_some_and(is_metadata_v4)
        }
    }
}

fn is_metadata_v4(address: Ipv4Addr) -> bool {
    address.is_link_local() || OUTSIDE_LINK_LOCAL_V4.contains(&address)
}

/// Returns the IPv4 address that a gateway or an old system sees in this one.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [prefix @ .., _, _] = address.segments();
    let [.., a, b, c, d] = address.octets();
    EMBEDDING_PREFIXES.contains(&prefix).then(|| Ipv4Addr::new(a, b, c, d))
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
            ("100.100.100.201", false),
            ("168.63.129.17", false),
            ("192.0.0.1", false),
            ("fd00:ec2::253", false),
            ("64:ff9b::192.0.2.1", false),
            ("127.0.0.1", false),
            ("::1", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_metadata_address(address.parse().unwrap()), expected, "{address}");
        }
    }
}
