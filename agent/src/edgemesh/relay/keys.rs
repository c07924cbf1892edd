//! TLS 1.3 between two nodes. Both show the certificates that the cloud gave them, which are a client's; so the server's is verified as a client's
//! is, and for its node instead of a DNS name.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring::default_provider,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::{sync::Mutex, task::spawn_blocking};
use wire::{
    enroll::{Identity, identity_of},
    relay::INNER_ALPN,
};

use crate::{
    config::TlsFiles,
    rt::{
        now,
        tls_files::{self, TlsError},
    },
};

/// How old what was read of the files may get: EdgeHub renews certificates.
const FRESH: Duration = Duration::from_secs(60);

/// The certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoKeys {
    #[error(transparent)]
    Files(#[from] TlsError),
    #[error("the certificates of nodes cannot be used")]
    Tls(#[from] Error),
    #[error("the certificates of nodes cannot be used: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    #[error("the files cannot be read: {0}")]
    Ended(#[from] tokio::task::JoinError),
}

/// This node's certificate, and whom it trusts.
#[derive(Debug)]
struct Material {
    own: Arc<CertifiedKey>,
    nodes: Arc<dyn ClientCertVerifier>,
}

/// When they were read, and what was.
type Read = (Instant, Arc<Material>);

/// What the files have; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    files: TlsFiles,
    read: Arc<Mutex<Option<Read>>>,
}

impl Keys {
    pub(super) fn new(files: TlsFiles) -> Self {
        Self { files, read: Arc::default() }
    }

    /// TLS to the cloud.
    pub(super) async fn to_cloud(&self) -> Result<Arc<ClientConfig>, NoKeys> {
        let files = self.files.clone();
        Ok(spawn_blocking(move || tls_files::client_config(&files)).await??)
    }

    /// A client's TLS to this node, and to no other.
    pub(super) async fn to_node(&self, node: &str) -> Result<ClientConfig, NoKeys> {
        let material = self.material().await?;
        let verifier = OfNode { nodes: material.nodes.clone(), node: node.to_owned() };
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(material.own.clone())));
        config.alpn_protocols = vec![INNER_ALPN.to_vec()];
        // the relay need not see a name, and each connection shows anew who is there
        config.enable_sni = false;
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }

    /// A server's TLS for nodes of this cluster; which one it was, [`node_of`] says.
    pub(super) async fn for_nodes(&self) -> Result<ServerConfig, NoKeys> {
        let material = self.material().await?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(material.nodes.clone())
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(material.own.clone())));
        config.alpn_protocols = vec![INNER_ALPN.to_vec()];
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    async fn material(&self) -> Result<Arc<Material>, NoKeys> {
        let mut read = self.read.lock().await;
        if let Some((at, material)) = &*read
            && now().saturating_duration_since(*at) < FRESH
        {
            return Ok(material.clone());
        }
        let files = self.files.clone();
        let material = Arc::new(spawn_blocking(move || material(&files)).await??);
        *read = Some((now(), material.clone()));
        Ok(material)
    }
}

fn material(files: &TlsFiles) -> Result<Material, NoKeys> {
    let own = tls_files::read_all(files)?;
    let provider = Arc::new(default_provider());
    let certified = CertifiedKey::from_der(own.chain, own.key, &provider)?;
    let nodes = WebPkiClientVerifier::builder_with_provider(Arc::new(own.roots), provider).build()?;
    Ok(Material { own: Arc::new(certified), nodes })
}

/// The node that a certificate is of.
pub(super) fn node_of(certificates: Option<&[CertificateDer<'_>]>) -> Option<String> {
    match identity_of(certificates?.first()?) {
        Ok(Identity::Node(node)) => Some(node),
        _ => None,
    }
}

/// Verifies the certificate of a server that is this node.
#[derive(Debug)]
struct OfNode {
    nodes: Arc<dyn ClientCertVerifier>,
    node: String,
}

impl ServerCertVerifier for OfNode {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.nodes.verify_client_cert(certificate, intermediates, now)?;
        match identity_of(certificate) {
            Ok(Identity::Node(node)) if node == self.node => Ok(ServerCertVerified::assertion()),
            _ => Err(Error::InvalidCertificate(CertificateError::NotValidForName)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.nodes.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.nodes.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.nodes.supported_verify_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        None
    }
}
