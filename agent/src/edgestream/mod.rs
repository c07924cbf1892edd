//! EdgeStream: the node's end of the stream tunnel, over which the cloud reads logs and metrics, runs commands in containers and reaches
//! their ports.
//!
//! In: requests of the cloud, each with an id of its own. Out: what the kubelet's API, [`KubeletApi`], answers. One WebSocket
//! carries all of them:
//!
//! - What goes to the cloud waits in one short queue, in which each stream has a place at a time: a log of which there is much does not
//!   hold up a command beside it.
//! - What comes from the cloud waits in a bounded buffer of its stream.
//!
//! Between this agent and `cloudsim` each stream has a window in each direction ([`wire::tunnel::window`]): what the other end does not
//! take stays where it comes from, and the tunnel is always read. CloudCore has none: there a log that it reads slowly holds up what comes
//! after it, and a stream whose buffer is full keeps the tunnel from being read until there is room, for some seconds at most; then the
//! stream is ended, never the tunnel.
//!
//! The cloud chooses neither whom the node calls nor what it serves: the host of a request is not looked at, and its path must be one of
//! the kubelet's. The node shows its certificate, and the cloud's is always verified.

mod answer;
mod dial;
mod flow;
mod request;
mod stream;
mod streams;
mod task;
mod tunnel;

use std::time::Duration;

use self::task::Task;
use crate::{
    config::{HostPort, TlsFiles},
    edged::{AddressSource, KubeletApi, KubeletRequest, KubeletResponse},
    edgehub::Proxy,
};

/// Everything the room needs.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The node's name, by which the cloud finds the tunnel.
    pub(crate) node_name: String,
    /// Where the node's address is taken from, by which the cloud finds it too.
    pub(crate) address: AddressSource,
    /// The cloud's stream server.
    pub(crate) server: HostPort,
    /// What stands between.
    pub(crate) proxy: Proxy,
    /// The CA that the server's certificate must be of, and the node's own certificate.
    pub(crate) tls: TlsFiles,
    /// Limit of dialling and handshakes.
    pub(crate) handshake_timeout: Duration,
    /// The tunnel is given up when nothing has come for so long; pings are answered by every server.
    pub(crate) read_deadline: Duration,
    /// Limit of writing one message.
    pub(crate) write_deadline: Duration,
}

/// What answers the cloud's requests.
pub(crate) trait Answers: Clone + Send + Sync + 'static {
    /// Answers one.
    fn answer(&self, request: KubeletRequest) -> impl Future<Output = KubeletResponse> + Send;
}

impl Answers for KubeletApi {
    async fn answer(&self, request: KubeletRequest) -> KubeletResponse {
        Self::answer(self, request).await
    }
}

/// Builds the room; [`Task`] dials.
pub(crate) fn new(config: Config, api: KubeletApi) -> Task<KubeletApi> {
    Task::new(config, api)
}

#[cfg(test)]
mod tests;
