//! An endpoint, as connections go to it.

use std::{fmt, net::SocketAddr, sync::Arc};

/// Where it listens, and whose it is: nodes may give their pods the same addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::edgemesh) struct EndpointAddress {
    pub(in crate::edgemesh) address: SocketAddr,
    /// The node, where that is another one.
    pub(in crate::edgemesh) node: Option<Arc<str>>,
}

impl From<SocketAddr> for EndpointAddress {
    /// Of this node, or of none.
    fn from(address: SocketAddr) -> Self {
        Self { address, node: None }
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
