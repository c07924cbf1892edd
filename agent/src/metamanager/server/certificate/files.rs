//! The files of the certificate and its key: PEM, the key readable by this user only.

use std::{
    fs::File,
    io,
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{crypto::ring, sign::CertifiedKey};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer, pem::PemObject};
use wire::enroll::{pem_ec_private_key, validity_of};

use super::Certificate;
use crate::file;

/// The largest file that is read, bytes; a chain of certificates stays far below.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Wraps a key in the form in which it is generated here.
pub(super) fn key_of(sec1: Vec<u8>) -> PrivateKeyDer<'static> {
    PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(sec1))
}

/// Reads the files; `None` if one of them is missing.
pub(super) fn load((cert, key): &(PathBuf, PathBuf)) -> Result<Option<Certificate>, String> {
    let (Some(cert), Some(key)) = (bytes(cert)?, bytes(key)?) else {
        return Ok(None);
    };
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| format!("cannot read its key: {error}; delete certificate and key, and the agent creates new ones"))?;
    parse(&cert, key).map(Some)
}

/// Writes the files, the certificate last: an interruption leaves a pair that does not match and is not used.
pub(super) fn save(
    (cert, key): &(PathBuf, PathBuf),
    pem: &[u8],
    key_sec1: &[u8],
) -> io::Result<()> {
    file::replace(key, pem_ec_private_key(key_sec1).as_bytes(), 0o600)?;
    file::replace(cert, pem, 0o644)
}

/// Parses a certificate, PEM, with its chain, and its key.
pub(super) fn parse(pem: &[u8], key: PrivateKeyDer<'static>) -> Result<Certificate, String> {
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| format!("it is no PEM: {error}"))?;
    let first = chain.first().ok_or("there is no certificate in it")?;
    let validity = validity_of(first).map_err(|error| error.to_string())?;
    // also checks that certificate and key match
    let key = CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|error| error.to_string())?;
    Ok(Certificate {
        key: Arc::new(key),
        validity,
    })
}

fn bytes(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let failed = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let file = match File::open(path) {
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
