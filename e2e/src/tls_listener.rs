//! A port for TLS with a CA of its own, for servers that a test runs.

use std::{sync::Arc, time::SystemTime};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer, pem::PemObject},
    server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use wire::enroll::{Ca, pem_certificate};

/// A listener on 127.0.0.1, and what its connections need.
pub struct TlsListener {
    /// Accepts TCP connections.
    pub listener: TcpListener,
    /// Makes TLS connections of them.
    pub acceptor: TlsAcceptor,
    /// Its port.
    pub port: u16,
    /// The CA of its certificate, PEM.
    pub ca: String,
}

impl TlsListener {
    /// Listens on a free port, with a certificate for these names. With `clients`, a CA in PEM, it lets only those in whose certificates
    /// are issued by it.
    ///
    /// # Errors
    /// Returns an error if `clients` is no certificate, or no port is free.
    pub async fn bind(names: &[&str], clients: Option<&[u8]>) -> anyhow::Result<Self> {
        let now = SystemTime::now();
        let ca = Ca::generate(now)?;
        let (certificate, key) = ca.sign_server(names.iter().copied(), now)?;
        let verifier: Arc<dyn ClientCertVerifier> = match clients {
            None => Arc::new(NoClientAuth),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(pem)?)?;
                WebPkiClientVerifier::builder(Arc::new(roots)).build()?
            }
        };
        let config = ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![certificate.into()],
                PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key)),
            )?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        Ok(Self {
            port: listener.local_addr()?.port(),
            listener,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            ca: pem_certificate(ca.cert_der()),
        })
    }
}
