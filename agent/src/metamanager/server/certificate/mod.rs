//! Manages MetaServer's own certificate where none is configured: requested from the cloud, stored in files, renewed in time.
//!
//! In: the connection to the cloud. Out: the certificate for TLS handshakes ([`CurrentCertificate`]); until there is one,
//! handshakes fail. A stored certificate is served without the cloud, too.
//!
//! Source: EdgeCore's MetaServer, which has the kubelet's certificate manager do this.

mod files;
mod issue;

use std::{
    fmt,
    net::IpAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use componentbase::{Backoff, Link};
use parking_lot::RwLock;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::time::sleep;
use tracing::{info, warn};

use self::issue::IssueError;
use crate::{edgehub::EdgeHub, tls::renewal};

/// The waits after a failure.
const INITIAL_BACKOFF: Duration = Duration::from_secs(2);
const MAX_BACKOFF: Duration = Duration::from_secs(300);
/// The shortest time between two certificates.
const MIN_RENEWAL_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// How often the clock is checked, because it may be set or the machine may sleep.
const CHECK_INTERVAL: Duration = Duration::from_secs(600);

/// The certificate that is served now.
#[derive(Default)]
pub(super) struct CurrentCertificate(RwLock<Option<Arc<CertifiedKey>>>);

impl CurrentCertificate {
    fn serve(&self, certificate: Option<&Certificate>) {
        *self.0.write() = certificate.map(|certificate| Arc::clone(&certificate.key));
    }
}

impl fmt::Debug for CurrentCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

/// A certificate with its key and its validity period.
#[derive(Debug)]
struct Certificate {
    key: Arc<CertifiedKey>,
    validity: (SystemTime, SystemTime),
}

/// Manages the certificate.
#[derive(Debug)]
pub(super) struct CertificateManager {
    node: String,
    addresses: Vec<IpAddr>,
    files: Files,
    hub: EdgeHub,
    served: Arc<CurrentCertificate>,
    current: Option<Certificate>,
}

/// The paths of the certificate and its key.
type Files = (PathBuf, PathBuf);

impl CertificateManager {
    /// Creates the manager for a server of `node` at `addresses`, with the certificate of the files if it is usable.
    pub(super) fn new(node: &str, addresses: Vec<IpAddr>, files: Files, hub: EdgeHub) -> Self {
        let node = node.to_owned();
        let mut manager = Self {
            node,
            addresses,
            files,
            hub,
            served: Arc::default(),
            current: None,
        };
        match manager.load() {
            Ok(found) => {
                manager.served.serve(found.as_ref());
                manager.current = found;
            }
            Err(why) => {
                warn!(
                    file = %manager.files.0.display(),
                    error = why,
                    "cannot use MetaServer's certificate; requesting a new certificate"
                );
            }
        }
        manager
    }

    /// Returns the certificate that is served.
    pub(super) fn current_certificate(&self) -> Arc<CurrentCertificate> {
        Arc::clone(&self.served)
    }

    /// Runs for ever.
    pub(super) async fn run(mut self) {
        loop {
            if let Some(certificate) = &self.current {
                let (begin, end) = certificate.validity;
                let due = renewal::due(begin, end, clock::rng().random());
                while let Ok(left) = due.duration_since(clock::system_now()) {
                    sleep(left.min(CHECK_INTERVAL)).await;
                }
            }
            let next = self.next().await;
            self.served.serve(Some(&next));
            // a certificate that has expired by this machine's clock is served all the same
            let (begin, end) = next.validity;
            let lifetime = end.duration_since(begin).unwrap_or_default();
            self.current = Some(next);
            sleep(MIN_RENEWAL_INTERVAL.min(lifetime / 2)).await;
        }
    }

    /// Waits for a new certificate.
    async fn next(&self) -> Certificate {
        let (mut link, mut backoff) = (self.hub.link(), Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF));
        loop {
            // fails when EdgeHub has ended, and with it this program
            if link.wait_for(|link| *link != Link::Down).await.is_err() {
                return std::future::pending().await;
            }
            match self.issue().await {
                Ok(certificate) => {
                    info!(file = %self.files.0.display(), "certificate for MetaServer issued by the cloud");
                    return certificate;
                }
                Err(IssueError::Unreachable(_)) => {}
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to get a certificate for MetaServer; retrying"
                    );
                }
            }
            sleep(backoff.next(clock::rng().random_range(0.5..1.0))).await;
        }
    }

    /// Requests a certificate and stores it.
    async fn issue(&self) -> Result<Certificate, IssueError> {
        let (pem, key_sec1) = issue::request(&self.hub, &self.node, &self.addresses).await?;
        let issued =
            files::parse(&pem, files::key_of(key_sec1.clone())).map_err(IssueError::Unusable)?;
        self.check_addresses(&issued)
            .map_err(IssueError::Unusable)?;
        files::save(&self.files, &pem, &key_sec1).map_err(|source| IssueError::Files {
            path: self.files.0.clone(),
            source,
        })?;
        Ok(issued)
    }

    /// Reads the certificate of the files; `None` if there is none yet.
    fn load(&self) -> Result<Option<Certificate>, String> {
        let Some(found) = files::load(&self.files)? else {
            return Ok(None);
        };
        self.check_addresses(&found)?;
        Ok(Some(found))
    }

    /// Checks that the certificate is for all addresses.
    fn check_addresses(&self, certificate: &Certificate) -> Result<(), String> {
        let end_entity = certificate
            .key
            .cert
            .first()
            .ok_or("there is no certificate in it")?;
        let (_, addresses) =
            wire::enroll::server_names_of(end_entity).map_err(|error| error.to_string())?;
        match self
            .addresses
            .iter()
            .find(|wanted| !addresses.contains(wanted))
        {
            None => Ok(()),
            Some(missing) => Err(format!("it is not for {missing}")),
        }
    }
}

#[cfg(test)]
mod tests;
