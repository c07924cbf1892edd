//! ServiceBus: HTTP servers of this machine for the cloud, and targets of the cloud for programs of this machine.
//!
//! In: what the cloud's rules call ([`RouterMessages`]), and the URLs that they let programs call. Out: requests to
//! `127.0.0.1:<port>`, whose answers go back to the cloud; and, from the server for programs, calls to the cloud. Every call has a
//! deadline, a size and a share of what runs at the same time; whatever goes wrong with one is answered in the form of an answer,
//! which a cloud hands on to whoever called.
//!
//! | part | what |
//! |---|---|
//! | `call`, `headers`, `ports`, `local` | decisions, pure |
//! | `shares` | how much runs at the same time |
//! | `body` | reads bodies, and holds few large ones |
//! | `client` | the edge to local servers |
//! | `server` | the edge to local programs |
//! | `targets` | the URLs that rules have registered, in the store |
//! | `task` | the one owner: takes what the cloud says |
//! | `figures` | what is counted |
//!
//! Source: KubeEdge's ServiceBus, `edge/pkg/servicebus`.

mod body;
mod call;
mod client;
mod figures;
mod headers;
mod local;
mod ports;
mod server;
mod shares;
mod targets;
mod task;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use kubeapi::store::Store;
use rustls_pki_types::pem;
use tokio::sync::watch;

use self::{figures::Figures, targets::Targets};
pub use self::{ports::Ports, task::Task};
use crate::{
    config::CertificateFiles,
    edgehub::EdgeHub,
    metamanager::RouterMessages,
    rt::{Metric, Queue},
};

/// What the room needs.
#[derive(Debug)]
pub struct Config {
    /// The address of the server that programs of this machine call; port 0 takes a free one.
    pub address: SocketAddr,
    /// The certificate shown there; `None`: plain HTTP.
    pub tls: Option<CertificateFiles>,
    /// How long the cloud may take to answer a program.
    pub timeout: Duration,
    /// How long a local server may take to answer the cloud.
    pub call_timeout: Duration,
    /// Which ports the cloud may call.
    pub ports: Ports,
    /// Where the URLs are kept.
    pub store: Arc<dyn Store>,
    /// The way to the cloud.
    pub hub: EdgeHub,
    /// What the cloud says.
    pub messages: RouterMessages,
}

/// Why the room could not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of TLS is missing, or is no PEM of what it should be.
    #[error(
        "{path} cannot be read; modules.serviceBus.tlsCertFile and tlsPrivateKeyFile must name a certificate and its key, or nothing"
    )]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: Box<pem::Error>,
    },
    /// Certificate and key do not fit together.
    #[error("tlsCertFile and tlsPrivateKeyFile of modules.serviceBus do not fit together")]
    Unfit(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The handle: what the room tells of itself. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServiceBus {
    figures: Arc<Figures>,
    listening: watch::Receiver<Option<SocketAddr>>,
}

impl ServiceBus {
    /// Where programs call, once that is possible.
    pub fn listening(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.listening.clone()
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        self.figures.metrics()
    }

    /// How much runs of what may run at the same time.
    pub(crate) fn queues(&self) -> Vec<Queue> {
        self.figures.queues()
    }
}

/// Builds the room. [`Task::run`] reads the URLs and listens.
///
/// # Errors
/// The files of TLS cannot be used.
pub fn new(config: Config) -> Result<(ServiceBus, Task), Error> {
    let Config { address, tls, timeout, call_timeout, ports, store, hub, messages } = config;
    let tls = tls.as_ref().map(server::tls).transpose()?;
    let figures = Arc::<Figures>::default();
    let (listens, listening) = watch::channel(None);
    let ports = ports.and(listening.clone());
    let handler = Arc::new(server::RequestHandler {
        targets: Targets::new(store),
        hub: hub.clone(),
        timeout,
        figures: figures.clone(),
        large: body::Large::default(),
        address,
    });
    let runner = Arc::new(task::CallRunner {
        client: client::Client::new(),
        call_timeout,
        ports,
        shares: shares::Shares::default(),
        large: body::Large::default(),
        hub,
        figures: figures.clone(),
    });
    Ok((ServiceBus { figures, listening }, Task { messages, handler, runner, tls, listens }))
}
