//! EventBus: MQTT, with the broker in this process, with one beside it, or with both.
//!
//! In: what mappers and applications publish. Requests about devices go to DeviceTwin ([`Requests`]); everything else goes to the
//! cloud as it is. Out: what DeviceTwin has to say ([`Bus::publish`]), and what the cloud publishes. Topics that the cloud's rules
//! listen to are kept, and subscribed to again whenever that is needed.
//!
//! | part | what |
//! |---|---|
//! | `internal`, `external` | the two brokers |
//! | `topics` | what rules listen to, in the store |
//! | `promises` | what the cloud promises for the messages of a rule |
//! | `publish` | what the cloud publishes, and what it is answered |
//! | `upload` | what goes to the cloud, by way of an outbox |
//! | `handle` | the doors for other rooms |
//! | `tls` | the connection to the broker beside |
//! | `passwords` | the users of the broker in this process |
//!
//! Source: KubeEdge's EventBus.

mod external;
mod figures;
mod handle;
mod internal;
mod passwords;
mod promises;
mod prompt;
mod publish;
mod receipt;
mod route;
mod task;
mod tls;
mod topics;
mod upload;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use kubeapi::store::Store;
use tokio::sync::{Semaphore, mpsc, watch};

use self::figures::Figures;
pub(crate) use self::handle::Received;
pub use self::{
    handle::{Bus, Requests},
    passwords::PasswordError,
    task::Task,
};
pub use crate::rt::tls_files::TlsError;
use crate::{
    config::{HostPort, InternalAccess, Secret, TlsFiles},
    edgehub::EdgeHub,
    metamanager::RouterMessages,
    outbox,
};

/// Requests that wait for DeviceTwin: more than one of its turns.
const REQUESTS: usize = 1024;

/// The broker in this process.
#[derive(Clone, Debug)]
pub struct Internal {
    /// Where it listens; port 0 takes a free one.
    pub address: SocketAddr,
    /// Its certificate; `None`: plain.
    pub tls: Option<TlsFiles>,
    /// Who may do what; `None`: everybody everything.
    pub access: Option<InternalAccess>,
    /// Where sessions and retained messages are kept.
    pub database: Option<PathBuf>,
    /// Messages that wait for a client.
    pub session_queue: usize,
    /// The quality of service of what is published.
    pub qos: u8,
    /// Whether the last message of each topic is kept.
    pub retain: bool,
}

/// The broker beside this process.
#[derive(Clone, Debug)]
pub struct External {
    /// Where it is.
    pub server: HostPort,
    /// TLS with it, verified against this CA; `None`: plain.
    pub tls: Option<TlsFiles>,
    /// This node's name there; its session is resumed by it.
    pub client_id: String,
    /// User name.
    pub username: Option<String>,
    /// Password.
    pub password: Option<Secret>,
    /// The quality of service of what is published, 1 or 2.
    pub qos: u8,
}

/// What the room needs.
#[derive(Debug)]
pub struct Config {
    /// The broker in this process, if there is to be one.
    pub internal: Option<Internal>,
    /// The broker beside it, if there is one.
    pub external: Option<External>,
    /// Where the rules' topics are kept, and what waits for the cloud.
    pub store: Arc<dyn Store>,
    /// The way to the cloud.
    pub hub: EdgeHub,
    /// What the cloud says of topics.
    pub messages: RouterMessages,
}

/// Why the room could not be built or had to give up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection to the broker beside cannot be made safe.
    #[error("modules.eventBus.eventBusTLS cannot be used")]
    Tls(#[from] TlsError),
    /// The broker in this process cannot start, or cannot go on.
    #[error(
        "modules.eventBus: the internal broker cannot run; where something else listens at its port, change mqttServerInternal, or set \
         mqttMode to 2 to use a broker that is there"
    )]
    Broker(#[from] mqtt::Error),
    /// The users of the broker in this process cannot be read.
    #[error("modules.eventBus.internalAccess.passwordFile cannot be used")]
    Passwords(#[from] PasswordError),
    /// The client of the broker beside cannot be made.
    #[error("modules.eventBus: this is no client of a broker: {0}")]
    Client(String),
}

/// Where brokers put what they receive.
#[derive(Clone, Debug)]
struct Sinks {
    requests: mpsc::Sender<Received>,
    uploads: mpsc::Sender<upload::Upload>,
    /// Places for uploads that are not acknowledged before they are sent or kept.
    held: Arc<Semaphore>,
    /// Counts the connections to the broker beside, and what else makes that something may have been missed that was said before.
    connections: Arc<watch::Sender<u64>>,
    /// Whether anybody looks after devices.
    has_devices: bool,
    dropped: Arc<upload::Dropped>,
    /// Whether the cloud answers uploads and takes bytes that are no text, by the filters of its rules.
    promises: promises::Promises,
}

/// Builds the room. [`Task::run`] opens the internal broker and dials the external one.
///
/// # Errors
/// The files of TLS or of passwords cannot be used.
pub fn new(config: Config) -> Result<(Bus, Requests, Task), Error> {
    let Config { internal, external, store, hub, messages } = config;
    let (requests, received) = mpsc::channel(REQUESTS);
    let (uploads, items) = mpsc::channel(upload::MAX_QUEUED_UPLOADS);
    let promises = promises::Promises::default();
    let dropped = Arc::<upload::Dropped>::default();
    let outbox = outbox::Config {
        what: "uploads",
        limits: upload::OUTBOX_LIMITS,
        store: store.clone(),
        hub: hub.clone(),
        deliver: upload::deliver(hub.clone(), promises.clone(), dropped.clone()),
        at_once: upload::MAX_CONCURRENT_DELIVERIES,
        dropped: dropped.of_outbox(),
    };
    let outbox = outbox::new(outbox, items);
    let length = outbox.length();
    let (connections, connected) = watch::channel(0);
    let sinks = Sinks {
        requests,
        uploads,
        held: Arc::new(Semaphore::new(upload::MAX_UNACKNOWLEDGED)),
        connections: Arc::new(connections),
        has_devices: true,
        dropped,
        promises,
    };
    let external = external.map(external::Broker::new).transpose()?;
    let (inside, internal) = internal.map(internal::Broker::new).transpose()?.unzip();
    let (outside, external) = external.unzip();
    let addresses = internal.as_ref().map(internal::Broker::listening);
    let running = internal.as_ref().map(internal::Broker::running);
    let figures =
        Figures::new(running, &sinks.requests, &sinks.uploads, sinks.dropped.clone()).with_outbox(length);
    let bus = Bus::new([inside, outside].into_iter().flatten().collect(), addresses).with(figures);
    let task = Task { internal, external, sinks, outbox, store, hub, messages, bus: bus.clone() };
    Ok((bus, Requests::new(received, connected), task))
}

#[cfg(test)]
mod tests;
