//! The addresses at which hollow nodes find a cloud, in the same process or elsewhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use cloudsim::{Addresses, kubeconfig::in_url};

/// The addresses of a cloud that nodes dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The enrolment server, as `host:port`.
    pub https: String,
    /// CloudHub, as `host:port`.
    pub websocket: String,
    /// The stream tunnel server, as `host:port`; `None` if nodes open no tunnels.
    pub tunnel: Option<String>,
    /// The address that the nodes report as their own.
    pub node_ip: IpAddr,
}

impl Endpoints {
    /// Returns the endpoints of the cloud at a name or address, with the ports of enrolment, CloudHub and tunnels.
    pub fn at(host: &str, (https, websocket, tunnel): (u16, u16, Option<u16>)) -> Self {
        let at = |port: u16| format!("{}:{port}", in_url(host));
        Self {
            https: at(https),
            websocket: at(websocket),
            tunnel: tunnel.map(at),
            node_ip: Ipv4Addr::LOCALHOST.into(),
        }
    }
}

impl From<Addresses> for Endpoints {
    fn from(addresses: Addresses) -> Self {
        let at = |address: SocketAddr| SocketAddr::new(dial_address(address.ip()), address.port());
        Self {
            https: at(addresses.https).to_string(),
            websocket: at(addresses.websocket).to_string(),
            tunnel: addresses.tunnel.map(|tunnel| at(tunnel).to_string()),
            node_ip: dial_address(addresses.websocket.ip()),
        }
    }
}

/// Returns the address by which this process reaches a server of its own that listens at `address`: a server at all addresses is at that
/// of the loopback interface, too.
pub(crate) fn dial_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}
