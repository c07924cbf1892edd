//! Why the agent does not run.

use std::{io, net::SocketAddr, path::PathBuf};

use kubeapi::store::{LockError, StoreError};

use super::KeysError;
use crate::{edged, edgehub::ProxyError, eventbus, rt::Ended, servicebus};

/// Why the agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The proxy of the environment cannot be used.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The runtime's endpoint is none.
    #[error("{0} is no endpoint of a container runtime; write unix:///path/to/socket")]
    RuntimeEndpoint(String),
    /// The interface whose address is to be reported has none.
    #[error(
        "modules.edged.customInterfaceName: {0} has no address; name an interface that has one, or remove the line"
    )]
    Interface(String),
    /// The directory of the database cannot be made.
    #[error(
        "{path} cannot be made; run the agent as a user who may write there, or change modules.metaManager / database.dataSource"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// MetaServer would be open to the network.
    #[error(
        "modules.metaManager.metaServer.server is {0}, which others than this node's own programs reach; set \
         featureGates.requireAuthorization to true, or choose a loopback address"
    )]
    OpenMetaServer(SocketAddr),
    /// MetaServer, or EdgeMesh, which reads through it, has no store for copies.
    #[error("MetaServer or EdgeMesh is enabled and was given no store for copies; give one, or disable it")]
    NoCopies,
    /// The store cannot be opened.
    #[error("what the cloud said cannot be read")]
    Store(#[from] StoreError),
    /// Another agent runs on the same database.
    #[error("the database belongs to one agent at a time")]
    Locked(#[from] LockError),
    /// The keys that the store is encrypted with cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// EdgeD cannot be built.
    #[error("pods cannot be run")]
    Edged(#[from] edged::Error),
    /// MQTT cannot be spoken.
    #[error(transparent)]
    EventBus(#[from] eventbus::Error),
    /// Services cannot be called.
    #[error(transparent)]
    ServiceBus(#[from] servicebus::Error),
    /// A part ended on its own.
    #[error("the agent cannot go on")]
    Ended(#[from] Ended),
}

impl Error {
    /// Whether a part holds its thread, which nobody gets back.
    pub(crate) fn is_hang(&self) -> bool {
        matches!(self, Self::Ended(Ended::Hangs(_)))
    }
}
