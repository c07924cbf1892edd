//! Errors of starting a cloud.

use std::path::PathBuf;

use kubeapi::serve::BindError;
use objectstore::{LockError, SealError, StoreError};

use super::{ClusterError, options::DATABASE, ports::BusyPort};
use crate::{
    hub, kubeconfig,
    pki::{PkiError, RecordError},
    relay::RelayBindError,
    router::RouterError,
    streams::{ClientCaError, StreamServerError, StreamServiceError},
};

/// The cloud cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no name for its certificates.
    #[error("the cloud has no name or address for its certificate; set at least one with --name")]
    NoName,
    /// The data directory cannot be created.
    #[error("cannot create the data directory {path}; choose a writable one with --data-dir")]
    Directory {
        /// The path of the directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error("cannot open the store of --data-dir")]
    Store(#[from] StoreError),
    /// The store's file is damaged.
    #[error(
        "the store of --data-dir is damaged; `cloudsim db repair --data-dir {}` (with its --key-file, if it has one) rewrites it with all readable objects, or restore a backup of {DATABASE}",
        directory.display()
    )]
    Damaged {
        /// The data directory.
        directory: PathBuf,
        /// The store's error. Its own remedy, for stores that can be replaced, does not apply: it is not part of the text.
        cause: StoreError,
    },
    /// The encryption keys cannot be used.
    #[error("--key-file cannot be used")]
    Keys(#[from] SealError),
    /// Another cloud runs in the data directory, or the directory cannot be used.
    #[error(
        "cannot use the data directory; choose another one with --data-dir, or correct the cause"
    )]
    Locked(#[from] LockError),
    /// The API cannot be built.
    #[error("cannot create the initial namespaces")]
    Api(#[from] kube::Error),
    /// The records of nodes' certificates cannot be read.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The cloud's keys cannot be read or created.
    #[error("cannot load the cloud's keys")]
    Pki(#[from] PkiError),
    /// Several ports are in use.
    #[error(
        "{} ports are in use: {}; stop the programs that use them (`cloudsim status` lists clouds, `ss -ltnp` all programs), or choose others with these options (0 picks a free port)",
        .0.len(), list(.0)
    )]
    Ports(Vec<BusyPort>),
    /// A port is taken or not allowed.
    #[error("the {server} cannot listen; choose another address or port with {option}")]
    Bind {
        /// The name of the server.
        server: &'static str,
        /// The option for its port.
        option: &'static str,
        /// The system's error.
        source: BindError,
    },
    /// CloudHub's port is taken or not allowed.
    #[error(transparent)]
    Hub(#[from] hub::BindError),
    /// The QUIC port of CloudHub is in use or not allowed.
    #[error(transparent)]
    Quic(#[from] hub::QuicBindError),
    /// The port for stream tunnels is in use or not allowed.
    #[error(transparent)]
    Streams(#[from] StreamServerError),
    /// The relay between nodes cannot start.
    #[error(transparent)]
    Relay(#[from] RelayBindError),
    /// The router cannot start.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// The clients that may reach kubelets are not known.
    #[error(transparent)]
    Kubelets(#[from] ClientCaError),
    /// The address for the API server is not known.
    #[error(transparent)]
    StreamService(#[from] StreamServiceError),
    /// The cluster cannot be served.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The kubeconfig cannot be written.
    #[error(transparent)]
    Kubeconfig(#[from] kubeconfig::KubeconfigError),
    /// The program ended while the cloud started.
    #[error("the start was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

fn list(ports: &[BusyPort]) -> String {
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    ports.join(", ")
}
