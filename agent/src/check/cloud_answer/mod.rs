//! The answers of the cloud's HTTPS servers, from which several checks are made.

use std::{
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
    pub(crate) answer: Result<ServerAnswer, String>,
    /// This machine's time in the middle of the request.
    pub(crate) local: SystemTime,
}

/// Asks all HTTPS servers. Without a CA there is no node to check; the answer then says so.
pub(crate) async fn request_all(config: &Config) -> Vec<CloudAnswer> {
    let ca = read_ca(&config.edge_hub.tls.ca);
    let servers = &config.edge_hub.http_servers;
    join_all(servers.iter().map(|server| request(config, server, &ca))).await
}

async fn request(config: &Config, server: &HostPort, ca: &Result<Vec<u8>, String>) -> CloudAnswer {
    let begun = SystemTime::now();
    let asked = async {
        let ca = ca.as_ref().map_err(Clone::clone)?;
        let hub = app::hub_config(config).map_err(|error| with_causes(&error))?;
        let asked = edgehub::request_time(&hub, server, ca);
        match timeout(SERVER_TIMEOUT, asked).await {
            Ok(answer) => answer.map_err(|error| describe(&error)),
            Err(_) => Err(format!("no answer within {} s", SERVER_TIMEOUT.as_secs())),
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

/// Returns the cause of an error, without the text that names the server again.
fn describe(error: &EnrollError) -> String {
    match error {
        EnrollError::Unreachable { source, .. } => with_causes(&**source),
        other => with_causes(other),
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
