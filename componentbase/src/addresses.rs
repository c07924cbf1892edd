//! The addresses of this machine. Each call asks the kernel, which answers at once.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, UdpSocket},
};

use nix::{errno::Errno, ifaddrs::getifaddrs, sys::socket::SockaddrStorage};

/// An address of the documentation range: it is never contacted, but selects the default route.
const UNREACHABLE_ADDRESS: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);
/// The most addresses that [`reachable`] returns.
const MAX_ADDRESSES: usize = 32;

/// Returns the address of an interface, an IPv4 one if there is one.
pub fn of_interface(interface: &str) -> Option<IpAddr> {
    let all = all_of_interface(interface).ok()?;
    all.into_iter().min_by_key(IpAddr::is_ipv6)
}

/// Returns all addresses of an interface.
///
/// # Errors
///
/// The kernel cannot be asked.
pub fn all_of_interface(interface: &str) -> Result<Vec<IpAddr>, Errno> {
    let all = getifaddrs()?.filter(|one| one.interface_name == interface);
    Ok(all.filter_map(|one| ip(one.address.as_ref()?)).collect())
}

/// Returns the addresses of all interfaces of this machine.
///
/// # Errors
///
/// The kernel cannot be asked.
pub fn own() -> Result<BTreeSet<IpAddr>, Errno> {
    Ok(getifaddrs()?
        .filter_map(|one| ip(one.address.as_ref()?))
        .collect())
}

/// Returns the IP address of a socket address, if it is one of IP.
pub fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
}

/// Returns the addresses by which other machines may reach this one, that of the default route first. At most 32.
pub fn reachable() -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = outgoing().into_iter().collect();
    for interface in getifaddrs().into_iter().flatten() {
        let reaches = |ip: &IpAddr| match ip {
            IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
            IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
        };
        if let Some(address) = interface.address.as_ref().and_then(ip).filter(reaches)
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
