//! The way to another API server: TLS, its certificate always verified, with the client certificate of this API.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use kubeapi::NodeIo;
use tokio::time::timeout;

use crate::admission::webhook::transport::{ClientCertificate, connect_tls};

/// How long a connection and its handshake may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The client certificate with which the API identifies itself to servers that it forwards requests to; set after the API is built.
/// Cheap to clone.
#[derive(Clone, Default)]
pub struct FrontProxy(Arc<OnceLock<ClientCertificate>>);

impl FrontProxy {
    /// Sets the certificate, DER, and its key, SEC1 DER. Only the first call has an effect.
    pub fn set(&self, certificate: Vec<u8>, key: Vec<u8>) {
        self.0
            .get_or_init(|| ClientCertificate { certificate, key });
    }
}

impl fmt::Debug for FrontProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontProxy").finish_non_exhaustive()
    }
}

/// The address of another API server.
#[derive(Clone, Debug)]
pub struct RemoteTarget {
    /// Its name, which its certificate must have: `<service>.<namespace>.svc`.
    pub host: String,
    /// The port of the service.
    pub port: u16,
    /// The addresses of the service's endpoints.
    pub addresses: Vec<SocketAddr>,
    /// The certificates that sign its own, as PEM; without any, those that the system trusts.
    pub ca_bundle: Option<Bytes>,
}

/// Opens connections to other API servers.
#[async_trait]
pub trait RemoteTransport: Send + Sync + fmt::Debug + 'static {
    /// Opens a connection, over which HTTP/1.1 is spoken.
    ///
    /// # Errors
    /// Why there is none, as text for the client.
    async fn connect(&self, target: RemoteTarget) -> Result<Box<dyn NodeIo>, String>;
}

/// Connects with TLS.
#[derive(Debug, Default)]
pub(crate) struct TlsTransport {
    /// How the API identifies itself.
    pub(crate) front_proxy: FrontProxy,
}

#[async_trait]
impl RemoteTransport for TlsTransport {
    async fn connect(&self, target: RemoteTarget) -> Result<Box<dyn NodeIo>, String> {
        let connecting = connect_tls(
            &target.host,
            &target.addresses,
            target.ca_bundle.as_deref(),
            self.front_proxy.0.get(),
        );
        let stream = timeout(CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()))??;
        Ok(Box::new(stream))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    };
    use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
    use rustls_pki_types::PrivateKeyDer;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// Returns the SEC1 key at the end of its PKCS #8 form.
    fn sec1(key: &KeyPair) -> Vec<u8> {
        let der = key.serialize_der();
        let start = der.windows(2).position(|two| two == [0x04, 0x6d]).unwrap();
        der[start + 2..].to_vec()
    }

    #[tokio::test]
    async fn the_other_server_sees_the_certificate_of_the_front_proxy() {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let client_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client = params.signed_by(&client_key, &issuer).unwrap();

        let server_key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["fish.default.svc".to_owned()]).unwrap();
        let server = params.self_signed(&server_key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(ca.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![server.der().clone()],
                PrivateKeyDer::try_from(server_key.serialize_der()).unwrap(),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();

        let front_proxy = FrontProxy::default();
        let transport = TlsTransport {
            front_proxy: front_proxy.clone(),
        };
        let target = RemoteTarget {
            host: "fish.default.svc".into(),
            port: 443,
            addresses: vec![listener.local_addr().unwrap()],
            ca_bundle: Some(server.pem().into()),
        };
        let connect = async || {
            let accepting = async {
                let (stream, _) = listener.accept().await.unwrap();
                acceptor.accept(stream).await
            };
            let (accepted, connected) = tokio::join!(accepting, transport.connect(target.clone()));
            connected.unwrap();
            let shown = accepted.ok()?.get_ref().1.peer_certificates()?.to_vec();
            Some(shown.first()?.to_vec())
        };
        assert_eq!(connect().await, None);
        front_proxy.set(client.der().to_vec(), sec1(&client_key));
        assert_eq!(connect().await, Some(client.der().to_vec()));
    }
}
