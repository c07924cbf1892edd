//! Removes node certificates that the cloud refuses, because the node was deleted or reset, or belonged to another cloud. Nobody
//! runs `edge-agent reset` for a hollow node, so they are removed before it starts, and it enrols again with its token.

use std::io::ErrorKind;

use cloudsim::Cloud;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use tokio::fs;
use tracing::{info, warn};

use super::{Error, Options};

/// The files of an agent's identity in a node's directory.
pub(super) const FILES: [&str; 3] = ["node.crt", "node.key", "ca.crt"];

/// Removes the certificates that `cloud` refuses from the directories of the nodes that will be started.
///
/// # Errors
/// A file cannot be removed.
pub async fn forget_useless(cloud: &Cloud, options: &Options) -> Result<(), Error> {
    for name in options.names() {
        let directory = options.directory.join(&name);
        let Ok(certificate) = CertificateDer::from_pem_file(directory.join(FILES[0])) else { continue };
        match cloud.knows(&name, &certificate).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                // The node is refused until an administrator decides; the other nodes run.
                warn!(
                    node = name,
                    error = &error as &dyn std::error::Error,
                    "its certificate cannot be looked up"
                );
                continue;
            }
        }
        info!(node = name, "its certificate counts no more: it enrols anew");
        for file in FILES {
            let path = directory.join(file);
            match fs::remove_file(&path).await {
                Err(source) if source.kind() != ErrorKind::NotFound => {
                    return Err(Error::Directory { path, source });
                }
                _ => {}
            }
        }
    }
    Ok(())
}
