//! The addresses of this machine. Each call asks the kernel, which answers at once.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// An address of the documentation range: it is never contacted, but selects the default route.
const UNREACHABLE_ADDRESS: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);
/// The most addresses that [`reachable`] returns.
const MAX_ADDRESSES: usize = 32;

/// Returns the address of an interface, an IPv4 one if there is one.
pub fn of_interface(interface: &str) -> Option<IpAddr> {
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
pub fn reachable() -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = outgoing().into_iter().collect();
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
pub fn outgoing() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(UNREACHABLE_ADDRESS).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
