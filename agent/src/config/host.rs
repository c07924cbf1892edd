//! The name and address of this machine, for the default values.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use super::names::is_node_name;

/// EdgeCore's own choice if the machine's name is invalid for a node.
const FALLBACK_NAME: &str = "default-edge-node";
/// An address of the documentation range: it is never contacted, but selects the default route.
const UNREACHABLE_ADDRESS: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// Reports whether a node can have this address: the kubelet refuses the same ones.
pub(crate) fn is_of_node(address: IpAddr) -> bool {
    !address.is_unspecified()
        && !address.is_multicast()
        && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// The name and address of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Lower-case name, valid for a node.
    pub name: String,
    /// The source address of the default route.
    pub address: IpAddr,
}

impl Host {
    /// Reads them from this machine.
    pub fn detect() -> Self {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim().to_ascii_lowercase();
        let name = if is_node_name(&name) {
            name
        } else {
            FALLBACK_NAME.to_owned()
        };
        Self {
            name,
            address: Self::outgoing_address().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        }
    }
}

impl Host {
    /// Reports whether the machine's own name is invalid for a node and was replaced.
    pub(crate) fn has_fallback_name(&self) -> bool {
        self.name == FALLBACK_NAME
    }

    /// Returns the address of an interface, an IPv4 one if there is one.
    pub fn address_of(interface: &str) -> Option<IpAddr> {
        let all = nix::ifaddrs::getifaddrs()
            .ok()?
            .filter(|one| one.interface_name == interface);
        let addresses = all.filter_map(|one| {
            let address = one.address?;
            let v4 = address
                .as_sockaddr_in()
                .map(|address| IpAddr::V4(address.ip()));
            v4.or_else(|| {
                address
                    .as_sockaddr_in6()
                    .map(|address| IpAddr::V6(address.ip()))
            })
        });
        addresses.min_by_key(IpAddr::is_ipv6)
    }

    /// Returns the addresses by which other machines may reach this one, that of the default route first. At most 32.
    pub fn addresses() -> Vec<IpAddr> {
        const MAX_ADDRESSES: usize = 32;
        let mut all: Vec<IpAddr> = Self::outgoing_address().into_iter().collect();
        for interface in nix::ifaddrs::getifaddrs().into_iter().flatten() {
            let Some(address) = interface.address else {
                continue;
            };
            let v4 = address
                .as_sockaddr_in()
                .map(|address| IpAddr::V4(address.ip()));
            let address = v4.or_else(|| {
                address
                    .as_sockaddr_in6()
                    .map(|address| IpAddr::V6(address.ip()))
            });
            let reaches = |ip: &IpAddr| match ip {
                IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
                IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
            };
            if let Some(address) = address.filter(reaches)
                && !all.contains(&address)
            {
                all.push(address);
            }
        }
        all.truncate(MAX_ADDRESSES);
        all
    }

    /// Returns the source address of the default route, if there is one. Connecting a UDP socket sends nothing: it only asks
    /// the kernel for the route.
    pub fn outgoing_address() -> Option<IpAddr> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect(UNREACHABLE_ADDRESS).ok()?;
        Some(socket.local_addr().ok()?.ip())
    }
}
