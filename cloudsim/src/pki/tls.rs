//! The TLS configurations of the cloud's three servers.

use std::{net::IpAddr, sync::Arc, time::Duration};

use rustls::{
    RootCertStore, ServerConfig,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{
    PkiError, ServerIdentity,
    node_verifier::{NodeVerifier, RejectionReports},
};

/// Returns the verifiers of nodes' certificates at the hub and at the enrolment server. At the hub, clients must have a certificate of this
/// CA. At the enrolment server, a node that renews its certificate shows the old one, and a new node has none; a certificate that expired
/// less than `grace` ago is accepted.
pub(super) fn node_verifiers(
    identity: &ServerIdentity,
    grace: Duration,
    reports: &RejectionReports,
) -> Result<[Arc<dyn ClientCertVerifier>; 2], PkiError> {
    let of_nodes = |anonymous, grace| -> Result<Arc<dyn ClientCertVerifier>, PkiError> {
        let strict = verifier(identity, anonymous)?;
        Ok(Arc::new(NodeVerifier::new(strict, grace, reports.clone())))
    };
    Ok([of_nodes(false, Duration::ZERO)?, of_nodes(true, grace)?])
}

/// The API: a client certificate authenticates; without one only the public paths answer.
pub fn api_tls(identity: &ServerIdentity) -> Result<ServerConfig, PkiError> {
    server_tls(identity, verifier(identity, true)?)
}

fn verifier(
    identity: &ServerIdentity,
    anonymous: bool,
) -> Result<Arc<dyn ClientCertVerifier>, PkiError> {
    let mut roots = RootCertStore::empty();
    roots
        .add(identity.ca.clone())
        .map_err(|error| PkiError::Tls(Box::new(error)))?;
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
    let verifier = if anonymous {
        verifier.allow_unauthenticated()
    } else {
        verifier
    };
    verifier
        .build()
        .map_err(|error| PkiError::Tls(Box::new(error)))
}

/// Returns the configuration of a server that shows this certificate.
pub(super) fn server_tls(
    identity: &ServerIdentity,
    verifier: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, PkiError> {
    ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![identity.cert.clone()], identity.key.clone_key())
        .map_err(|error| PkiError::Tls(Box::new(error)))
}

/// Reports whether the certificate is for all of `names` (DNS names and IP addresses).
pub(super) fn names(certificate: &[u8], names: &[String]) -> bool {
    let has = names_of(certificate);
    names.iter().all(|name| match name.parse::<IpAddr>() {
        Ok(ip) => has.contains(&ip.to_string()),
        Err(_) => has.contains(name),
    })
}

/// Returns the certificate's DNS names and IP addresses. CloudCore's has an empty one, which is left out.
pub(super) fn names_of(certificate: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let name = |general: &GeneralName<'_>| match general {
        GeneralName::DNSName(dns) if !dns.is_empty() => Some((*dns).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes)
                .ok()
                .map(|ip| IpAddr::from(ip).to_string()),
            _ => <[u8; 16]>::try_from(*bytes)
                .ok()
                .map(|ip| IpAddr::from(ip).to_string()),
        },
        _ => None,
    };
    alternatives
        .value
        .general_names
        .iter()
        .filter_map(name)
        .collect()
}

/// Reports whether the key (SEC1 DER) belongs to the certificate.
pub(super) fn is_pair(certificate: &[u8], key: &[u8]) -> bool {
    let key = PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key.to_vec()));
    let certificate = CertificateDer::from(certificate.to_vec());
    ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .is_ok()
}
