//! Where the server listens: at an address of its own that pods reach, or else on this machine only.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
};

use nix::sys::socket::{
    setsockopt,
    sockopt::{SndBuf, SndBufForce},
};
use tracing::{info, warn};

use crate::config::DNS_PORT;

/// Answers that wait in the kernel, bytes, of which it takes twice as many. Those for one neighbour that does not answer are 208 KiB at
/// most, and all of them go when it is given up, after three seconds: some thirty such neighbours leave room for others.
const SEND_BUFFER: usize = 8 * 1024 * 1024;

/// Bound sockets.
#[derive(Debug)]
pub struct Listening {
    pub(super) udp: UdpSocket,
    pub(super) tcp: TcpListener,
    /// Whether pods with a network of their own reach it.
    for_pods: bool,
}

impl Listening {
    /// Binds both sockets of the address; `make` gives it to this machine. Where that is not allowed, those of `127.0.0.1`.
    ///
    /// # Errors
    /// The port is taken, or not allowed; the address is not that of one machine.
    pub fn bind<E: std::error::Error>(
        address: SocketAddr,
        make: impl FnOnce(IpAddr) -> Result<(), E>,
    ) -> io::Result<Self> {
        if is_of_many(address.ip()) {
            let why = format!("{} is no address of one machine, such as 169.254.96.16", address.ip());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        match make(address.ip()) {
            Ok(()) => {
                let (udp, tcp) = both(address)?;
                info!(%address, "DNS of the cluster's names is answered");
                Ok(Self { udp, tcp, for_pods: !address.ip().is_loopback() })
            }
            Err(error) => {
                let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()));
                let (udp, tcp) = both(loopback)?;
                warn!(
                    %error,
                    wanted = %address,
                    address = %loopback,
                    "DNS of the cluster's names is answered on this machine only, and pods resolve names as the node does"
                );
                Ok(Self { udp, tcp, for_pods: false })
            }
        }
    }

    /// The address and port of both sockets.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    /// The server's address for the `resolv.conf` of pods, where they reach it: such a file has no ports.
    pub(crate) fn for_pods(&self) -> Option<IpAddr> {
        let address = self.address().ok()?;
        Some(address.ip()).filter(|_| self.for_pods && address.port() == DNS_PORT)
    }
}

/// Whether pods could not ask at this address: it is none, or that of several machines.
fn is_of_many(address: IpAddr) -> bool {
    address.is_unspecified() || address.is_multicast() || address == Ipv4Addr::BROADCAST
}

fn both(address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let tcp = TcpListener::bind(address)?;
    // of one number, also where that is left to the kernel
    let udp = UdpSocket::bind(tcp.local_addr()?)?;
    udp.set_nonblocking(true)?;
    // without the capability CAP_NET_ADMIN as much as everybody may have
    if setsockopt(&udp, SndBufForce, &SEND_BUFFER).is_err() {
        setsockopt(&udp, SndBuf, &SEND_BUFFER)?;
    }
    tcp.set_nonblocking(true)?;
    Ok((udp, tcp))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn an_address_that_is_not_of_one_machine_is_neither_made_nor_listened_at() {
        for address in ["0.0.0.0:0", "[::]:0", "224.0.0.1:0", "255.255.255.255:0", "[ff02::1]:0"] {
            let make = |_| -> Result<(), Infallible> { panic!("{address} is given to this machine") };
            let refused = Listening::bind(address.parse().unwrap(), make).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{address}");
        }
    }
}
