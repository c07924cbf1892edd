//! The relay: connections to endpoints on nodes that this one does not reach go through the cloud, encrypted from node to node.
//!
//! It dials endpoints of other nodes ([`Relay::dial`]), and serves streams that other nodes open to this one, if they ask for an endpoint
//! that this node's own snapshot has for itself. The protocol is [`wire::relay`].
//!
//! | file | what |
//! |---|---|
//! | `task` | the one connection to the cloud, which is dialled again when it ends |
//! | `certificates` | TLS between two nodes: both show their certificates, and each is verified for the node that it must be |
//! | `dial` | a stream to another node's endpoint |
//! | `serve` | a stream that another node has opened |
//! | `allowed` | which endpoints other nodes may reach; pure |
//! | `stream_limits` | how many streams one client, and one node, may have |
//! | `message` | the messages of the protocol, read from and written to a stream |
//! | `counted` | a stream whose bytes are counted |
//! | `datagrams` | UDP over a stream |

mod allowed;
mod certificates;
mod counted;
pub(super) mod datagrams;
mod dial;
mod message;
mod serve;
mod stream_limits;
mod task;

use std::sync::Arc;

use quinn::{Connection, RecvStream, SendStream};
use tokio::{io::Join, sync::watch};
use wire::relay::MAX_STREAMS;

pub(super) use self::dial::RelayDialError;
pub(crate) use self::task::Task;
use self::{certificates::Certificates, counted::Counted, stream_limits::StreamLimits};
use super::{metrics::MeshMetrics, path_table::PathTable, snapshot::Snapshots};
use crate::config::{HostPort, TlsFiles};

/// A stream of the QUIC connection to the cloud, below TLS.
type QuicStream = Counted<Join<RecvStream, SendStream>>;
/// A connection to another node's endpoint.
pub(super) type RelayStream = tokio_rustls::client::TlsStream<QuicStream>;

/// How the relay is reached.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// This node's name.
    pub(crate) node: String,
    /// The relay's address, UDP.
    pub(crate) server: HostPort,
    /// The CA of the cloud and of its nodes, and this node's certificate.
    pub(crate) tls: TlsFiles,
}

/// The handle; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Relay {
    link: watch::Receiver<Option<Connection>>,
    certificates: Certificates,
    limits: StreamLimits,
    metrics: Arc<MeshMetrics>,
}

/// Builds the handle, and the task that keeps the connection to the cloud: it serves the endpoints in `snapshots`, and reports `paths`.
pub(super) fn new(
    config: Config,
    metrics: &Arc<MeshMetrics>,
    snapshots: Snapshots,
    paths: PathTable,
) -> (Relay, Task) {
    let (publish, link) = watch::channel(None);
    let certificates = Certificates::new(config.tls.clone());
    let limits = StreamLimits::new(MAX_STREAMS as usize);
    let relay = Relay {
        link,
        certificates: certificates.clone(),
        limits,
        metrics: metrics.clone(),
    };
    let server = serve::StreamServer {
        node: config.node.as_str().into(),
        certificates: certificates.clone(),
        snapshots,
        metrics: metrics.clone(),
    };
    (
        relay,
        Task::new(config.server, certificates, publish, server, paths),
    )
}

#[cfg(test)]
mod tests;
