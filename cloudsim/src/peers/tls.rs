//! TLS between replicas.

use std::sync::Arc;

use kube::Client;
use rustls::{ClientConfig, RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer};

use crate::pki::{PkiError, ensure_replica_ca};

/// The DNS name in the certificates of replicas.
pub(crate) const NAME: &str = "replica.cloudsim";

/// The configurations of both ends. Each accepts only certificates of the replicas' CA, which signs no others.
pub(crate) struct PeerTls {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: ServerConfig,
}

impl PeerTls {
    /// Reads the CA that the replicas share, or makes it, and signs certificates for this replica.
    pub(crate) async fn ensure(client: &Client) -> Result<Self, PkiError> {
        let (ca, now) = (ensure_replica_ca(client).await?, clock::system_now());
        let pair = |(certificate, key): (Vec<u8>, Vec<u8>)| {
            (
                vec![CertificateDer::from(certificate)],
                PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key)),
            )
        };
        let bad = |error| PkiError::Tls(Box::new(error));
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from(ca.cert_der().to_vec());
        roots.add(root).map_err(bad)?;
        let roots = Arc::new(roots);
        let (chain, key) = pair(ca.sign_admin(now)?);
        let client = ClientConfig::builder()
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(chain, key);
        let verifier = WebPkiClientVerifier::builder(roots).build();
        let verifier = verifier.map_err(|error| PkiError::Tls(Box::new(error)))?;
        let (chain, key) = pair(ca.sign_server([NAME], now)?);
        let server = ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key);
        Ok(Self {
            client: Arc::new(client.map_err(bad)?),
            server: server.map_err(bad)?,
        })
    }
}
