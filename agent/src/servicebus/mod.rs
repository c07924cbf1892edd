//! ServiceBus: calls local HTTP servers for the cloud, and URLs of the cloud for local programs.
//!
//! In: calls of the cloud's rules ([`RouterMessages`]), and the URLs that rules let programs call. Out: requests to
//! `127.0.0.1:<port>`, whose responses go back to the cloud; and calls to the cloud from the server for programs. Every call
//! has a deadline, a size limit and a share of what runs at the same time. A call that fails is answered in the form of a
//! response, which the cloud forwards to the caller.
//!
//! | part | what |
//! |---|---|
//! | `call`, `headers`, `ports`, `local` | decisions, pure |
//! | `shares` | limits the concurrent calls |
//! | `body` | reads bodies, and limits large ones |
//! | `client` | the client of local servers |
//! | `server` | the server for local programs |
//! | `targets` | the URLs that rules have registered, in the store |
//! | `task` | the one owner: handles the cloud's messages |
//! | `metrics` | the counters |
//!
//! Source: KubeEdge's ServiceBus, `edge/pkg/servicebus`.

mod body;
mod call;
mod client;
mod headers;
mod local;
mod metrics;
mod ports;
mod server;
mod shares;
mod targets;
mod task;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use componentbase::{Metric, Queue};
use kubeapi::serve::BindError;
use objectstore::Store;
use rustls_pki_types::pem;
use tokio::sync::watch;

use self::{metrics::ServiceBusMetrics, targets::Targets};
pub use self::{ports::Ports, task::Task};
use crate::{config::CertificateFiles, edgehub::EdgeHub, metamanager::RouterMessages};

/// What ServiceBus needs.
#[derive(Debug)]
pub struct Config {
    /// The address of the server for programs of this machine; port 0 takes a free one.
    pub address: SocketAddr,
    /// The server's certificate; `None` for plain HTTP.
    pub tls: Option<CertificateFiles>,
    /// How long the cloud may take to answer a program.
    pub timeout: Duration,
    /// How long a local server may take to answer the cloud.
    pub call_timeout: Duration,
    /// Which ports the cloud may call.
    pub ports: Ports,
    /// The store of the URLs.
    pub store: Arc<dyn Store>,
    /// The connection to the cloud.
    pub hub: EdgeHub,
    /// The cloud's messages.
    pub messages: RouterMessages,
}

/// Why ServiceBus could not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A TLS file is missing, or has not the expected PEM content.
    #[error(
        "cannot read {path}; modules.serviceBus.tlsCertFile and tlsPrivateKeyFile must name a certificate and its key, or nothing"
    )]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the parser.
        source: Box<pem::Error>,
    },
    /// Certificate and key do not match.
    #[error("tlsCertFile and tlsPrivateKeyFile of modules.serviceBus do not belong together")]
    Unfit(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server cannot listen.
    #[error("the address cannot be bound; change modules.serviceBus.server or port")]
    Bind(#[from] BindError),
}

/// The handle, for metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServiceBus {
    metrics: Arc<ServiceBusMetrics>,
    listening: watch::Receiver<Option<SocketAddr>>,
}

impl ServiceBus {
    /// Returns the address for programs, once the server listens.
    pub fn listening(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.listening.clone()
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        self.metrics.metrics()
    }

    /// Reports how many of the permitted calls are running.
    pub(crate) fn queues(&self) -> Vec<Queue> {
        self.metrics.queues()
    }
}

/// Builds ServiceBus. [`Task::run`] reads the URLs and the TLS files, and listens.
pub fn new(config: Config) -> (ServiceBus, Task) {
    let Config {
        address,
        tls,
        timeout,
        call_timeout,
        ports,
        store,
        hub,
        messages,
    } = config;
    let metrics = Arc::<ServiceBusMetrics>::default();
    let (listens, listening) = watch::channel(None);
    let ports = ports.excluding(listening.clone());
    let handler = Arc::new(server::RequestHandler {
        targets: Targets::new(store),
        hub: hub.clone(),
        timeout,
        metrics: metrics.clone(),
        large: body::LargeBodyLimiter::default(),
        address,
    });
    let runner = Arc::new(task::CallRunner {
        client: client::Client::new(),
        call_timeout,
        ports,
        shares: shares::ConcurrencyLimits::default(),
        large: body::LargeBodyLimiter::default(),
        hub,
        metrics: metrics.clone(),
    });
    (
        ServiceBus { metrics, listening },
        Task {
            messages,
            handler,
            runner,
            tls,
            listens,
        },
    )
}
