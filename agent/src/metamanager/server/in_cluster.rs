//! MetaServer at the address of the Service `default/kubernetes`, by whose name programs in pods look for the API.
//!
//! No node gets a certificate of the cloud for that name: with it the node could be the API for the whole cluster. So each node has an
//! authority of its own for it ([`InClusterCa`]), which can sign for the names of this Service alone and which the pods of this node alone
//! are told of, in the `ca.crt` of their ConfigMap `kube-root-ca.crt`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
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
use crate::rt::file;

/// The Service's names, before the cluster domain.
const NAMES: [&str; 3] = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"];
/// How long its servers' certificates are good for: as long as the agent runs, whatever the clock was at its start.
const LIFETIME: Duration = Duration::from_secs(3650 * 24 * 60 * 60);
/// Connections that wait to be taken.
const BACKLOG: u32 = 1024;
/// Between two tries to listen.
const RETRY: Duration = Duration::from_secs(10);

/// Why there is no such authority.
#[derive(Debug, thiserror::Error)]
pub enum InClusterCaError {
    /// No key, or a domain that no certificate can have.
    #[error("the node's authority for the Service default/kubernetes cannot be made")]
    Make(#[from] CertError),
    /// It cannot be kept.
    #[error("{path} or its key cannot be written; check owner and free space of the directory")]
    Keep {
        /// The certificate's file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// The node's own authority for the Service `default/kubernetes`.
#[derive(Debug)]
pub struct InClusterCa {
    ca: Ca,
    names: Vec<String>,
}

/// How MetaServer is served at the Service's address; cheap to clone.
#[derive(Clone, Debug)]
pub struct InCluster {
    /// Who signs.
    pub ca: Arc<InClusterCa>,
    /// The CA of clients, which comes with the node's own certificate.
    pub client_ca: PathBuf,
    /// Where it is served: addresses that are delivered to this machine.
    pub addresses: watch::Sender<BTreeSet<SocketAddr>>,
}

impl InClusterCa {
    /// The authority that these files hold, certificate and key; where they hold none for this cluster domain, a new one is written.
    ///
    /// # Errors
    /// It cannot be made or kept.
    pub fn load_or_make(
        [cert, key]: &[PathBuf; 2],
        node: &str,
        domain: &str,
    ) -> Result<Self, InClusterCaError> {
        let mut names = NAMES.map(str::to_owned).to_vec();
        names.push(format!("{}.{domain}", NAMES[2]));
        if let Some(ca) = read(cert, key).filter(|ca| ca.servers().as_ref() == Some(&names)) {
            return Ok(Self { ca, names });
        }
        let ca = Ca::generate_for(&format!("API server as on {node}"), &names, SystemTime::now())?;
        let written = file::replace(key, pem_ec_private_key(ca.key_sec1_der()).as_bytes(), 0o600)
            .and_then(|()| file::replace(cert, pem_certificate(ca.cert_der()).as_bytes(), 0o644));
        written.map_err(|source| InClusterCaError::Keep { path: cert.clone(), source })?;
        info!(file = %cert.display(), "this node has an authority for the names of the Service default/kubernetes, for its own pods");
        Ok(Self { ca, names })
    }

    /// Its certificate, PEM.
    pub fn certificate(&self) -> String {
        pem_certificate(self.ca.cert_der())
    }

    /// How the API is served at this address.
    fn tls(&self, client_ca: &Path, address: IpAddr) -> Result<ServerConfig, ServeError> {
        let names = self.names.iter().cloned().chain([address.to_string()]);
        let made = self.ca.sign_server_for(names, LIFETIME, SystemTime::now())?;
        Ok(config_of_made(client_ca, made)?)
    }
}

/// Why the API is not served at the address of its Service.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("no certificate could be made")]
    Certificate(#[from] CertError),
    #[error("there is no TLS")]
    Tls(#[from] TlsError),
    #[error("the address cannot be listened at")]
    Listen(#[from] io::Error),
}

impl InCluster {
    /// Serves at the addresses that there are at the time; never ends. What is served ends when this is dropped.
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
                        info!(%address, "MetaServer serves the Kubernetes API at the address of its Service");
                        let end = shutdown.child_token();
                        tokio::spawn(server.run(end.clone()));
                        open.insert(address, end.drop_guard());
                    }
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        warn!(%address, error, "pods do not reach MetaServer at the address of the Service default/kubernetes");
                        failed = true;
                    }
                }
            }
            let again = async { if failed { sleep(RETRY).await } else { std::future::pending().await } };
            tokio::select! {
                // cancel-safe, both: the newest addresses are read in any case
                changed = addresses.changed() => if changed.is_err() { std::future::pending().await },
                () = again => {}
            }
        }
    }

    fn open(&self, address: SocketAddr, api_server: &ApiServer) -> Result<Server<ApiServer>, ServeError> {
        let tls = self.ca.tls(&self.client_ca, address.ip())?;
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        if address.is_ipv6() {
            // a route alone makes an address of IPv6 one to which a packet may come, and none to which a socket may be bound
            setsockopt(&socket, IpFreebind, &true).map_err(io::Error::from)?;
        }
        socket.bind(address)?;
        Ok(Server::on(socket.listen(BACKLOG)?, tls, api_server.clone())?)
    }
}

/// The authority in these files, if they hold one.
fn read(cert: &Path, key: &Path) -> Option<Ca> {
    let cert = CertificateDer::from_pem_file(cert).ok()?;
    let key = PrivateSec1KeyDer::from_pem_file(key).ok()?;
    Ca::from_der(&cert, key.secret_sec1_der()).ok()
}

#[cfg(test)]
#[path = "in_cluster/tests.rs"]
mod tests;
