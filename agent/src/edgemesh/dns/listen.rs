//! Where the server listens: at an address of its own that pods reach, or else on this machine only.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
};

use nix::sys::socket::{setsockopt, sockopt::SndBufForce};
use tracing::{debug, info, warn};

use crate::config::DNS_PORT;

/// Answers that wait in the kernel, bytes.
const SEND_BUFFER: usize = 4 * 1024 * 1024;

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
    /// The port is taken, or not allowed.
    pub fn bind<E: std::error::Error>(
        address: SocketAddr,
        make: impl FnOnce(IpAddr) -> Result<(), E>,
    ) -> io::Result<Self> {
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

fn both(address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let tcp = TcpListener::bind(address)?;
    // of one number, also where that is left to the kernel
    let udp = UdpSocket::bind(tcp.local_addr()?)?;
    udp.set_nonblocking(true)?;
    // more than the answers to a few neighbours that are not there, which wait in it; without the capability it stays as it is
    if let Err(error) = setsockopt(&udp, SndBufForce, &SEND_BUFFER) {
        debug!(%error, "the socket of DNS keeps its send buffer");
    }
    tcp.set_nonblocking(true)?;
    Ok((udp, tcp))
}
