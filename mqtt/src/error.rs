//! Errors of the broker as a whole, and of this process's publications.

use std::{io, net::SocketAddr, path::PathBuf};

use crate::{reason::Fault, store::StoreError};

/// Why the broker cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A port cannot be bound.
    #[error("cannot listen on {address}; check whether another broker uses it")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A PEM file cannot be read.
    #[error("cannot read {what} from {}; it must be a PEM file that this process may read", path.display())]
    Pem {
        /// The expected content.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The parser's error.
        source: rustls_pki_types::pem::Error,
    },
    /// The certificate and the key do not make a TLS server.
    #[error("cannot use {} for TLS; key and certificate must belong together", path.display())]
    Tls {
        /// The certificate.
        path: PathBuf,
        /// The TLS library's error.
        source: rustls::Error,
    },
    /// The client authorities cannot be used.
    #[error("cannot verify client certificates with {}; it must contain at least one CA certificate", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// The TLS library's error.
        source: rustls::server::VerifierBuilderError,
    },
    /// The accepting task has panicked, which is a defect of this program.
    #[error("the MQTT broker stopped accepting connections; please report this with the log")]
    Accept(#[source] tokio::task::JoinError),
    /// The database failed. What is not on disk is not acknowledged, so the broker ends and reads the disk again when restarted.
    #[error("the MQTT broker cannot store acknowledged messages")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(Box::new(error))
    }
}

/// A publication or subscription of this process failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The topic name or filter is invalid.
    #[error("the topic cannot be used")]
    Topic(#[source] Fault),
    /// A subscriber had no room for [`Limits::patience`](crate::Limits::patience).
    #[error("a subscriber's queue is full; the subscriber is too slow")]
    Full,
    /// The broker has ended.
    #[error("the MQTT broker has stopped")]
    Stopped,
}
