//! Serving certificates of nodes: reads the names in a request and in a certificate.
//!
//! Source: the signer `kubernetes.io/kubelet-serving` of Kubernetes,
//! <https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers>.

use std::net::IpAddr;

use x509_parser::{
    certificate::X509Certificate,
    certification_request::X509CertificationRequest,
    extensions::{GeneralName, ParsedExtension},
    prelude::FromDer,
};

use super::{CertError, Identity, csr::REQUEST_LIMIT, identity::of_subject};

/// A request for a node's serving certificate, signed with its own key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingRequest {
    /// The node's name.
    pub node: String,
    /// The requested DNS names.
    pub names: Vec<String>,
    /// The requested IP addresses.
    pub addresses: Vec<IpAddr>,
    /// The public key, a `SubjectPublicKeyInfo` in DER.
    pub(super) public: Vec<u8>,
}

impl ServingRequest {
    /// Parses a request, PKCS#10 DER. The caller decides whether it may be granted.
    ///
    /// # Errors
    /// It is not a request, its key has not signed it, its subject is not a node's, or it has no names or other names than DNS names and
    /// addresses.
    pub fn read(der: &[u8]) -> Result<Self, CertError> {
        if der.len() > REQUEST_LIMIT {
            return Err(CertError::RequestTooLarge {
                size: der.len(),
                limit: REQUEST_LIMIT,
            });
        }
        let (_, request) =
            X509CertificationRequest::from_der(der).map_err(|_| CertError::Request)?;
        request.verify_signature().map_err(|_| CertError::Request)?;
        let info = &request.certification_request_info;
        let node = match of_subject(&info.subject)? {
            Identity::Node(node) => node,
            Identity::Admin(_) => return Err(CertError::Subject(info.subject.to_string())),
        };
        let (mut names, mut addresses) = (Vec::new(), Vec::new());
        for extension in request.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(alternatives) = extension {
                alternatives
                    .general_names
                    .iter()
                    .try_for_each(|name| take(name, &mut names, &mut addresses))?;
            }
        }
        if names.is_empty() && addresses.is_empty() {
            return Err(CertError::NoServerName);
        }
        Ok(Self {
            node,
            names,
            addresses,
            public: info.subject_pki.raw.to_vec(),
        })
    }
}

/// Returns the node that a certificate request (PKCS#10 DER) is for; its signature is not checked.
///
/// # Errors
/// It is not a request, or its subject is not a node's.
pub fn node_of_request(der: &[u8]) -> Result<String, CertError> {
    if der.len() > REQUEST_LIMIT {
        return Err(CertError::RequestTooLarge {
            size: der.len(),
            limit: REQUEST_LIMIT,
        });
    }
    let (_, request) = X509CertificationRequest::from_der(der).map_err(|_| CertError::Request)?;
    let subject = &request.certification_request_info.subject;
    match of_subject(subject)? {
        Identity::Node(node) => Ok(node),
        Identity::Admin(_) => Err(CertError::Subject(subject.to_string())),
    }
}

/// Returns the DNS names and addresses in a server's certificate, DER.
///
/// # Errors
/// It is not a certificate.
pub fn server_names_of(cert_der: &[u8]) -> Result<(Vec<String>, Vec<IpAddr>), CertError> {
    let (_, cert) = X509Certificate::from_der(cert_der).map_err(|_| CertError::Certificate)?;
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    let alternatives = cert
        .subject_alternative_name()
        .map_err(|_| CertError::Certificate)?;
    for name in alternatives
        .into_iter()
        .flat_map(|extension| &extension.value.general_names)
    {
        // other kinds of names do not apply to servers
        let _ = take(name, &mut names, &mut addresses);
    }
    Ok((names, addresses))
}

fn take(
    name: &GeneralName<'_>,
    names: &mut Vec<String>,
    addresses: &mut Vec<IpAddr>,
) -> Result<(), CertError> {
    let refused = || CertError::ServerName(name.to_string().chars().take(256).collect());
    match name {
        GeneralName::DNSName(name) => names.push((*name).to_owned()),
        GeneralName::IPAddress(bytes) => addresses.push(
            match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
                (Ok(four), _) => IpAddr::from(four),
                (_, Ok(sixteen)) => IpAddr::from(sixteen),
                _ => return Err(refused()),
            },
        ),
        _ => return Err(refused()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use rcgen::{CertificateParams, DistinguishedName, DnType, SanType};

    use super::*;
    use crate::enroll::{Ca, Csr, EcKey, identity_of, validity_of};

    const HOUR: Duration = Duration::from_secs(60 * 60);

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Creates a request of a form that no client of ours sends.
    fn strange(organisation: &str, name: &str, alternatives: Vec<SanType>) -> Vec<u8> {
        let key = EcKey::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, organisation);
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = alternatives;
        params.serialize_request(&key.pair).unwrap().der().to_vec()
    }

    #[test]
    fn what_is_asked_for_is_read_and_signed() {
        let wanted = addresses(&["127.0.0.1", "169.254.30.10", "fe80::1"]);
        let csr = Csr::for_server("edge-1", &wanted).unwrap();
        let request = ServingRequest::read(csr.der()).unwrap();
        assert_eq!(
            (request.node.as_str(), &request.names, &request.addresses),
            ("edge-1", &vec![], &wanted)
        );
        let now = SystemTime::now();
        let ca = Ca::generate(now).unwrap();
        let cert = ca.sign_serving(&request, HOUR, now).unwrap();
        assert_eq!(identity_of(&cert).unwrap(), Identity::Node("edge-1".into()));
        assert_eq!(server_names_of(&cert).unwrap(), (vec![], wanted));
        let (begin, end) = validity_of(&cert).unwrap();
        assert!(begin < now && end.duration_since(now).unwrap() <= HOUR);
        let (_, read) = X509Certificate::from_der(&cert).unwrap();
        let usage = read.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.server_auth && !usage.client_auth && !read.is_ca());
        let key = EcKey::from_sec1_der(&csr.key_sec1_der()).unwrap();
        assert_eq!(
            &*read.public_key().subject_public_key.data,
            key.public_key()
        );
    }

    #[test]
    fn other_requests_are_refused() {
        let address = || SanType::IpAddress("127.0.0.1".parse().unwrap());
        let mail = || SanType::Rfc822Name("a@b".try_into().unwrap());
        let node = "system:node:edge-1";
        assert!(ServingRequest::read(&strange("system:nodes", node, vec![address()])).is_ok());
        for bad in [
            strange("system:nodes", node, vec![]),
            strange("system:nodes", node, vec![address(), mail()]),
            strange("system:nodes", "edge-1", vec![address()]),
            strange("system:masters", "admin", vec![address()]),
            Csr::for_node("edge-1").unwrap().der().to_vec(),
            b"no request".to_vec(),
            vec![0x30; REQUEST_LIMIT + 1],
        ] {
            assert!(ServingRequest::read(&bad).is_err());
        }
        let mut changed = strange("system:nodes", node, vec![address()]);
        let at = changed
            .windows(4)
            .position(|bytes| bytes == [127, 0, 0, 1])
            .unwrap();
        changed[at + 3] = 2;
        assert!(
            matches!(ServingRequest::read(&changed), Err(CertError::Request)),
            "its key has not signed this"
        );
    }
}
