//! A node's certificate request.

use std::net::IpAddr;

use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, SanType};

use super::{
    CertError, EcKey,
    identity::{NODE_PREFIX, NODES, is_node_name},
};

/// The largest request that is read, bytes; one with a P-256 key has some 300.
pub(super) const REQUEST_LIMIT: usize = 64 * 1024;

/// A request for a node's certificate, with its key pair.
#[derive(Debug)]
pub struct Csr {
    der: Vec<u8>,
    key: EcKey,
}

impl Csr {
    /// Creates a key, and a request for it with the subject that `EdgeCore` sends.
    ///
    /// # Errors
    /// The name is not a node's, or there is no randomness.
    pub fn for_node(name: &str) -> Result<Self, CertError> {
        if !is_node_name(name) {
            return Err(CertError::NodeName(name.to_owned()));
        }
        let mut subject = DistinguishedName::new();
        // X.520 allows only this kind of text for a country.
        subject.push(
            DnType::CountryName,
            DnValue::PrintableString("CN".try_into()?),
        );
        subject.push(DnType::OrganizationName, NODES);
        subject.push(DnType::LocalityName, "Hangzhou");
        subject.push(DnType::StateOrProvinceName, "Zhejiang");
        subject.push(DnType::CommonName, format!("{NODE_PREFIX}{name}"));
        let mut params = CertificateParams::default();
        params.distinguished_name = subject;
        Self::of(&params)
    }

    /// Creates a key, and a request for a server certificate of the node with these addresses, as the kubelet does.
    ///
    /// # Errors
    /// The name is not a node's, or there is no randomness.
    pub fn for_server(node: &str, addresses: &[IpAddr]) -> Result<Self, CertError> {
        if !is_node_name(node) {
            return Err(CertError::NodeName(node.to_owned()));
        }
        let mut subject = DistinguishedName::new();
        subject.push(DnType::OrganizationName, NODES);
        subject.push(DnType::CommonName, format!("{NODE_PREFIX}{node}"));
        let mut params = CertificateParams::default();
        params.distinguished_name = subject;
        params.subject_alt_names = addresses.iter().copied().map(SanType::IpAddress).collect();
        Self::of(&params)
    }

    fn of(params: &CertificateParams) -> Result<Self, CertError> {
        let key = EcKey::generate()?;
        let der = params.serialize_request(&key.pair)?.der().to_vec();
        Ok(Self { der, key })
    }

    /// Returns the request, PKCS#10 DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns the request's private key, SEC1 DER.
    pub fn key_sec1_der(&self) -> Vec<u8> {
        self.key.sec1_der().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use x509_parser::{certification_request::X509CertificationRequest, prelude::FromDer};

    use super::*;

    #[test]
    fn it_asks_as_edgecore_does() {
        let csr = Csr::for_node("edge-1").unwrap();
        let (rest, read) = X509CertificationRequest::from_der(csr.der()).unwrap();
        assert!(rest.is_empty());
        read.verify_signature().unwrap();
        let info = &read.certification_request_info;
        assert_eq!(
            info.subject.to_string(),
            "C=CN, O=system:nodes, L=Hangzhou, ST=Zhejiang, CN=system:node:edge-1"
        );
        assert!(read.requested_extensions().is_none());
        let key = EcKey::from_sec1_der(&csr.key_sec1_der()).unwrap();
        assert_eq!(&*info.subject_pki.subject_public_key.data, key.public_key());
    }

    #[test]
    fn every_request_has_a_key_of_its_own() {
        let key = || Csr::for_node("a").unwrap().key_sec1_der();
        assert_ne!(key(), key());
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["", "Edge", "a/CN=b", "a,O=system:masters"] {
            assert!(matches!(Csr::for_node(name), Err(CertError::NodeName(bad)) if bad == name));
        }
    }
}
