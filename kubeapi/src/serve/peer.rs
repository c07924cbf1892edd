//! The identity of a client from its verified TLS certificate.

use std::{net::IpAddr, sync::Arc};

use rustls::ServerConnection;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::Identity;

/// The client's certificate (DER) that TLS verified, in the extensions of a request beside the [`Identity`].
#[derive(Clone, Debug)]
pub struct PeerCertificate(pub Arc<[u8]>);

/// The address of the client, in the extensions of a request.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub IpAddr);

/// The subject's common name is the user, its organisations are the groups (Kubernetes: X.509 client certificates).
pub(super) fn identity(connection: &ServerConnection) -> Option<(Identity, PeerCertificate)> {
    let shown = connection.peer_certificates()?.first()?;
    let identity = certificate_identity(shown)?;
    Some((identity, PeerCertificate(shown.as_ref().into())))
}

/// Returns the identity that a verified certificate (DER) stands for; `None` if it names nobody.
pub fn certificate_identity(certificate: &[u8]) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject
        .iter_organization()
        .filter_map(|group| group.as_str().ok());
    Some(Identity::new(user, groups))
}
