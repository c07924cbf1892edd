//! EdgeHub: the door to the cloud.
//!
//! In: messages of the cloud, in the order in which they were sent ([`Inbound`]). Out: messages of this node
//! ([`EdgeHub::send`], [`EdgeHub::request`]). It enrols the node and renews its certificate, keeps one connection, notices within
//! three seconds when it is dead and dials again. It decides nothing about what messages mean, and has no way to reach a pod.

mod dial;
mod enroll;
mod handle;
mod kind;
mod lanes;
#[cfg(test)]
pub(crate) mod line;
mod liveness;
mod metered;
mod network;
mod preconnected;
mod queue;
mod rate;
mod reach;
mod redial;
mod session;
mod session_end;
mod task;
mod traffic;
mod transport;
mod waiters;

use std::{path::PathBuf, time::Duration};

use tokio::{
    io::DuplexStream,
    sync::{mpsc, watch},
};

pub(crate) use self::{
    dial::tcp::connect as connect_tcp,
    enroll::{Known, by_token_once as enroll, probe},
    reach::{NoHub, reach},
    redial::{Cause, Redial},
};
pub use self::{
    dial::{DialError, Proxy, ProxyError},
    enroll::EnrollError,
    handle::{EdgeHub, Inbound, Link, Unreachable},
    kind::Kind,
    preconnected::Preconnected,
    task::Task,
    traffic::{Direction, Flow, Octets, Traffic},
};
use self::{queue::Queue, waiters::Waiters};
use crate::config::{HostPort, Secret, Transport};

/// Messages of the cloud that wait for MetaManager. A full queue stops reading from the socket (TCP pushes back).
const INBOX: usize = 64;

/// Everything the room needs, already checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's name: certificate subject and `Node_id` header.
    pub node_name: String,
    /// How messages travel.
    pub transport: Transport,
    /// CloudHub's servers, at least one: each is dialled until one answers.
    pub servers: Vec<HostPort>,
    /// The HTTPS bootstrap servers, at least one: each is asked until one answers.
    pub http_servers: Vec<HostPort>,
    /// What stands between this node and the servers.
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
    /// Whether the certificate is renewed before it ends.
    pub rotate_certificates: bool,
    /// Time between keepalive messages.
    pub heartbeat: Duration,
    /// Limit of dialling and handshakes.
    pub handshake_timeout: Duration,
    /// Limit of writing one message.
    pub write_deadline: Duration,
    /// Upward messages a second, 0 for no limit; keepalives and answers to the cloud's messages are exempt.
    pub qps: u32,
    /// Upward messages that may go out at once.
    pub burst: u32,
    /// Largest message accepted, bytes.
    pub max_message: usize,
}

/// Why the room could not be built or had to give up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Enrolment was refused, or its files are unusable.
    #[error("this node could not be enrolled with the cloud")]
    Enroll(#[from] EnrollError),
}

/// Builds the room for connections that are made, and trusted, elsewhere: a simulation hands in its own. No configuration leads
/// here.
pub fn over(config: Config, connections: mpsc::Receiver<DuplexStream>) -> (EdgeHub, Inbound, Preconnected) {
    let (hub, inbound, task) = new(config);
    (hub, inbound, Preconnected::new(task, connections))
}

/// Builds the room. Files are read and the connection is made by [`Task::run`].
pub fn new(config: Config) -> (EdgeHub, Inbound, Task) {
    let (inbox, inbound) = mpsc::channel(INBOX);
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
    (EdgeHub { queue, waiters, link, traffic, inbox }, Inbound(inbound), task)
}
