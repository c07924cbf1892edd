//! The address of an endpoint, as it is dialled.

use std::{fmt, net::SocketAddr, sync::Arc};

/// An address and port, and the node that it is on: nodes may give their pods the same addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::edgemesh) struct EndpointAddress {
    pub(in crate::edgemesh) address: SocketAddr,
    /// The node; `None`: this one, or none.
    pub(in crate::edgemesh) node: Option<Arc<str>>,
}

impl From<SocketAddr> for EndpointAddress {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            node: None,
        }
    }
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "{} on {node}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}
