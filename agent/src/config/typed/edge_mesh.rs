//! Settings of EdgeMesh.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::HostPort;

/// The port of DNS, RFC 1035.
pub const DNS_PORT: u16 = 53;
/// The address of EdgeMesh's agents.
const DNS_ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 96, 16);

/// The settings of EdgeMesh on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeMesh {
    /// How an endpoint is chosen if a Service does not say.
    pub strategy: Strategy,
    /// The meaning of EdgeMesh's label on a Service.
    pub filter: ServiceFilter,
    /// The node's addresses at which NodePorts are served; empty for all.
    pub node_port_addresses: Vec<Network>,
    /// The networks of the addresses that Services may claim by `externalIPs` or have of a load balancer; empty for none.
    pub external_addresses: Vec<Network>,
    /// The DNS server.
    pub dns: Dns,
    /// The relay to nodes that this one does not reach; `None` for none.
    pub relay: Option<HostPort>,
}

/// The DNS server of EdgeMesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    /// The address to listen on; it is added to an interface if none has it.
    pub address: SocketAddr,
    /// The servers for names outside of the cluster; empty for the node's resolvers.
    pub upstreams: Vec<SocketAddr>,
}

impl Default for Dns {
    fn default() -> Self {
        Self {
            address: (DNS_ADDRESS, DNS_PORT).into(),
            upstreams: Vec::new(),
        }
    }
}

/// How the endpoint of a connection is chosen: `lbStrategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// A random endpoint, as kube-proxy does.
    #[default]
    Random,
    /// One endpoint after the other.
    RoundRobin,
    /// The same endpoint for the same client address, as long as it serves.
    ConsistentHash,
}

/// The meaning of EdgeMesh's label `service.edgemesh.kubeedge.io/service-proxy-name` on a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceFilter {
    /// The Service is left out: another proxy serves it.
    #[default]
    LeaveOut,
    /// The Service is served, and those without the label are left out.
    Only,
}

/// A network in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Parses `ADDRESS/BITS`.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        Self::new(address.parse().ok()?, bits.parse().ok()?)
    }

    /// Returns the network whose addresses have the first `bits` bits of this one; `None` if it has fewer.
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        (bits <= width(address)).then_some(Self { address, bits })
    }

    /// Returns the network of this address alone.
    pub fn of(address: IpAddr) -> Self {
        Self {
            address,
            bits: width(address),
        }
    }

    /// Returns the address of a network that has one alone.
    pub fn only_address(&self) -> Option<IpAddr> {
        (self.bits == width(self.address)).then_some(self.address)
    }

    /// Reports whether the network has all addresses of its family.
    pub fn is_all(&self) -> bool {
        self.bits == 0
    }

    /// Reports whether the network is of link-local addresses of IPv6, which every link has.
    pub fn is_unicast_link_local(&self) -> bool {
        matches!(self.address, IpAddr::V6(six) if six.is_unicast_link_local())
    }

    /// Returns the network of an address with this mask; `None` if the mask is invalid.
    pub fn masked(address: IpAddr, mask: IpAddr) -> Option<Self> {
        let (ones, all) = match mask {
            IpAddr::V4(mask) => (mask.to_bits().leading_ones(), mask.to_bits().count_ones()),
            IpAddr::V6(mask) => (mask.to_bits().leading_ones(), mask.to_bits().count_ones()),
        };
        let bits = u8::try_from(ones)
            .ok()
            .filter(|_| ones == all && address.is_ipv4() == mask.is_ipv4())?;
        Some(Self { address, bits })
    }

    /// Reports whether the address belongs to the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (own, theirs, width) = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(theirs)) => {
                (own.to_bits().into(), theirs.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(theirs)) => (own.to_bits(), theirs.to_bits(), 128),
            _ => return false,
        };
        let differing: u128 = own ^ theirs;
        differing
            .checked_shr(width - u32::from(self.bits))
            .unwrap_or_default()
            == 0
    }
}

/// Returns the number of bits of an address.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.7/32", "10.0.0.7", true),
            ("10.0.0.7/32", "10.0.0.6", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "fd00::1", true),
            ("fd00::/64", "fd00::ffff", true),
            ("fd00::/64", "fd00:0:0:1::", false),
        ] {
            let network = Network::parse(network).unwrap();
            assert_eq!(
                network.contains(address.parse().unwrap()),
                expected,
                "{network:?} {address}"
            );
        }
        for (address, mask, expected) in [
            ("10.88.0.1", "255.255.0.0", Some("10.88.0.1/16")),
            ("10.88.0.1", "255.255.255.255", Some("10.88.0.1/32")),
            ("10.88.0.1", "255.0.255.0", None),
            ("10.88.0.1", "ffff::", None),
            ("fd00::1", "ffff:ffff:ffff:ffff::", Some("fd00::1/64")),
        ] {
            let network = Network::masked(address.parse().unwrap(), mask.parse().unwrap());
            assert_eq!(
                network,
                expected.and_then(Network::parse),
                "{address} {mask}"
            );
        }
        assert_eq!(
            Some(Network::of([10, 0, 0, 7].into())),
            Network::parse("10.0.0.7/32")
        );
        for bad in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "x/8",
            "10.0.0.0/-1",
        ] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }
}
