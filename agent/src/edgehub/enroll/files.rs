//! The three files of this node's identity: CA, certificate, key (PEM, the key as EdgeCore writes it: `EC PRIVATE KEY`).

use std::{
    fs,
    io::{ErrorKind, Read},
    path::Path,
    sync::Arc,
};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer, pem, pem::PemObject};
use tracing::warn;
use wire::enroll::{Identity, identity_of, pem_certificate, pem_ec_private_key};

use super::{Config, EnrollError};
use crate::{file::replace, tls::files::pem_fault};

/// The largest PEM file that is read, bytes; a chain of certificates stays far below.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// CA, certificate and key in memory.
pub(in crate::edgehub) struct Credentials {
    ca: CertificateDer<'static>,
    cert: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    pub(super) fn new(ca: Vec<u8>, cert: Vec<u8>, key_sec1: Vec<u8>) -> Self {
        Self {
            ca: ca.into(),
            cert: cert.into(),
            key: PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key_sec1)),
        }
    }

    /// Returns the cloud's CA, DER.
    pub(in crate::edgehub) fn ca(&self) -> &[u8] {
        &self.ca
    }

    /// Returns this node's certificate, DER.
    pub(in crate::edgehub) fn cert(&self) -> &[u8] {
        &self.cert
    }

    /// Returns certificate, key and CA as the files have them.
    pub(in crate::edgehub) fn to_pem(&self) -> [String; 3] {
        [
            pem_certificate(&self.cert),
            pem_ec_private_key(self.key.secret_der()),
            pem_certificate(&self.ca),
        ]
    }

    /// Parses certificate, key and CA.
    pub(in crate::edgehub) fn from_pem([cert, key, ca]: &[String; 3]) -> Result<Self, pem::Error> {
        Ok(Self {
            ca: CertificateDer::from_pem_slice(ca.as_bytes())?,
            cert: CertificateDer::from_pem_slice(cert.as_bytes())?,
            key: PrivateKeyDer::from_pem_slice(key.as_bytes())?,
        })
    }

    /// Builds the TLS configuration for the cloud: its CA is the only root, and this node's certificate is presented.
    pub(super) fn client_config(&self) -> Result<ClientConfig, EnrollError> {
        let crypto = |error: rustls::Error| EnrollError::Crypto(error.to_string());
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.clone()).map_err(crypto)?;
        ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![self.cert.clone()], self.key.clone_key())
            .map_err(crypto)
    }
}

/// Reads the stored identity; `None` if there is none yet, or if it is another node's.
pub(super) fn load(config: &Config) -> Result<Option<Arc<Credentials>>, EnrollError> {
    let Some(link) = &config.in_process else {
        return Ok(read_all(config)?.map(Arc::new));
    };
    if let Some(identity) = link.identity() {
        return Ok(Some(identity));
    }
    let stored = match link.has_files() {
        true => read_all(config)?.map(Arc::new),
        false => None,
    };
    if let Some(identity) = &stored {
        link.set_identity(Arc::clone(identity));
    }
    Ok(stored)
}

fn read_all(config: &Config) -> Result<Option<Credentials>, EnrollError> {
    let (Some(ca), Some(cert), Some(key)) = (
        read(&config.ca_file)?,
        read(&config.cert_file)?,
        read(&config.key_file)?,
    ) else {
        return Ok(None);
    };
    let ca =
        CertificateDer::from_pem_slice(&ca).map_err(|error| not_pem(&config.ca_file, &error))?;
    let cert = CertificateDer::from_pem_slice(&cert)
        .map_err(|error| not_pem(&config.cert_file, &error))?;
    let key =
        PrivateKeyDer::from_pem_slice(&key).map_err(|error| not_pem(&config.key_file, &error))?;
    match identity_of(&cert) {
        Ok(Identity::Node(name)) if name == config.node_name => {
            Ok(Some(Credentials { ca, cert, key }))
        }
        found => {
            let found = found.map_or_else(|error| error.to_string(), |owner| owner.to_string());
            warn!(
                file = %config.cert_file.display(),
                found,
                node = %config.node_name,
                "cannot use the certificate of another node; enrolling again"
            );
            Ok(None)
        }
    }
}

/// Writes the identity, the certificate last: an interruption leaves no incomplete identity that seems complete.
pub(super) fn save(config: &Config, credentials: &Arc<Credentials>) -> Result<(), EnrollError> {
    if let Some(link) = &config.in_process {
        link.set_identity(Arc::clone(credentials));
        if !link.has_files() {
            return Ok(());
        }
    }
    let [cert, key, ca] = credentials.to_pem();
    write(&config.ca_file, ca.as_bytes(), 0o644)?;
    write(&config.key_file, key.as_bytes(), 0o600)?;
    write(&config.cert_file, cert.as_bytes(), 0o644)
}

fn not_pem(path: &Path, fault: &pem::Error) -> EnrollError {
    EnrollError::File {
        path: path.to_owned(),
        why: format!(
            "not a PEM file ({}); restore it, or run `edge-agent reset` and join again",
            pem_fault(fault)
        ),
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, EnrollError> {
    let failed = |error: std::io::Error| EnrollError::File {
        path: path.to_owned(),
        why: error.to_string(),
    };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(Some(bytes))
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), EnrollError> {
    replace(path, bytes, mode).map_err(|error| EnrollError::File {
        path: path.to_owned(),
        why: format!("cannot be written ({error}); check owner and free space of the directory"),
    })
}
