//! EdgeHub: the connection to the cloud.
//!
//! In: messages of the cloud, in the order in which they were sent ([`Inbound`]). Out: messages of this node
//! ([`EdgeHub::send`], [`EdgeHub::request`]). It enrols the node and renews its certificate, keeps one connection, notices
//! within three seconds when it is dead, and dials again. It does not interpret messages, and has no access to pods.

mod dial;
mod enroll;
#[cfg(test)]
pub(crate) mod fake_cloud;
mod frame_filter;
mod handle;
mod hub_check;
mod in_process;
mod kind;
mod lanes;
mod liveness;
mod metered;
mod network;
mod preconnected;
mod queue;
mod redial;
mod session;
mod session_end;
mod stream;
mod task;
mod traffic;
mod traffic_metrics;
mod transport;
mod unreachable;
mod unreached;
mod waiters;

use std::{path::PathBuf, time::Duration};

use componentbase::Link;
use record::Recorder;
use tokio::{
    io::DuplexStream,
    sync::{mpsc, watch},
};

pub(crate) use self::{
    dial::quic::check_quic,
    dial::tcp::{connect as connect_tcp, resolve},
    enroll::{
        NodeStatus, ServerAnswer, check_identity, enroll_with_token as enroll, must_rejoin, probe,
        request_time,
    },
    hub_check::{HubCheckError, check_hub, check_tls},
    redial::{Cause, Redial},
    unreached::unreached_cure,
};
pub use self::{
    dial::{DialError, Proxy, ProxyError},
    enroll::{EnrollError, fetch_ca},
    handle::{EdgeHub, Inbound},
    in_process::{CloudServer, InProcessCloud, InProcessLink},
    kind::Kind,
    preconnected::Preconnected,
    stream::Stream,
    task::Task,
    traffic::{Direction, Flow, Octets, Traffic},
    unreachable::Unreachable,
};
use self::{queue::Queue, waiters::Waiters};
use crate::config::{HostPort, Secret, Transport};

/// The most messages of the cloud that wait for MetaManager. A full queue stops reading from the socket, so TCP slows the cloud
/// down.
const INBOX_CAPACITY: usize = 64;

/// What EdgeHub needs, already validated.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's name: certificate subject and `Node_id` header.
    pub node_name: String,
    /// The transport of messages.
    pub transport: Transport,
    /// CloudHub's servers, at least one: each is dialled until one answers.
    pub servers: Vec<HostPort>,
    /// The HTTPS bootstrap servers, at least one: each is asked until one answers.
    pub http_servers: Vec<HostPort>,
    /// The proxy between this node and the servers.
    pub proxy: Proxy,
    /// The join token, needed until there is a certificate.
    pub token: Option<Secret>,
    /// First element of the URL path and the `Project_id` header.
    pub project_id: String,
    /// CA certificate, PEM.
    pub ca_file: PathBuf,
    /// Client certificate, PEM.
    pub cert_file: PathBuf,
    /// Private key, PEM, readable by its owner only.
    pub key_file: PathBuf,
    /// Whether the certificate is renewed before it expires.
    pub rotate_certificates: bool,
    /// The time between keepalive messages.
    pub heartbeat: Duration,
    /// How long dialling with its handshakes may take.
    pub handshake_timeout: Duration,
    /// How long writing one message may take.
    pub write_deadline: Duration,
    /// Upward messages a second, 0 for no limit; keepalives and answers to the cloud's messages are exempt.
    pub qps: u32,
    /// The burst of upward messages.
    pub burst: u32,
    /// The largest accepted message, bytes.
    pub max_message: usize,
    /// Records what is sent and received.
    pub recorder: Recorder,
    /// The link to a cloud in this process; `None` for the configured servers.
    pub in_process: Option<InProcessLink>,
}

/// Why EdgeHub could not be built or had to give up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Enrolment was refused, or its files are unusable.
    #[error("this node could not be enrolled with the cloud")]
    Enroll(#[from] EnrollError),
}

/// Builds EdgeHub over connections that the caller makes and trusts, as a simulation does. No configuration uses it.
pub fn over_connections(
    config: Config,
    connections: mpsc::Receiver<DuplexStream>,
) -> (EdgeHub, Inbound, Preconnected) {
    let (hub, inbound, task) = new(config);
    (hub, inbound, Preconnected::new(task, connections))
}

/// Builds EdgeHub. [`Task::run`] reads the files and connects.
pub fn new(config: Config) -> (EdgeHub, Inbound, Task) {
    let (inbox, inbound) = mpsc::channel(INBOX_CAPACITY);
    let (state, link) = watch::channel(Link::Down);
    let (queue, waiters, traffic) = (Queue::default(), Waiters::default(), Traffic::default());
    let endpoints = session::Endpoints {
        queue: queue.clone(),
        inbox,
        waiters: waiters.clone(),
        traffic: traffic.clone(),
    };
    let inbox = endpoints.inbox.downgrade();
    let task = Task::new(config, endpoints, state);
    (
        EdgeHub {
            queue,
            waiters,
            link,
            traffic,
            inbox,
        },
        Inbound(inbound),
        task,
    )
}
