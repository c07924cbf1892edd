//! TLS to pods. Their certificates are not verified, as by the real server: a pod is reached by its node and port, and its certificate
//! names what it serves.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring::default_provider, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// As of the real server's transport.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Speaks TLS on a connection to a pod; why not, in words.
pub(super) async fn connect<T>(stream: T) -> Result<TlsStream<T>, String>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    // an address: no name is sent
    let name = ServerName::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let connecting = connector()?.connect(name, stream);
    let connected = timeout(HANDSHAKE, connecting).await;
    let connected = connected.map_err(|_| format!("no TLS handshake within {} s", HANDSHAKE.as_secs()))?;
    connected.map_err(|error| format!("TLS: {error}"))
}

fn connector() -> Result<TlsConnector, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CONFIG.get_or_init(config).clone().map(TlsConnector::from)
}

fn config() -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyPod(provider)))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Takes every certificate whose key the server has.
#[derive(Debug)]
struct AnyPod(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyPod {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
