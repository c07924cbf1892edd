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

use parking_lot::RwLock;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::time::sleep;
use tracing::{info, warn};

use self::issue::IssueError;
use crate::{
    edgehub::{EdgeHub, Link},
    rt::{Backoff, renewal},
};

/// The waits after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// The shortest time between two certificates.
const SOONEST: Duration = Duration::from_secs(60 * 60);
/// How often the clock is checked, because it may be set or the machine may sleep.
const CHECK_INTERVAL: Duration = Duration::from_secs(600);

/// The certificate that is served now.
#[derive(Default)]
pub(super) struct Held(RwLock<Option<Arc<CertifiedKey>>>);

impl Held {
    fn serve(&self, certificate: Option<&Certificate>) {
        *self.0.write() = certificate.map(|certificate| Arc::clone(&certificate.key));
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Held {
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
pub(super) struct Keeper {
    node: String,
    addresses: Vec<IpAddr>,
    files: Files,
    hub: EdgeHub,
    held: Arc<Held>,
    current: Option<Certificate>,
}

/// The paths of the certificate and its key.
type Files = (PathBuf, PathBuf);

impl Keeper {
    /// Creates the manager for a server of `node` at `addresses`, with the certificate of the files if it is usable.
    pub(super) fn new(node: &str, addresses: Vec<IpAddr>, files: Files, hub: EdgeHub) -> Self {
        let node = node.to_owned();
        let mut keeper = Self { node, addresses, files, hub, held: Arc::default(), current: None };
        match keeper.load() {
            Ok(found) => {
                keeper.held.serve(found.as_ref());
                keeper.current = found;
            }
            Err(why) => {
                warn!(file = %keeper.files.0.display(), why, "MetaServer's certificate is of no use; another one is requested");
            }
        }
        keeper
    }

    /// Returns the certificate that is served.
    pub(super) fn held(&self) -> Arc<Held> {
        Arc::clone(&self.held)
    }

    /// Runs for ever.
    pub(super) async fn run(mut self) {
        loop {
            if let Some(certificate) = &self.current {
                let (begin, end) = certificate.validity;
                let due = renewal::due(begin, end, rand::random());
                while let Ok(left) = due.duration_since(SystemTime::now()) {
                    sleep(left.min(CHECK_INTERVAL)).await;
                }
            }
            let next = self.next().await;
            self.held.serve(Some(&next));
            // a certificate that has expired by this machine's clock is served all the same
            let (begin, end) = next.validity;
            let lifetime = end.duration_since(begin).unwrap_or_default();
            self.current = Some(next);
            sleep(SOONEST.min(lifetime / 2)).await;
        }
    }

    /// Waits for a new certificate.
    async fn next(&self) -> Certificate {
        let (mut link, mut backoff) = (self.hub.link(), Backoff::new(FIRST_WAIT, LONGEST_WAIT));
        loop {
            // fails when EdgeHub has ended, and with it this program
            if link.wait_for(|link| *link != Link::Down).await.is_err() {
                return std::future::pending().await;
            }
            match self.issue().await {
                Ok(certificate) => {
                    info!(file = %self.files.0.display(), "MetaServer has a certificate of the cloud");
                    return certificate;
                }
                Err(IssueError::Unreachable(_)) => {}
                Err(error) => {
                    warn!(error = &error as &dyn std::error::Error, "MetaServer has no new certificate yet");
                }
            }
            sleep(backoff.next(rand::random_range(0.5..1.0))).await;
        }
    }

    /// Requests a certificate and stores it.
    async fn issue(&self) -> Result<Certificate, IssueError> {
        let (pem, key_sec1) = issue::request(&self.hub, &self.node, &self.addresses).await?;
        let issued = files::read(&pem, files::key_of(key_sec1.clone())).map_err(IssueError::Useless)?;
        self.fits(&issued).map_err(IssueError::Useless)?;
        files::save(&self.files, &pem, &key_sec1)
            .map_err(|source| IssueError::Files { path: self.files.0.clone(), source })?;
        Ok(issued)
    }

    /// Reads the certificate of the files; `None` if there is none yet.
    fn load(&self) -> Result<Option<Certificate>, String> {
        let Some(found) = files::load(&self.files)? else { return Ok(None) };
        self.fits(&found)?;
        Ok(Some(found))
    }

    /// Checks that the certificate is for all addresses.
    fn fits(&self, certificate: &Certificate) -> Result<(), String> {
        let end_entity = certificate.key.cert.first().ok_or("there is no certificate in it")?;
        let (_, addresses) = wire::enroll::server_names_of(end_entity).map_err(|error| error.to_string())?;
        match self.addresses.iter().find(|wanted| !addresses.contains(wanted)) {
            None => Ok(()),
            Some(missing) => Err(format!("it is not for {missing}")),
        }
    }
}

#[cfg(test)]
mod tests;
