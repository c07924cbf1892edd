//! EventBus: MQTT with the internal broker in this process, with an external one, or with both.
//!
//! In: publications of mappers and applications. Requests about devices go to DeviceTwin ([`Requests`]); everything else goes
//! to the cloud unchanged. Out: publications of DeviceTwin ([`Bus::publish`]) and of the cloud. The topics of the cloud's rules
//! are stored, and subscribed again whenever needed.
//!
//! | part | what |
//! |---|---|
//! | `internal`, `external` | the two brokers |
//! | `topics` | the topics of rules, in the store |
//! | `promises` | what the cloud guarantees for the messages of a rule |
//! | `publish` | publications of the cloud, and the answers to them |
//! | `upload` | messages to the cloud, through an outbox |
//! | `handle` | the handle for other modules |
//! | `tls` | the connection to the external broker |
//! | `passwords` | the users of the internal broker |
//!
//! Source: KubeEdge's EventBus.

mod external;
mod handle;
mod internal;
mod metrics;
mod passwords;
mod promises;
mod publish;
mod quickack;
mod receipt;
mod requests;
mod route;
mod task;
mod tls;
mod topics;
mod upload;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use objectstore::Store;
use tokio::sync::{mpsc, watch};

use self::metrics::BusMetrics;
pub(crate) use self::requests::Received;
pub use self::{handle::Bus, passwords::PasswordError, requests::Requests, task::Task};
use crate::{
    config::{HostPort, InternalAccess, Secret, TlsFiles},
    edgehub::EdgeHub,
    metamanager::RouterMessages,
    outbox,
};

/// The most requests that wait for DeviceTwin: more than one of its batches.
const MAX_QUEUED_REQUESTS: usize = 1024;

/// The settings of the internal broker.
#[derive(Clone, Debug)]
pub struct Internal {
    /// The address to listen on; port 0 takes a free one.
    pub address: SocketAddr,
    /// The certificate; `None` for plain TCP.
    pub tls: Option<TlsFiles>,
    /// The access rules; `None` allows everybody everything.
    pub access: Option<InternalAccess>,
    /// The database of sessions and retained messages.
    pub database: Option<PathBuf>,
    /// The most messages that wait for a client.
    pub session_queue: usize,
    /// The quality of service of what is published.
    pub qos: u8,
    /// Whether publications are retained.
    pub retain: bool,
}

/// The settings of the external broker.
#[derive(Clone, Debug)]
pub struct External {
    /// The broker's address.
    pub server: HostPort,
    /// TLS, verified with this CA; `None` for plain TCP.
    pub tls: Option<TlsFiles>,
    /// The client id, by which the session is resumed.
    pub client_id: String,
    /// The user name.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// The quality of service of what is published, 1 or 2.
    pub qos: u8,
}

/// What EventBus needs.
#[derive(Debug)]
pub struct Config {
    /// The internal broker, if enabled.
    pub internal: Option<Internal>,
    /// The external broker, if enabled.
    pub external: Option<External>,
    /// The store of the rules' topics and of messages for the cloud.
    pub store: Arc<dyn Store>,
    /// The connection to the cloud.
    pub hub: EdgeHub,
    /// The cloud's messages about topics.
    pub messages: RouterMessages,
}

/// Why EventBus could not be built or had to give up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The internal broker cannot start, or has failed.
    #[error(
        "modules.eventBus: the internal broker cannot run; if another program uses its port, change mqttServerInternal, or set mqttMode \
         to 2 to use an existing broker"
    )]
    Broker(#[from] mqtt::Error),
    /// The users of the internal broker cannot be read.
    #[error("modules.eventBus.internalAccess.passwordFile cannot be used")]
    Passwords(#[from] PasswordError),
    /// The client of the external broker cannot be created.
    #[error("modules.eventBus: invalid settings of the MQTT client: {0}")]
    Client(String),
}

/// The receivers of messages from brokers.
#[derive(Clone, Debug)]
struct Sinks {
    requests: mpsc::Sender<Received>,
    uploads: mpsc::Sender<upload::Upload>,
    /// Counts the connections to the external broker, and other events after which earlier publications may have been missed.
    connections: Arc<watch::Sender<u64>>,
    /// Whether DeviceTwin is enabled.
    has_devices: bool,
    dropped: Arc<upload::DroppedCounts>,
    /// What the cloud guarantees, by the filters of its rules.
    promises: promises::Promises,
}

/// Builds EventBus. [`Task::run`] opens the internal broker and dials the external one.
///
/// # Errors
/// The TLS or password files cannot be used.
pub fn new(config: Config) -> Result<(Bus, Requests, Task), Error> {
    let Config {
        internal,
        external,
        store,
        hub,
        messages,
    } = config;
    let (requests, received) = mpsc::channel(MAX_QUEUED_REQUESTS);
    let (uploads, items) = mpsc::channel(upload::MAX_QUEUED_UPLOADS);
    let promises = promises::Promises::default();
    let dropped = Arc::<upload::DroppedCounts>::default();
    let outbox = outbox::Config {
        what: "uploads",
        limits: upload::OUTBOX_LIMITS,
        store: store.clone(),
        hub: hub.clone(),
        deliver: upload::deliver(hub.clone(), promises.clone(), dropped.clone()),
        max_concurrent: upload::MAX_CONCURRENT_DELIVERIES,
        dropped: dropped.of_outbox(),
    };
    let outbox = outbox::new(outbox, items);
    let length = outbox.length();
    let (connections, connected) = watch::channel(0);
    let sinks = Sinks {
        requests,
        uploads,
        connections: Arc::new(connections),
        has_devices: true,
        dropped,
        promises,
    };
    let external = external.map(external::Broker::new).transpose()?;
    let (inside, internal) = internal.map(internal::Broker::new).unzip();
    let (outside, external) = external.unzip();
    let addresses = internal.as_ref().map(internal::Broker::listening);
    let running = internal.as_ref().map(internal::Broker::running);
    let bus_metrics = BusMetrics::new(
        running,
        &sinks.requests,
        &sinks.uploads,
        sinks.dropped.clone(),
    )
    .with_outbox(length);
    let bus =
        Bus::new([inside, outside].into_iter().flatten().collect(), addresses).with(bus_metrics);
    let task = Task {
        internal,
        external,
        sinks,
        outbox,
        store,
        hub,
        messages,
        bus: bus.clone(),
    };
    Ok((bus, Requests::new(received, connected), task))
}

#[cfg(test)]
mod tests;
