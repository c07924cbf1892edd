//! Deferred verification: the first connection of a new node cannot know the CA yet, so the server's certificate is kept, and
//! the caller verifies it when the CA has arrived and matches the token. The step cannot be skipped: the fetched CA is of no
//! use to the caller before.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature,
        verify_tls13_signature,
    },
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// The certificates that the server presented.
#[derive(Clone, Debug)]
pub(super) struct PresentedCerts {
    pub(super) leaf: CertificateDer<'static>,
    pub(super) intermediates: Vec<CertificateDer<'static>>,
}

/// Keeps the server's certificates, and verifies that the server has the key (handshake signatures are verified as always).
#[derive(Debug)]
pub(super) struct DeferredVerifier {
    shown: Mutex<Option<PresentedCerts>>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Returns the TLS configuration of a client without a certificate, with this verifier.
pub(super) fn client_config(deferred: &Arc<DeferredVerifier>) -> ClientConfig {
    ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::<DeferredVerifier>::clone(deferred))
        .with_no_client_auth()
}

impl DeferredVerifier {
    pub(super) fn new() -> Arc<Self> {
        let algorithms = CryptoProvider::get_default().map_or_else(
            || ring::default_provider().signature_verification_algorithms,
            |provider| provider.signature_verification_algorithms,
        );
        Arc::new(Self {
            shown: Mutex::new(None),
            algorithms,
        })
    }

    /// Returns the certificates that the server presented.
    pub(super) fn presented_certificates(&self) -> Option<PresentedCerts> {
        self.shown.lock().clone()
    }
}

impl ServerCertVerifier for DeferredVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.shown.lock() = Some(PresentedCerts {
            leaf: end_entity.clone().into_owned(),
            intermediates: intermediates
                .iter()
                .map(|cert| cert.clone().into_owned())
                .collect(),
        });
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
