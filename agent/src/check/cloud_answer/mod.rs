//! The answers of the cloud's HTTPS servers, from which several checks are made.

use std::{
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use futures::future::join_all;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use tokio::time::timeout;
use wire::text::with_causes;

use crate::{
    app,
    config::{Config, HostPort},
    edgehub::{self, EnrollError, ServerAnswer},
    tls::files::pem_fault,
};

/// How long a server of the cloud may take; a longer silence means that packets are dropped.
pub(crate) const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// The answer of one server.
#[derive(Debug)]
pub(crate) struct CloudAnswer {
    /// The server.
    pub(crate) server: HostPort,
    /// Its answer, or why there is none.
    pub(crate) answer: io::Result<ServerAnswer>,
    /// This machine's time in the middle of the request.
    pub(crate) local: SystemTime,
}

/// Asks all HTTPS servers. Without a CA (DER), the answers say so.
pub(crate) async fn request_all(config: &Config, ca: &Result<Vec<u8>, String>) -> Vec<CloudAnswer> {
    let servers = &config.edge_hub.http_servers;
    join_all(servers.iter().map(|server| request(config, server, ca))).await
}

async fn request(config: &Config, server: &HostPort, ca: &Result<Vec<u8>, String>) -> CloudAnswer {
    let begun = clock::system_now();
    let asked = async {
        let ca = ca.as_ref().map_err(|why| io::Error::other(why.clone()))?;
        let hub = app::hub_config(config).map_err(|error| io::Error::other(with_causes(&error)))?;
        let asked = edgehub::request_time(&hub, server, ca);
        match timeout(SERVER_TIMEOUT, asked).await {
            Ok(answer) => answer.map_err(to_io_error),
            Err(_) => Err(no_answer()),
        }
    };
    let answer = asked.await;
    let took = begun.elapsed().unwrap_or_default();
    CloudAnswer {
        server: server.clone(),
        answer,
        local: begun + took / 2,
    }
}

/// Returns the error of a server that has not answered within [`SERVER_TIMEOUT`].
pub(crate) fn no_answer() -> io::Error {
    let text = format!("no answer within {} s", SERVER_TIMEOUT.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// Returns the cause of an error, without the text that names the server again.
fn to_io_error(error: EnrollError) -> io::Error {
    match error {
        EnrollError::Unreachable { source, .. } => match source.downcast() {
            Ok(error) => *error,
            Err(other) => io::Error::other(with_causes(&*other)),
        },
        other => io::Error::other(with_causes(&other)),
    }
}

/// Reads the cloud's CA, DER.
pub(crate) fn read_ca(path: &Path) -> Result<Vec<u8>, String> {
    /// The largest file that is read, bytes.
    const MAX_BYTES: u64 = 256 * 1024;
    let failed = |error: String| format!("cannot read the CA {}: {error}", path.display());
    let text =
        limits::read_regular_file(path, MAX_BYTES).map_err(|error| failed(error.to_string()))?;
    let ca = CertificateDer::from_pem_slice(&text).map_err(|fault| failed(pem_fault(&fault)))?;
    Ok(ca.to_vec())
}

#[cfg(test)]
mod tests;
