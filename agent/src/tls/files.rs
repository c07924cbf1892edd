//! The TLS client configuration from the files that a section of `edgecore.yaml` names: its CA is the only root, and its
//! certificate is presented.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject};

use crate::config::TlsFiles;

/// The largest PEM file, bytes; a chain of certificates stays far below.
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// Why the TLS files cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}; it must be a PEM file that the agent may read", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file has not the expected PEM content.
    #[error("{} is not a PEM file of the expected type: {}", path.display(), pem_fault(fault))]
    Pem {
        /// The path of the file.
        path: PathBuf,
        /// The error of the parser, whose own text shows bytes.
        fault: pem::Error,
    },
    /// Certificate and key do not match.
    #[error("{} cannot be used; certificate and key must belong together, and the CA file must contain a CA certificate", path.display())]
    Files {
        /// The path of the certificate.
        path: PathBuf,
        /// The error of TLS.
        source: rustls::Error,
    },
}

impl TlsError {
    /// Reports whether this user may not read a file.
    pub(crate) fn is_permission_denied(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Reports whether a file is missing, as before the node has joined.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Describes what is wrong in a PEM file.
pub(crate) fn pem_fault(fault: &pem::Error) -> String {
    match fault {
        pem::Error::MissingSectionEnd { .. } => "it is truncated: it has no END line".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line is malformed".to_owned(),
        pem::Error::NoItemsFound => "it has no certificate or key".to_owned(),
        other => other.to_string(),
    }
}

/// The content of the files.
pub(crate) struct Read {
    /// The CA's certificates.
    pub(crate) roots: RootCertStore,
    /// The own certificate with its chain.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// The private key.
    pub(crate) key: PrivateKeyDer<'static>,
}

/// Reads the files.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn read_all(files: &TlsFiles) -> Result<Read, TlsError> {
    let failed = |source| TlsError::Files {
        path: files.cert.clone(),
        source,
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.ca)? {
        roots.add(certificate).map_err(failed)?;
    }
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?);
    let key = key.map_err(|fault| TlsError::Pem {
        path: files.key.clone(),
        fault,
    })?;
    Ok(Read { roots, chain, key })
}

/// Builds a client configuration from the files.
///
/// # Errors
/// A file cannot be read, or certificate and key do not match.
pub(crate) fn client_config(files: &TlsFiles) -> Result<Arc<ClientConfig>, TlsError> {
    let failed = |source| TlsError::Files {
        path: files.cert.clone(),
        source,
    };
    let Read { roots, chain, key } = read_all(files)?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(failed)?;
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |fault| TlsError::Pem {
        path: path.to_owned(),
        fault,
    };
    let text = read(path)?;
    let all = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    if all.is_empty() {
        Err(failed(pem::Error::NoItemsFound))
    } else {
        Ok(all)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::File {
        path: path.to_owned(),
        source,
    };
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES)
        .read_to_end(&mut text)
        .map_err(failed)?;
    Ok(text)
}
