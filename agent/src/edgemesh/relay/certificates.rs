//! TLS 1.3 between two nodes. Both show the certificates that the cloud has issued to them. Those are client certificates; so the
//! server's is verified as a client's is, and for the node's name instead of a DNS name.

use std::{sync::Arc, time::Duration};

use clock::Instant;
use rustls::{
    CertificateError as TlsCertificateError, ClientConfig, DigitallySignedStruct,
    DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring::default_provider,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::sync::Mutex;
use wire::{
    enroll::{Identity, identity_of},
    relay::INNER_ALPN,
};

use crate::{
    config::TlsFiles,
    tls::files::{self, TlsError},
};

/// How long the files' content is used before they are read again: EdgeHub renews certificates.
const MAX_AGE: Duration = Duration::from_secs(60);

/// Why the certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    #[error(transparent)]
    Files(#[from] TlsError),
    #[error("the certificates of nodes cannot be used")]
    Tls(#[from] Error),
    #[error("the certificates of nodes cannot be used: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    #[error("reading the certificate files was interrupted: {0}")]
    Ended(#[from] tokio::task::JoinError),
}

/// This node's certificate, and the verifier of other nodes' certificates.
#[derive(Debug)]
struct Loaded {
    own: Arc<CertifiedKey>,
    nodes: Arc<dyn ClientCertVerifier>,
}

/// When the files were read, and their content.
type Read = (Instant, Arc<Loaded>);

/// The certificates in the files; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Certificates {
    files: TlsFiles,
    read: Arc<Mutex<Option<Read>>>,
}

impl Certificates {
    pub(super) fn new(files: TlsFiles) -> Self {
        Self {
            files,
            read: Arc::default(),
        }
    }

    /// Builds the TLS configuration towards the cloud.
    pub(super) async fn to_cloud(&self) -> Result<Arc<ClientConfig>, CertificateError> {
        let files = self.files.clone();
        Ok(componentbase::spawn_blocking(move || files::client_config(&files)).await??)
    }

    /// Builds a client's TLS configuration that accepts this node and no other.
    pub(super) async fn to_node(&self, node: &str) -> Result<ClientConfig, CertificateError> {
        let loaded = self.load().await?;
        let verifier = NodeVerifier {
            nodes: loaded.nodes.clone(),
            node: node.to_owned(),
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(loaded.own.clone())));
        config.alpn_protocols = vec![INNER_ALPN.to_vec()];
        // the relay does not need to see a name, and each connection proves anew which node it is
        config.enable_sni = false;
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }

    /// Builds a server's TLS configuration that accepts every node of this cluster; [`node_of`] returns which one has connected.
    pub(super) async fn for_nodes(&self) -> Result<ServerConfig, CertificateError> {
        let loaded = self.load().await?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(loaded.nodes.clone())
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(loaded.own.clone())));
        config.alpn_protocols = vec![INNER_ALPN.to_vec()];
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    async fn load(&self) -> Result<Arc<Loaded>, CertificateError> {
        let mut read = self.read.lock().await;
        if let Some((at, loaded)) = &*read
            && clock::Instant::now().saturating_duration_since(*at) < MAX_AGE
        {
            return Ok(loaded.clone());
        }
        let files = self.files.clone();
        let loaded = Arc::new(componentbase::spawn_blocking(move || load(&files)).await??);
        *read = Some((clock::Instant::now(), loaded.clone()));
        Ok(loaded)
    }
}

fn load(files: &TlsFiles) -> Result<Loaded, CertificateError> {
    let own = files::read_all(files)?;
    let provider = Arc::new(default_provider());
    let certified = CertifiedKey::from_der(own.chain, own.key, &provider)?;
    let nodes =
        WebPkiClientVerifier::builder_with_provider(Arc::new(own.roots), provider).build()?;
    Ok(Loaded {
        own: Arc::new(certified),
        nodes,
    })
}

/// Returns the node that a certificate was issued to.
pub(super) fn node_of(certificates: Option<&[CertificateDer<'_>]>) -> Option<String> {
    match identity_of(certificates?.first()?) {
        Ok(Identity::Node(node)) => Some(node),
        _ => None,
    }
}

/// Verifies that a server's certificate is this node's.
#[derive(Debug)]
struct NodeVerifier {
    nodes: Arc<dyn ClientCertVerifier>,
    node: String,
}

impl ServerCertVerifier for NodeVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.nodes
            .verify_client_cert(certificate, intermediates, now)?;
        match identity_of(certificate) {
            Ok(Identity::Node(node)) if node == self.node => Ok(ServerCertVerified::assertion()),
            _ => Err(Error::InvalidCertificate(
                TlsCertificateError::NotValidForName,
            )),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.nodes
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.nodes
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.nodes.supported_verify_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        None
    }
}
