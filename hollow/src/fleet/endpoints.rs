//! Where hollow nodes find a cloud: in the same process, or elsewhere under a name.

use std::net::{IpAddr, Ipv4Addr};

use cloudsim::{Addresses, kubeconfig::in_url};

/// A cloud as nodes dial it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The enrolment endpoints, as `host:port`.
    pub https: String,
    /// CloudHub, as `host:port`.
    pub websocket: String,
    /// Stream tunnels, as `host:port`; `None`: they are not dialled.
    pub tunnel: Option<String>,
    /// What the nodes say is their own address.
    pub node_ip: IpAddr,
}

impl Endpoints {
    /// The cloud at a name or address, with the ports of enrolment, CloudHub and tunnels.
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
        Self {
            https: addresses.https.to_string(),
            websocket: addresses.websocket.to_string(),
            tunnel: addresses.tunnel.map(|tunnel| tunnel.to_string()),
            node_ip: addresses.websocket.ip(),
        }
    }
}
