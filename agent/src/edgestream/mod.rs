//! EdgeStream: the node's end of the stream tunnel, over which the cloud reads logs and metrics, runs commands in containers
//! and reaches their ports.
//!
//! In: requests of the cloud, each with its own id. Out: the answers of the kubelet's API, [`KubeletApi`]. One WebSocket
//! carries all of them:
//!
//! - Messages to the cloud wait in one short queue, in which each stream has one message at a time: a long log does not delay a
//!   command beside it.
//! - Messages from the cloud wait in a bounded buffer of their stream.
//!
//! Between this agent and `cloudsim` each stream has a window in each direction ([`wire::tunnel::window`]): data that the other
//! end does not take stays at its source, and the tunnel is always read. CloudCore has no windows: there a log that it reads
//! slowly delays what comes after it, and a stream whose buffer is full stops the tunnel from being read until there is space,
//! for some seconds at most; then the stream is ended, never the tunnel.
//!
//! The cloud can choose neither the host that the node calls nor its service: the host of a request is ignored, and its path
//! must be one of the kubelet's. The node presents its certificate, and the cloud's is always verified.

mod answer;
mod dial;
mod flow_control;
mod request;
mod stream;
mod streams;
mod task;
mod tunnel;

use std::time::Duration;

use self::task::Task;
use edged::{AddressSource, KubeletApi, KubeletRequest, KubeletResponse};
use record::Recorder;

use crate::{
    config::{HostPort, TlsFiles},
    edgehub::{InProcessLink, Proxy},
    metamanager::NodeConfirmed,
};

/// What EdgeStream needs.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The node's name, by which the cloud finds the tunnel.
    pub(crate) node_name: String,
    /// The source of the node's address, by which the cloud also finds the tunnel.
    pub(crate) address: AddressSource,
    /// Notifies when the cloud has the node: CloudCore ends the session of a node whose tunnel comes first, and takes it again after
    /// a quarter of a minute. `None` if this node does not register itself.
    pub(crate) node: Option<NodeConfirmed>,
    /// The cloud's stream server.
    pub(crate) server: HostPort,
    /// The proxy to the server.
    pub(crate) proxy: Proxy,
    /// The CA of the server's certificate, and the node's own certificate.
    pub(crate) tls: TlsFiles,
    /// How long dialling and handshakes may take.
    pub(crate) handshake_timeout: Duration,
    /// How long the tunnel may be silent before it is given up; every server answers pings.
    pub(crate) read_deadline: Duration,
    /// How long writing one message may take.
    pub(crate) write_deadline: Duration,
    /// Records the frames.
    pub(crate) recorder: Recorder,
    /// The link to a cloud in this process; `None` for the server.
    pub(crate) in_process: Option<InProcessLink>,
}

/// Answers the cloud's requests.
pub(crate) trait RequestHandler: Clone + Send + Sync + 'static {
    /// Answers one request.
    fn answer(&self, request: KubeletRequest) -> impl Future<Output = KubeletResponse> + Send;
}

impl RequestHandler for KubeletApi {
    async fn answer(&self, request: KubeletRequest) -> KubeletResponse {
        Self::answer(self, request).await
    }
}

/// Builds EdgeStream; [`Task`] dials.
pub(crate) fn new(config: Config, api: KubeletApi) -> Task<KubeletApi> {
    Task::new(config, api)
}

#[cfg(test)]
mod tests;
