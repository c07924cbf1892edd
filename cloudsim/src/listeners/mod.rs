//! What the listeners for nodes share: CloudHub, the stream server and the relay. Each of them adds its own handshake and what follows it.
//!
//! | file | what |
//! |---|---|
//! | `tcp`, `quic` | sockets that accept no more connections than their limits allow |
//! | `local`, `pipe` | connections of nodes in the same process, which need no socket |
//! | `address_validation` | which QUIC clients must show first that their address is their own |
//! | `refusals` | counts refused connections, so that not each of them is logged |
//! | `probe` | connections that only look whether somebody listens |
//! | `identity` | the node's name, from the certificate of its connection |

mod address_validation;
mod identity;
mod local;
mod pipe;
mod probe;
mod quic;
mod refusals;
mod tcp;

use limits::ConnectionLimits;

pub use self::pipe::Pipe;
pub(crate) use self::{
    identity::node_name,
    local::{LOCAL_ADDRESS, LocalConnection, LocalConnector, NodeConnection, NodeListener},
    probe::is_probe,
    quic::{LimitedEndpoint, bind_udp, quic_certificate},
    refusals::{Refusals, tls_fault},
    tcp::{LimitedListener, tls_certificate},
};

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenerLimits {
    /// The maximum number of nodes.
    pub(crate) nodes: usize,
    /// The maximum number of connections that have not said yet which node they are of.
    pub(crate) connections: ConnectionLimits,
}
