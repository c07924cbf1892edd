//! Why a cloud does not start.

use std::path::PathBuf;

use kubeapi::{
    serve::BindError,
    store::{LockError, SealError, StoreError},
};

use super::{ClusterError, options::DATABASE};
use crate::{
    hub, kubeconfig,
    pki::{PkiError, RecordError},
    relay::RelayBindError,
    router::NoRouter,
    streams::{NoKeys, NoStreamServer},
};

/// Why a cloud does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No name for its certificates.
    #[error("no name or address by which the cloud is reached was given; give at least one with --name")]
    NoName,
    /// The data directory cannot be made.
    #[error("the data directory {path} cannot be made; choose one that you may write to with --data-dir")]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error("the store of --data-dir cannot be opened")]
    Store(#[from] StoreError),
    /// The store's file is damaged.
    #[error(
        "the store of --data-dir is damaged; `cloudsim db repair --data-dir {}` (with its --key-file, if it has one) writes it anew with \
         all that can be read of it, or put a copy of {DATABASE} in its place",
        directory.display()
    )]
    Damaged {
        /// The data directory.
        directory: PathBuf,
        /// What is wrong.
        source: StoreError,
    },
    /// The keys cannot be used.
    #[error("--key-file cannot be used")]
    Keys(#[from] SealError),
    /// Another cloud runs in the data directory.
    #[error("a data directory belongs to one cloud at a time; choose another one with --data-dir")]
    Locked(#[from] LockError),
    /// The API is not complete.
    #[error("the API could not be given its first namespaces")]
    Api(#[from] kube::Error),
    /// The records of nodes' certificates cannot be read.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// No keys.
    #[error("the cloud has no keys")]
    Pki(#[from] PkiError),
    /// A port is taken or not allowed.
    #[error("the {server} cannot listen; change it with {option}")]
    Bind {
        /// Which server.
        server: &'static str,
        /// The option that changes its port.
        option: &'static str,
        /// Why.
        source: BindError,
    },
    /// CloudHub's port is taken or not allowed.
    #[error(transparent)]
    Hub(#[from] hub::BindError),
    /// The same of its QUIC port.
    #[error(transparent)]
    Quic(#[from] hub::QuicBindError),
    /// The same of the port for nodes' stream tunnels.
    #[error(transparent)]
    Streams(#[from] NoStreamServer),
    /// The same of the relay between nodes.
    #[error(transparent)]
    Relay(#[from] RelayBindError),
    /// The same of the router.
    #[error(transparent)]
    Router(#[from] NoRouter),
    /// Who may ask for nodes' kubelets is not known.
    #[error(transparent)]
    Kubelets(#[from] NoKeys),
    /// The cluster cannot be served.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// No kubeconfig.
    #[error(transparent)]
    Kubeconfig(#[from] kubeconfig::WriteError),
}
