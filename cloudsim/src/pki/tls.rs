//! What the cloud's three servers demand of TLS.

use std::{net::IpAddr, sync::Arc, time::Duration};

use rustls::{
    RootCertStore, ServerConfig,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{PkiError, ServerIdentity, grace::Lenient};

/// The hub: a node without certificate of this CA gets no connection.
pub fn hub_tls(identity: &ServerIdentity) -> Result<ServerConfig, PkiError> {
    config(identity, verifier(identity, false)?)
}

/// The API: a client certificate says who calls; without one only the public paths answer.
pub fn api_tls(identity: &ServerIdentity) -> Result<ServerConfig, PkiError> {
    config(identity, verifier(identity, true)?)
}

/// Enrolment: a node that renews its certificate shows the old one, a new node has none. A certificate that expired not longer
/// than `grace` ago is still good for that.
pub fn enrolment_tls(identity: &ServerIdentity, grace: Duration) -> Result<ServerConfig, PkiError> {
    let verifier = verifier(identity, true)?;
    config(identity, if grace.is_zero() { verifier } else { Arc::new(Lenient::new(verifier, grace)) })
}

fn verifier(identity: &ServerIdentity, anonymous: bool) -> Result<Arc<dyn ClientCertVerifier>, PkiError> {
    let mut roots = RootCertStore::empty();
    roots.add(identity.ca.clone()).map_err(|error| PkiError::Tls(Box::new(error)))?;
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
    let verifier = if anonymous { verifier.allow_unauthenticated() } else { verifier };
    verifier.build().map_err(|error| PkiError::Tls(Box::new(error)))
}

fn config(
    identity: &ServerIdentity,
    verifier: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, PkiError> {
    ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![identity.cert.clone()], identity.key.clone_key())
        .map_err(|error| PkiError::Tls(Box::new(error)))
}

/// Whether the certificate is for all of `names` (DNS names and IP addresses).
pub(super) fn names(certificate: &[u8], names: &[String]) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else { return false };
    let is_for = |name: &String| {
        alternatives.value.general_names.iter().any(|general| match general {
            GeneralName::DNSName(dns) => dns == name,
            GeneralName::IPAddress(bytes) => name.parse::<IpAddr>().is_ok_and(|ip| match ip {
                IpAddr::V4(ip) => ip.octets() == *bytes,
                IpAddr::V6(ip) => ip.octets() == *bytes,
            }),
            _ => false,
        })
    };
    names.iter().all(is_for)
}
