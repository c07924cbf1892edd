//! Why the agent does not run.

use std::{io, net::SocketAddr, path::PathBuf};

use componentbase::UnexpectedEnd;
use objectstore::{LockError, StoreError};

use super::KeysError;
use crate::{
    edgehub::{EnrollError, ProxyError},
    eventbus,
};

/// Why the agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The proxy in the environment cannot be used.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The cloud cannot be asked.
    #[error(transparent)]
    Enroll(#[from] EnrollError),
    /// The runtime's endpoint is malformed.
    #[error("{0} is no endpoint of a container runtime; write unix:///path/to/socket")]
    RuntimeEndpoint(String),
    /// The interface whose address has to be reported has none.
    #[error(
        "modules.edged.customInterfaceName: {0} has no address; name an interface that has one, or remove the line"
    )]
    Interface(String),
    /// The directory of the database cannot be created.
    #[error(
        "cannot create {path}; run the agent as a user with write permission, or change modules.metaManager / database.dataSource"
    )]
    Directory {
        /// The path of the directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// MetaServer would be accessible from the network.
    #[error(
        "modules.metaManager.metaServer.server is {0}, which others than this node's own programs reach; set \
         featureGates.requireAuthorization to true, or choose a loopback address"
    )]
    OpenMetaServer(SocketAddr),
    /// MetaServer, or EdgeMesh, which reads through it, has no store for copies.
    #[error(
        "MetaServer or EdgeMesh is enabled without a store for copies; pass one, or disable it"
    )]
    NoCopies,
    /// The store cannot be opened.
    #[error("what the cloud said cannot be read")]
    Store(#[from] StoreError),
    /// Another agent uses the same database.
    #[error("the database belongs to one agent at a time")]
    Locked(#[from] LockError),
    /// The encryption keys of the store cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// EdgeD cannot be built.
    #[error("pods cannot be run")]
    Edged(#[from] edged::Error),
    /// EventBus cannot be built.
    #[error(transparent)]
    EventBus(#[from] eventbus::Error),
    /// A module ended on its own.
    #[error("the agent cannot continue")]
    UnexpectedEnd(#[from] UnexpectedEnd),
}

impl Error {
    /// Reports whether a module blocks its thread, which cannot be recovered.
    pub(crate) fn is_hang(&self) -> bool {
        matches!(self, Self::UnexpectedEnd(UnexpectedEnd::Hangs(_)))
    }
}
