//! The CA of the API server's client certificates: in a file or in the cluster, and read again while the cloud runs, since it is rotated.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use kubeapi::serve::ALPN;
use limits::read_regular_file;
use parking_lot::RwLock;
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::pki::ServerIdentity;

/// The largest file with the CA's certificates, in bytes.
const MAX_CA_BYTES: u64 = 1024 * 1024;
/// How often the CA is read again.
const READ_INTERVAL: Duration = Duration::from_secs(10);
/// How long reading it may take.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// Namespace and name of the ConfigMap with the CAs.
const CLUSTER_CA: [&str; 2] = ["kube-system", "extension-apiserver-authentication"];
/// Its key with the names of front proxies, a list in JSON.
const PROXY_NAMES_KEY: &str = "requestheader-allowed-names";

/// Where the CA of the API server's client certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCa {
    /// In a file, PEM.
    File(PathBuf),
    /// In the cluster: ConfigMap `extension-apiserver-authentication` of namespace kube-system, which every API server publishes.
    /// Source: <https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/>.
    Cluster,
    /// In the same ConfigMap: that of the certificates with which API servers forward requests to other API servers.
    FrontProxy,
}

/// The CA of clients cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientCaError {
    /// The file cannot be read.
    #[error(
        "cannot read the certificate of --stream-client-ca {path}; name a PEM file that this user may read"
    )]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The cluster's ConfigMap cannot be read.
    #[error(
        "cannot read the ConfigMap kube-system/extension-apiserver-authentication with the CA of the API server's clients; name the CA with --stream-client-ca"
    )]
    Cluster(#[source] kube::Error),
    /// There is no certificate.
    #[error("{place} contains no CA certificate: {why}")]
    Certificate {
        /// Where it was expected.
        place: String,
        /// The reason.
        why: String,
    },
    /// The cluster does not answer.
    #[error("the cluster did not return the CA of the API server's clients in time")]
    Timeout,
}

/// A CA, PEM, and the common names of its clients that are accepted; if there are none, any.
type Authority = (Vec<u8>, Arc<[String]>);

impl ClientCa {
    /// Reads the certificates and names.
    async fn read(&self, client: &Client) -> Result<Authority, ClientCaError> {
        let Some(key) = self.key() else {
            return self.read_file();
        };
        let [namespace, name] = CLUSTER_CA;
        let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
        let found = timeout(READ_TIMEOUT, maps.get(name)).await;
        let found = found.map_err(|_| ClientCaError::Timeout)?;
        let mut data = found
            .map_err(ClientCaError::Cluster)?
            .data
            .unwrap_or_default();
        let text = data.remove(key).unwrap_or_default();
        let mut names = Vec::new();
        if matches!(self, Self::FrontProxy)
            && let Some(listed) = data.get(PROXY_NAMES_KEY)
        {
            names = serde_json::from_str(listed).map_err(|error| ClientCaError::Certificate {
                place: self.place(),
                why: format!("{PROXY_NAMES_KEY}: {error}"),
            })?;
        }
        Ok((text.into_bytes(), names.into()))
    }

    fn read_file(&self) -> Result<Authority, ClientCaError> {
        let Self::File(path) = self else {
            return Ok((Vec::new(), Arc::default()));
        };
        let text = read_regular_file(path, MAX_CA_BYTES);
        let text = text.map_err(|source| ClientCaError::File {
            path: path.clone(),
            source,
        })?;
        Ok((text, Arc::default()))
    }

    /// Returns its key in the ConfigMap; `None` if it is in a file.
    fn key(&self) -> Option<&'static str> {
        match self {
            Self::File(_) => None,
            Self::Cluster => Some("client-ca-file"),
            Self::FrontProxy => Some("requestheader-client-ca-file"),
        }
    }

    /// Returns its place, for people.
    fn place(&self) -> String {
        let [namespace, name] = CLUSTER_CA;
        match (self, self.key()) {
            (Self::File(path), _) => format!("--stream-client-ca {}", path.display()),
            (_, key) => {
                let key = key.unwrap_or_default();
                format!("key {key} of the ConfigMap {namespace}/{name}")
            }
        }
    }
}

/// The TLS of a server whose clients have certificates of a CA that may change.
pub(crate) struct ClientTrust {
    ca: ClientCa,
    client: Client,
    identity: ServerIdentity,
    /// The certificates in force, PEM.
    text: Vec<u8>,
    config: Arc<RwLock<Arc<ServerConfig>>>,
    names: Arc<RwLock<Arc<[String]>>>,
}

impl ClientTrust {
    /// Reads the CA. The server shows this cloud's certificate. Clients without a certificate are accepted except for front proxies, and
    /// have to show a token.
    pub(crate) async fn read(
        ca: &ClientCa,
        client: &Client,
        identity: &ServerIdentity,
    ) -> Result<Self, ClientCaError> {
        let (text, names) = ca.read(client).await?;
        let config = config(ca, &text, identity)?;
        Ok(Self {
            ca: ca.clone(),
            client: client.clone(),
            identity: identity.clone_key(),
            text,
            config: Arc::new(RwLock::new(Arc::new(config))),
            names: Arc::new(RwLock::new(names)),
        })
    }

    /// Returns the common names that clients may have; if there are none, any.
    pub(crate) fn names(&self) -> impl Fn() -> Arc<[String]> + Send + Sync + 'static {
        let names = self.names.clone();
        move || names.read().clone()
    }

    /// Returns the configuration for new connections.
    pub(crate) fn current(&self) -> impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static {
        let config = self.config.clone();
        move || config.read().clone()
    }

    /// Follows changes of the CA until `stop`. While it cannot be read, the last one stays in force.
    pub(crate) async fn follow(mut self, stop: CancellationToken) {
        // cancel-safe: what is not read here is read after a restart
        while stop
            .run_until_cancelled(sleep(READ_INTERVAL))
            .await
            .is_some()
        {
            if let Some(Err(error)) = stop.run_until_cancelled(self.refresh()).await {
                let error = &error as &dyn std::error::Error;
                warn!(
                    error,
                    "failed to read the CA of the API server's client certificate; the last one stays in force"
                );
            }
        }
    }

    async fn refresh(&mut self) -> Result<(), ClientCaError> {
        let (text, names) = self.ca.read(&self.client).await?;
        *self.names.write() = names;
        if text == self.text {
            return Ok(());
        }
        let config = config(&self.ca, &text, &self.identity)?;
        *self.config.write() = Arc::new(config);
        self.text = text;
        info!(
            place = self.ca.place(),
            "CA of the API server's client certificate changed"
        );
        Ok(())
    }
}

fn config(
    ca: &ClientCa,
    text: &[u8],
    identity: &ServerIdentity,
) -> Result<ServerConfig, ClientCaError> {
    let bad = |why: String| ClientCaError::Certificate {
        place: ca.place(),
        why,
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| bad(error.to_string()))?;
    }
    let mut verifier = WebPkiClientVerifier::builder(Arc::new(roots));
    if !matches!(ca, ClientCa::FrontProxy) {
        verifier = verifier.allow_unauthenticated();
    }
    let verifier = verifier.build().map_err(|error| bad(error.to_string()))?;
    let config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![identity.cert.clone()], identity.key.clone_key());
    let mut config = config.map_err(|error| bad(error.to_string()))?;
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}
