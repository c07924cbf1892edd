//! Certificates, and the TLS that they give.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore, ServerConfig, server::WebPkiClientVerifier,
    server::danger::ClientCertVerifier,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer};

use crate::Failure;

/// A certificate and its key.
#[derive(Clone)]
pub struct Identity {
    /// DER.
    pub certificate: Vec<u8>,
    /// SEC1 DER.
    pub key: Vec<u8>,
}

impl Identity {
    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(self.key.clone()))
    }

    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from(self.certificate.clone())]
    }
}

fn roots(ca: &[u8]) -> Result<RootCertStore, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(ca.to_vec()))?;
    Ok(roots)
}

/// Returns the TLS of a client that trusts `ca` (DER), with or without a certificate.
///
/// # Errors
/// The CA or the key cannot be used.
pub fn client_tls(ca: &[u8], identity: Option<&Identity>) -> Result<ClientConfig, Failure> {
    let builder = ClientConfig::builder().with_root_certificates(roots(ca)?);
    Ok(match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder.with_client_auth_cert(identity.chain(), identity.key())?,
    })
}

/// Returns the TLS of a server whose clients must have, or may have, a certificate of `ca` (DER).
///
/// # Errors
/// The CA or the key cannot be used.
pub fn server_tls(
    ca: &[u8],
    identity: &Identity,
    must: bool,
) -> Result<Arc<ServerConfig>, Failure> {
    let builder = WebPkiClientVerifier::builder(Arc::new(roots(ca)?));
    let verifier: Arc<dyn ClientCertVerifier> = if must {
        builder.build()?
    } else {
        builder.allow_unauthenticated().build()?
    };
    let config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain(), identity.key())?;
    Ok(Arc::new(config))
}
