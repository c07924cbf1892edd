//! Reads the identity, validity and key of a certificate.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use x509_parser::{certificate::X509Certificate, prelude::FromDer, x509::X509Name};

use super::{CertError, sha256_hex};
use crate::names::is_label;

/// The organisation of nodes.
pub(super) const NODES: &str = "system:nodes";
/// The organisation of administrators, which may do everything.
pub(super) const MASTERS: &str = "system:masters";
/// The prefix of a node's common name, before the node's name.
pub(super) const NODE_PREFIX: &str = "system:node:";
/// The longest node name: a DNS subdomain.
const MAX_NODE_NAME: usize = 253;

/// The owner of a certificate, read from its subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The node with this name.
    Node(String),
    /// An administrator of the API, by common name.
    Admin(String),
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node {name}"),
            Self::Admin(name) => write!(f, "administrator {name}"),
        }
    }
}

/// Returns the owner of a certificate. The signature is not checked, because TLS has done that.
///
/// # Errors
/// It is not a certificate, or its subject is neither a node's nor an administrator's.
pub fn identity_of(cert_der: &[u8]) -> Result<Identity, CertError> {
    let (_, cert) = X509Certificate::from_der(cert_der).map_err(|_| CertError::Certificate)?;
    of_subject(cert.subject())
}

/// Returns the start and the end of a certificate's validity.
///
/// # Errors
/// It is not a certificate, or its times are before 1970.
pub fn validity_of(cert_der: &[u8]) -> Result<(SystemTime, SystemTime), CertError> {
    let (_, cert) = X509Certificate::from_der(cert_der).map_err(|_| CertError::Certificate)?;
    let time = |seconds: i64| {
        let since = u64::try_from(seconds).map_err(|_| CertError::Time)?;
        UNIX_EPOCH
            .checked_add(Duration::from_secs(since))
            .ok_or(CertError::Time)
    };
    let validity = cert.validity();
    Ok((
        time(validity.not_before.timestamp())?,
        time(validity.not_after.timestamp())?,
    ))
}

/// Returns the SHA-256 hash, in hex, of the certificate's public key (its `SubjectPublicKeyInfo`, DER).
///
/// # Errors
/// It is not a certificate.
pub fn key_sha256_of(cert_der: &[u8]) -> Result<String, CertError> {
    let (_, cert) = X509Certificate::from_der(cert_der).map_err(|_| CertError::Certificate)?;
    Ok(sha256_hex(cert.public_key().raw))
}

/// Returns the owner that a subject names. It must have exactly one organisation and one common name, so that no two readers see different
/// ones.
pub(super) fn of_subject(subject: &X509Name<'_>) -> Result<Identity, CertError> {
    let unknown = || CertError::Subject(subject.to_string().chars().take(512).collect());
    let (mut organisations, mut names) = (subject.iter_organization(), subject.iter_common_name());
    let (Some(organisation), None, Some(name), None) = (
        organisations.next(),
        organisations.next(),
        names.next(),
        names.next(),
    ) else {
        return Err(unknown());
    };
    let (Ok(organisation), Ok(name)) = (organisation.as_str(), name.as_str()) else {
        return Err(unknown());
    };
    match (organisation, name.strip_prefix(NODE_PREFIX)) {
        (NODES, Some(node)) if is_node_name(node) => Ok(Identity::Node(node.to_owned())),
        (NODES, Some(node)) => Err(CertError::NodeName(node.to_owned())),
        (MASTERS, _) if !name.is_empty() => Ok(Identity::Admin(name.to_owned())),
        _ => Err(unknown()),
    }
}

/// Reports whether Kubernetes accepts the name for a node: a DNS-1123 subdomain.
pub fn is_node_name(name: &str) -> bool {
    name.len() <= MAX_NODE_NAME && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes() {
        for good in ["a", "edge-1", "1", "a.b-c.d", &"a".repeat(253)] {
            assert!(is_node_name(good), "{good}");
        }
        for bad in [
            "",
            "Edge",
            "-a",
            "a-",
            "a..b",
            ".a",
            "a.",
            "a_b",
            "a b",
            "é",
            "a/b",
            "a\0",
            &"a".repeat(254),
        ] {
            assert!(!is_node_name(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_identity() {
        assert!(matches!(identity_of(b""), Err(CertError::Certificate)));
        assert!(matches!(
            identity_of(b"-----BEGIN CERTIFICATE-----"),
            Err(CertError::Certificate)
        ));
    }
}
