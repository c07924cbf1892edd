//! TLS with the node's certificate. The files are read before each dial: EdgeHub makes and renews them.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject};

use crate::config::TlsFiles;

/// Largest PEM file; a chain of certificates stays far below.
const LIMIT: u64 = 256 * 1024;

/// The files cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    /// A file cannot be read.
    #[error("{} cannot be read; modules.edgeStream names it", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A file is no PEM of its kind.
    #[error("{} is not a PEM file as expected; modules.edgeStream names it", path.display())]
    Pem { path: PathBuf, source: pem::Error },
    /// They do not belong together.
    #[error("{} cannot be used; certificate and key must belong together, and the CA must be one", path.display())]
    Files { path: PathBuf, source: rustls::Error },
}

impl TlsError {
    /// Whether a file is not there, as it is until the node has joined.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// The CA is the only root, and the node's certificate is shown.
pub(super) fn client_config(files: &TlsFiles) -> Result<Arc<ClientConfig>, TlsError> {
    let failed = |source| TlsError::Files { path: files.cert.clone(), source };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.ca)? {
        roots.add(certificate).map_err(failed)?;
    }
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?);
    let key = key.map_err(|source| TlsError::Pem { path: files.key.clone(), source })?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(chain, key);
    Ok(Arc::new(config.map_err(failed)?))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::Pem { path: path.to_owned(), source };
    let text = read(path)?;
    let all = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if all.is_empty() { Err(failed(pem::Error::NoItemsFound)) } else { Ok(all) }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::File { path: path.to_owned(), source };
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LIMIT).read_to_end(&mut text).map_err(failed)?;
    Ok(text)
}
