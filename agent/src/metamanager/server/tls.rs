//! TLS of MetaServer: its certificate, and the CA of clients that show one.

use std::{path::PathBuf, sync::Arc};

use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject};

use crate::config::TlsFiles;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing, or is no PEM of what it should be.
    #[error(
        "{path} cannot be read; modules.metaManager.metaServer needs a certificate for its addresses, its key, and the CA of \
         its clients (tlsCertFile, tlsPrivateKeyFile, tlsCaFile)"
    )]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: Box<pem::Error>,
    },
    /// The files do not fit together.
    #[error(
        "tlsCertFile, tlsPrivateKeyFile and tlsCaFile of modules.metaManager.metaServer do not fit together"
    )]
    Unfit(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A server that asks clients for a certificate and does without where they have none.
pub(super) fn config(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let failed = |path: &PathBuf| {
        let path = path.clone();
        move |source| TlsError::File { path, source: Box::new(source) }
    };
    let certificates = |path: &PathBuf| -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let sections = CertificateDer::pem_file_iter(path).map_err(failed(path))?;
        sections.collect::<Result<_, _>>().map_err(failed(path))
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.ca)? {
        roots.add(certificate).map_err(|error| TlsError::Unfit(Box::new(error)))?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build();
    let verifier = verifier.map_err(|error| TlsError::Unfit(Box::new(error)))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(failed(&files.key))?;
    ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&files.cert)?, key)
        .map_err(|error| TlsError::Unfit(Box::new(error)))
}
