//! Removes node certificates that the cloud refuses, because the node was deleted or reset, or belonged to another cloud. Nobody
//! runs `edge-agent reset` for a hollow node, so they are removed before it starts or while it runs, and it enrols again with its token.

use std::{io::ErrorKind, path::Path};

use clock::fs;
use cloudsim::Cloud;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use tracing::{info, warn};

use super::{Error, Options, private_file};

/// The files of an agent's identity in a node's directory.
pub(super) const FILES: [&str; 3] = ["node.crt", "node.key", "ca.crt"];

/// Removes the certificates that `cloud` refuses from the directories of the nodes that will be started.
///
/// # Errors
/// A file cannot be removed.
pub async fn forget_useless(cloud: &Cloud, options: &Options) -> Result<(), Error> {
    for name in options.names() {
        let directory = options.directory.join(&name);
        if is_refused(cloud, &name, certificate(&directory)).await {
            remove(&directory).await?;
        }
    }
    Ok(())
}

/// Returns the certificate (DER) in a node's directory, if there is one.
pub(super) fn certificate(directory: &Path) -> Option<Vec<u8>> {
    let certificate = CertificateDer::from_pem_file(directory.join(FILES[0])).ok()?;
    Some(certificate.to_vec())
}

/// Reports whether `cloud` refuses the certificate (DER) of a node.
pub(super) async fn is_refused(cloud: &Cloud, name: &str, certificate: Option<Vec<u8>>) -> bool {
    let Some(certificate) = certificate else {
        return false;
    };
    match cloud.knows(name, &certificate).await {
        Ok(true) => return false,
        Ok(false) => {}
        Err(error) => {
            // The node is refused until an administrator decides; the other nodes run.
            let error = &error as &dyn std::error::Error;
            warn!(
                node = name,
                error, "failed to look up certificate of a hollow node"
            );
            return false;
        }
    }
    info!(node = name, "certificate revoked; joining again");
    true
}

/// Reports whether a node has a certificate.
pub(super) fn exists(directory: &Path) -> bool {
    directory.join(FILES[0]).exists()
}

/// Reads the identity in a node's directory; `None` if it is incomplete.
pub(super) fn read(directory: &Path) -> Option<[String; 3]> {
    let [cert, key, ca] = FILES.map(|file| std::fs::read_to_string(directory.join(file)).ok());
    Some([cert?, key?, ca?])
}

/// Writes an identity to a node's directory, readable by its owner only.
///
/// # Errors
/// A file cannot be written.
pub(super) async fn write(directory: &Path, identity: &[String; 3]) -> Result<(), Error> {
    for (file, text) in FILES.iter().zip(identity) {
        let path = directory.join(file);
        let written = private_file::write(&path, text).await;
        written.map_err(|source| Error::Directory { path, source })?;
    }
    Ok(())
}

/// Removes the identity of a node from its directory.
///
/// # Errors
/// A file cannot be removed.
pub(super) async fn remove(directory: &Path) -> Result<(), Error> {
    for file in FILES {
        let path = directory.join(file);
        match fs::remove_file(&path).await {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                return Err(Error::Directory { path, source });
            }
            _ => {}
        }
    }
    Ok(())
}
