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
        "modules.metaManager.metaServer.server is {0}, which is reachable from other machines; set \
         featureGates.requireAuthorization to true, or choose a loopback address"
    )]
    OpenMetaServer(SocketAddr),
    /// MetaServer, or EdgeMesh, which reads through it, has no store for copies.
    #[error(
        "MetaServer or EdgeMesh is enabled without a cache database; pass one, or disable the module"
    )]
    NoCopies,
    /// The store cannot be opened.
    #[error("cannot open the database of objects from the cloud")]
    Store(#[from] StoreError),
    /// Another agent uses the same database, or its lock cannot be taken.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The encryption keys of the store cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// EdgeD cannot be built.
    #[error("cannot run pods")]
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
