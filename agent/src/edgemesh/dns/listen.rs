//! The sockets of the server: at an address of its own that pods reach, or else on the loopback interface only.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
};

use limits::enlarge_send_buffer;
use tracing::{info, warn};

use crate::config::DNS_PORT;

/// The bound sockets.
#[derive(Debug)]
pub struct Listening {
    pub(super) udp: UdpSocket,
    pub(super) tcp: TcpListener,
    /// Whether pods with their own network reach them.
    for_pods: bool,
}

impl Listening {
    /// Binds UDP and TCP at the address, which `make` adds to this node. If that is not allowed, binds `127.0.0.1` instead.
    ///
    /// # Errors
    /// The port is in use, or not allowed; the address is unspecified, multicast or broadcast.
    pub fn bind<E: std::error::Error>(
        address: SocketAddr,
        make: impl FnOnce(IpAddr) -> Result<(), E>,
    ) -> io::Result<Self> {
        if is_not_unicast(address.ip()) {
            let why = format!(
                "{} is no address of one machine, such as 169.254.96.16",
                address.ip()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        match make(address.ip()) {
            Ok(()) => {
                let (udp, tcp) = bind_both(address)?;
                info!(%address, "DNS for cluster names started");
                Ok(Self {
                    udp,
                    tcp,
                    for_pods: !address.ip().is_loopback(),
                })
            }
            Err(error) => {
                let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()));
                let (udp, tcp) = bind_both(loopback)?;
                warn!(
                    %error,
                    wanted = %address,
                    address = %loopback,
                    "cannot serve DNS to pods; cluster names resolve on this machine only"
                );
                Ok(Self {
                    udp,
                    tcp,
                    for_pods: false,
                })
            }
        }
    }

    /// Returns the address and port of both sockets.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    /// Returns the address for the `resolv.conf` of pods, if they reach it: at port 53, since such a file has no ports.
    pub(crate) fn for_pods(&self) -> Option<IpAddr> {
        let address = self.address().ok()?;
        Some(address.ip()).filter(|_| self.for_pods && address.port() == DNS_PORT)
    }
}

/// Reports whether the address cannot be that of one machine.
fn is_not_unicast(address: IpAddr) -> bool {
    address.is_unspecified() || address.is_multicast() || address == Ipv4Addr::BROADCAST
}

/// Binds both sockets.
fn bind_both(address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let tcp = TcpListener::bind(address)?;
    // the same port, also where the kernel chooses it
    let udp = UdpSocket::bind(tcp.local_addr()?)?;
    udp.set_nonblocking(true)?;
    enlarge_send_buffer(&udp)?;
    tcp.set_nonblocking(true)?;
    Ok((udp, tcp))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn an_address_that_is_not_of_one_machine_is_neither_made_nor_listened_at() {
        for address in [
            "0.0.0.0:0",
            "[::]:0",
            "224.0.0.1:0",
            "255.255.255.255:0",
            "[ff02::1]:0",
        ] {
            let make =
                |_| -> Result<(), Infallible> { panic!("{address} is given to this machine") };
            let refused = Listening::bind(address.parse().unwrap(), make).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{address}");
        }
    }
}
