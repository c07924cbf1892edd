//! MetaServer's TLS: its certificate, and the CA of client certificates.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ConfigBuilder, RootCertStore, ServerConfig,
    server::{WantsServerCert, WebPkiClientVerifier},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject};

use super::certificate::CurrentCertificate;
use crate::config::TlsFiles;

/// Why TLS cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing, or has not the expected PEM content.
    #[error(
        "cannot read {path}; modules.metaManager.metaServer needs a certificate for its addresses, its key, and the CA of \
         its clients (tlsCertFile, tlsPrivateKeyFile, tlsCaFile)"
    )]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the parser.
        source: Box<pem::Error>,
    },
    /// The files do not match.
    #[error(
        "tlsCertFile, tlsPrivateKeyFile and tlsCaFile of modules.metaManager.metaServer do not belong together"
    )]
    Unfit(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Builds a server configuration with the certificate of these files.
pub(super) fn config(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(tls_error(&files.key))?;
    builder(&files.ca)?
        .with_single_cert(certificates(&files.cert)?, key)
        .map_err(|error| TlsError::Unfit(Box::new(error)))
}

/// Builds a server configuration that always uses the current certificate.
pub(super) fn config_of_current(
    ca: &Path,
    current_certificate: Arc<CurrentCertificate>,
) -> Result<ServerConfig, TlsError> {
    Ok(builder(ca)?.with_cert_resolver(current_certificate))
}

/// Starts a server configuration that requests, but does not require, a client certificate of this CA.
fn builder(ca: &Path) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots
            .add(certificate)
            .map_err(|error| TlsError::Unfit(Box::new(error)))?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
        .allow_unauthenticated()
        .build();
    let verifier = verifier.map_err(|error| TlsError::Unfit(Box::new(error)))?;
    Ok(ServerConfig::builder().with_client_cert_verifier(verifier))
}

/// Builds a server configuration with a generated certificate and its key: DER, SEC1 DER.
pub(super) fn config_of_made(
    ca: &Path,
    (cert, key): (Vec<u8>, Vec<u8>),
) -> Result<ServerConfig, TlsError> {
    let key = PrivateKeyDer::Sec1(key.into());
    builder(ca)?
        .with_single_cert(vec![cert.into()], key)
        .map_err(|error| TlsError::Unfit(Box::new(error)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let sections = CertificateDer::pem_file_iter(path).map_err(tls_error(path))?;
    sections.collect::<Result<_, _>>().map_err(tls_error(path))
}

fn tls_error(path: &Path) -> impl Fn(pem::Error) -> TlsError {
    let path = path.to_owned();
    move |source| TlsError::File {
        path: path.clone(),
        source: Box::new(source),
    }
}
