//! Serves MetaServer at the address of the Service `default/kubernetes`, by whose name programs in pods find the API.
//!
//! No node gets a certificate of the cloud for that name: with it the node could pose as the API for the whole cluster. So each
//! node has its own CA for the name ([`InClusterCa`]), which can sign for the names of this Service only, and which only the
//! pods of this node get, in the `ca.crt` of their ConfigMap `kube-root-ca.crt`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nix::sys::socket::{setsockopt, sockopt::IpFreebind};
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateSec1KeyDer, pem::PemObject};
use tokio::{net::TcpSocket, sync::watch, time::sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};
use wire::enroll::{Ca, CertError, pem_certificate, pem_ec_private_key};

use super::{
    Server,
    service::ApiServer,
    tls::{TlsError, config_of_made},
};
use crate::file;

/// The Service's names without the cluster domain.
const SERVICE_NAMES: [&str; 3] = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"];
/// How long its servers' certificates are valid: as long as the agent runs, even where the clock was wrong at its start.
const CERT_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 60 * 60);
/// The most connections that wait to be accepted.
const LISTEN_BACKLOG: u32 = 1024;
/// The time between two attempts to listen.
const LISTEN_RETRY_DELAY: Duration = Duration::from_secs(10);

/// Why there is no CA.
#[derive(Debug, thiserror::Error)]
pub enum InClusterCaError {
    /// It cannot be generated, or the cluster domain is invalid in a certificate.
    #[error("cannot create this node's CA for the Service default/kubernetes")]
    Make(#[from] CertError),
    /// The files cannot be written.
    #[error("cannot write {path} or its key; check owner and free space of the directory")]
    Keep {
        /// The path of the certificate's file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// The node's own CA for the Service `default/kubernetes`.
#[derive(Debug)]
pub struct InClusterCa {
    ca: Ca,
    names: Vec<String>,
}

/// How MetaServer is served at the Service's address; cheap to clone.
#[derive(Clone, Debug)]
pub struct InCluster {
    /// The CA that signs the server's certificates.
    pub ca: Arc<InClusterCa>,
    /// The CA of clients, which is written with the node's own certificate.
    pub client_ca: PathBuf,
    /// The addresses to serve at, which are delivered to this machine.
    pub addresses: watch::Sender<BTreeSet<SocketAddr>>,
}

impl InClusterCa {
    /// Returns the CA in these files, certificate and key; if they have none for this cluster domain, a new one is generated
    /// and written.
    ///
    /// # Errors
    /// The CA cannot be generated or written.
    pub fn load_or_make(
        [cert, key]: &[PathBuf; 2],
        node: &str,
        domain: &str,
    ) -> Result<Self, InClusterCaError> {
        let mut names = SERVICE_NAMES.map(str::to_owned).to_vec();
        names.push(format!("{}.{domain}", SERVICE_NAMES[2]));
        if let Some(ca) = read(cert, key).filter(|ca| ca.servers().as_ref() == Some(&names)) {
            return Ok(Self { ca, names });
        }
        let ca = Ca::generate_for(
            &format!("API server as on {node}"),
            &names,
            clock::system_now(),
        )?;
        let written = file::replace(key, pem_ec_private_key(ca.key_sec1_der()).as_bytes(), 0o600)
            .and_then(|()| file::replace(cert, pem_certificate(ca.cert_der()).as_bytes(), 0o644));
        written.map_err(|source| InClusterCaError::Keep {
            path: cert.clone(),
            source,
        })?;
        info!(file = %cert.display(), "CA for the names of the Service default/kubernetes created, for this node's pods only");
        Ok(Self { ca, names })
    }

    /// Returns the CA's certificate as PEM.
    pub fn certificate(&self) -> String {
        pem_certificate(self.ca.cert_der())
    }

    /// Builds the TLS configuration for this address.
    fn tls(&self, client_ca: &Path, address: IpAddr) -> Result<ServerConfig, ServeError> {
        let names = self.names.iter().cloned().chain([address.to_string()]);
        let made = self
            .ca
            .sign_server_for(names, CERT_LIFETIME, clock::system_now())?;
        Ok(config_of_made(client_ca, made)?)
    }
}

/// Why the API is not served at an address of its Service.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("cannot create a certificate")]
    Certificate(#[from] CertError),
    #[error("cannot set up TLS")]
    Tls(#[from] TlsError),
    #[error("cannot listen on the address")]
    Listen(#[from] io::Error),
}

impl InCluster {
    /// Serves at the current addresses; never returns. All servers end when the future is dropped.
    pub(super) async fn serve(&self, api_server: &ApiServer, shutdown: &CancellationToken) {
        let mut addresses = self.addresses.subscribe();
        let mut open: BTreeMap<SocketAddr, DropGuard> = BTreeMap::new();
        loop {
            let wanted = addresses.borrow_and_update().clone();
            open.retain(|address, _| wanted.contains(address));
            let mut failed = false;
            for address in wanted {
                if open.contains_key(&address) {
                    continue;
                }
                match self.open(address, api_server) {
                    Ok(server) => {
                        info!(%address, "MetaServer listening at the address of the Service default/kubernetes");
                        let end = shutdown.child_token();
                        componentbase::spawn(server.run(end.clone()));
                        open.insert(address, end.drop_guard());
                    }
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        warn!(
                            %address,
                            error,
                            "cannot serve MetaServer at the address of the Service default/kubernetes"
                        );
                        failed = true;
                    }
                }
            }
            let again = async {
                if failed {
                    sleep(LISTEN_RETRY_DELAY).await
                } else {
                    std::future::pending().await
                }
            };
            clock::select! {
                // cancel-safe: the newest addresses are read in any case
                changed = addresses.changed() => if changed.is_err() { std::future::pending().await },
                () = again => {}
            }
        }
    }

    fn open(
        &self,
        address: SocketAddr,
        api_server: &ApiServer,
    ) -> Result<Server<ApiServer>, ServeError> {
        let tls = self.ca.tls(&self.client_ca, address.ip())?;
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        socket.set_reuseaddr(true)?;
        if address.is_ipv6() {
            // a route alone makes an IPv6 address one that accepts packets, but not one that a socket can be bound to
            setsockopt(&socket, IpFreebind, &true).map_err(io::Error::from)?;
        }
        socket.bind(address)?;
        Ok(Server::on(
            socket.listen(LISTEN_BACKLOG)?,
            tls,
            api_server.clone(),
        )?)
    }
}

/// Reads the CA from these files, if they have one.
fn read(cert: &Path, key: &Path) -> Option<Ca> {
    let cert = CertificateDer::from_pem_file(cert).ok()?;
    let key = PrivateSec1KeyDer::from_pem_file(key).ok()?;
    Ca::from_der(&cert, key.secret_sec1_der()).ok()
}

#[cfg(test)]
mod tests;
