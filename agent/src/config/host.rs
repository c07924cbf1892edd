//! The name and address of this machine, for the default values.

use std::net::{IpAddr, Ipv4Addr};

use componentbase::addresses;

use super::names::is_node_name;

/// EdgeCore's own choice if the machine's name is invalid for a node.
const FALLBACK_NAME: &str = "default-edge-node";

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
            address: addresses::outgoing().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        }
    }

    /// Reports whether the machine's own name is invalid for a node and was replaced.
    pub(crate) fn has_fallback_name(&self) -> bool {
        self.name == FALLBACK_NAME
    }
}
