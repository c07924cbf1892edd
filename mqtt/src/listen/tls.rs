//! TLS of a listener, and the user name in a client's certificate.

use std::{path::Path, sync::Arc};

use rustls::{
    RootCertStore, ServerConfig, ServerConnection,
    crypto::ring::default_provider,
    server::{NoClientAuth, WebPkiClientVerifier},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio_rustls::TlsAcceptor;
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

use crate::{config::Tls, error::Error};

/// Creates the acceptor for `tls`. If there are client authorities, client certificates are required.
pub(super) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, Error> {
    let provider = Arc::new(default_provider());
    let failed = |source| Error::Tls {
        path: tls.certificates.clone(),
        source,
    };
    let verifier = match &tls.client_authorities {
        None => Arc::new(NoClientAuth) as Arc<dyn rustls::server::danger::ClientCertVerifier>,
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(failed)?;
            }
            let builder =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
            builder.build().map_err(|source| Error::Authorities {
                path: path.clone(),
                source,
            })?
        }
    };
    let key = PrivateKeyDer::from_pem_file(&tls.key);
    let key = key.map_err(|source| Error::Pem {
        what: "a private key",
        path: tls.key.clone(),
        source,
    })?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&tls.certificates)?, key)
        .map_err(failed)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let failed = |source| Error::Pem {
        what: "certificates",
        path: path.to_owned(),
        source,
    };
    CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)
}

/// Returns the common name of the client's certificate, which the handshake has verified.
pub(super) fn common_name(connection: &ServerConnection) -> Option<Arc<str>> {
    let first = connection.peer_certificates()?.first()?;
    let (_, certificate) = X509Certificate::from_der(first).ok()?;
    let name = certificate
        .subject()
        .iter_common_name()
        .next()?
        .as_str()
        .ok()?
        .into();
    Some(name)
}
