//! Settings of ServiceBus.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, time::Duration};

/// The settings of ServiceBus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceBus {
    /// The address of the server that programs of this machine call.
    pub server: SocketAddr,
    /// The server's certificate; `None` for plain HTTP.
    pub tls: Option<CertificateFiles>,
    /// How long the cloud may take to answer such a call.
    pub timeout: Duration,
    /// How long a local server may take to answer a call of the cloud.
    pub call_timeout: Duration,
    /// The ports that the cloud may call; empty for all but the agent's own.
    pub allowed_ports: BTreeSet<u16>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, PEM.
    pub cert: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
}
