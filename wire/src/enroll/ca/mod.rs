//! The certificate authority of one cloud.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, SanType, SerialNumber,
    SubjectPublicKeyInfo,
};
use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;
use x509_parser::{
    certificate::X509Certificate, certification_request::X509CertificationRequest,
    extensions::GeneralName, prelude::FromDer,
};

use super::{
    CertError, EcKey, ServingRequest, Usage,
    csr::REQUEST_LIMIT,
    identity::{Identity, MASTERS, NODE_PREFIX, NODES, of_subject},
};

/// The common name of the authority and of its servers.
const NAME: &str = "KubeEdge";
/// The administrator's common name, as in kubeadm.
const ADMIN: &str = "kubernetes-admin";
/// The name by which servers know that the API server forwards a request: `requestheader-allowed-names`.
const FRONT_PROXY: &str = "front-proxy-client";
/// The validity of the authority's, servers' and administrators' certificates: KubeEdge's hundred years.
const LIFETIME: Duration = Duration::from_secs(36_400 * 24 * 60 * 60);
/// How far validity is backdated, because the clocks of nodes are not exact.
const BACKDATED: Duration = Duration::from_secs(5 * 60);

/// A certificate authority: certificate and key.
pub struct Ca {
    cert_der: Vec<u8>,
    key_sec1: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    /// Creates a new authority.
    ///
    /// # Errors
    /// There is no randomness, or the clock is beyond the calendar.
    pub fn generate(now: SystemTime) -> Result<Self, CertError> {
        let mut params = params(now, LIFETIME)?;
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        Self::self_signed(params)
    }

    /// Creates an authority called `name`. Name constraints (RFC 5280) restrict its servers to these DNS names; they may have any
    /// addresses.
    ///
    /// # Errors
    /// There is no randomness, or the clock is beyond the calendar.
    pub fn generate_for(
        name: &str,
        servers: &[String],
        now: SystemTime,
    ) -> Result<Self, CertError> {
        let mut params = params(now, LIFETIME)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: servers
                .iter()
                .cloned()
                .map(GeneralSubtree::DnsName)
                .collect(),
            excluded_subtrees: Vec::new(),
        });
        Self::self_signed(params)
    }

    fn self_signed(mut params: CertificateParams) -> Result<Self, CertError> {
        let key = EcKey::generate()?;
        params.key_usages.push(KeyUsagePurpose::KeyCertSign);
        params.use_authority_key_identifier_extension = false;
        let cert_der = params.self_signed(&key.pair)?.der().to_vec();
        Ok(Self {
            cert_der,
            key_sec1: key.sec1_der().to_vec(),
            issuer: Issuer::new(params, key.pair),
        })
    }

    /// Returns the DNS names that the authority's servers may have, as given to [`Ca::generate_for`]; `None` if they may have any.
    pub fn servers(&self) -> Option<Vec<String>> {
        let (_, cert) = X509Certificate::from_der(&self.cert_der).ok()?;
        let permitted = cert
            .name_constraints()
            .ok()??
            .value
            .permitted_subtrees
            .as_ref()?;
        let name = |base: &GeneralName<'_>| match base {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        };
        Some(
            permitted
                .iter()
                .filter_map(|subtree| name(&subtree.base))
                .collect(),
        )
    }

    /// Loads an authority from its certificate and key.
    ///
    /// # Errors
    /// One of them cannot be read, they do not belong together, or the certificate is not a CA's.
    pub fn from_der(cert_der: &[u8], key_sec1_der: &[u8]) -> Result<Self, CertError> {
        let key = EcKey::from_sec1_der(key_sec1_der)?;
        let (_, cert) = X509Certificate::from_der(cert_der).map_err(|_| CertError::Certificate)?;
        if !cert.is_ca() {
            return Err(CertError::NotCa);
        }
        if *cert.public_key().subject_public_key.data != *key.public_key() {
            return Err(CertError::Mismatch);
        }
        let issuer = Issuer::from_ca_cert_der(&CertificateDer::from(cert_der), key.pair)?;
        Ok(Self {
            cert_der: cert_der.to_vec(),
            key_sec1: key_sec1_der.to_vec(),
            issuer,
        })
    }

    /// Returns the authority's certificate, DER.
    pub fn cert_der(&self) -> &[u8] {
        &self.cert_der
    }

    /// Returns the authority's private key, SEC1 DER. Join tokens are signed with these very bytes.
    pub fn key_sec1_der(&self) -> &[u8] {
        &self.key_sec1
    }

    /// Reports whether this authority's key has signed the certificate (DER).
    pub fn has_signed(&self, cert_der: &[u8]) -> bool {
        let (Ok((_, own)), Ok((_, cert))) = (
            X509Certificate::from_der(&self.cert_der),
            X509Certificate::from_der(cert_der),
        ) else {
            return false;
        };
        cert.verify_signature(Some(own.public_key())).is_ok()
    }

    /// Signs a certificate for a server with these DNS names and IP addresses, and returns it with its new key: DER, SEC1 DER.
    ///
    /// # Errors
    /// There is no name, or one is neither a DNS name nor an IP address.
    pub fn sign_server<S: Into<String>>(
        &self,
        names: impl IntoIterator<Item = S>,
        now: SystemTime,
    ) -> Result<(Vec<u8>, Vec<u8>), CertError> {
        self.sign_server_for(names, LIFETIME, now)
    }

    /// Signs a server's certificate that is valid for `validity` from `now` on, and returns it with its new key: DER, SEC1 DER.
    ///
    /// # Errors
    /// There is no name, or one is neither a DNS name nor an IP address.
    pub fn sign_server_for<S: Into<String>>(
        &self,
        names: impl IntoIterator<Item = S>,
        validity: Duration,
        now: SystemTime,
    ) -> Result<(Vec<u8>, Vec<u8>), CertError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.is_empty() || names.iter().any(String::is_empty) {
            return Err(CertError::ServerName(names.join(" ")));
        }
        let alternatives = CertificateParams::new(names.clone())
            .map_err(|_| CertError::ServerName(names.join(" ")))?;
        let mut params = params(now, validity)?;
        params.subject_alt_names = alternatives.subject_alt_names;
        params.distinguished_name = subject(NAME, NAME);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign_new(&params)
    }

    /// Signs a client certificate for an administrator of the API, and returns it with its new key: DER, SEC1 DER.
    ///
    /// # Errors
    /// There is no randomness, or the clock is beyond the calendar.
    pub fn sign_admin(&self, now: SystemTime) -> Result<(Vec<u8>, Vec<u8>), CertError> {
        let mut params = params(now, LIFETIME)?;
        params.distinguished_name = subject(MASTERS, ADMIN);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign_new(&params)
    }

    /// Signs a client certificate for an API server that forwards requests to others, and returns it with its new key: DER, SEC1 DER.
    ///
    /// # Errors
    /// There is no randomness, or the clock is beyond the calendar.
    pub fn sign_front_proxy(&self, now: SystemTime) -> Result<(Vec<u8>, Vec<u8>), CertError> {
        let mut params = params(now, LIFETIME)?;
        params.distinguished_name = subject(FRONT_PROXY, FRONT_PROXY);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign_new(&params)
    }

    /// Signs a node's certificate request and returns the certificate, DER. Only the node's name and the public key are taken from the
    /// request: no extension and no further name. The caller decides whether the request may be granted; it should compare
    /// [`identity_of`](super::identity_of) the certificate with the requester.
    ///
    /// # Errors
    /// It is not a request, its key has not signed it, or its subject is not a node's.
    pub fn sign_edge(
        &self,
        csr_der: &[u8],
        usages: &[Usage],
        validity: Duration,
        now: SystemTime,
    ) -> Result<Vec<u8>, CertError> {
        if csr_der.len() > REQUEST_LIMIT {
            return Err(CertError::RequestTooLarge {
                size: csr_der.len(),
                limit: REQUEST_LIMIT,
            });
        }
        let (_, request) =
            X509CertificationRequest::from_der(csr_der).map_err(|_| CertError::Request)?;
        request.verify_signature().map_err(|_| CertError::Request)?;
        let info = &request.certification_request_info;
        let node = match of_subject(&info.subject)? {
            Identity::Node(node) => node,
            Identity::Admin(_) => return Err(CertError::Subject(info.subject.to_string())),
        };
        let public =
            SubjectPublicKeyInfo::from_der(info.subject_pki.raw).map_err(|_| CertError::Request)?;
        let mut params = params(now, validity)?;
        params.distinguished_name = subject(NODES, &format!("{NODE_PREFIX}{node}"));
        params.extended_key_usages = usages.iter().map(|usage| (*usage).into()).collect();
        Ok(params.signed_by(&public, &self.issuer)?.der().to_vec())
    }

    /// Signs a certificate for a node's server and returns it, DER. The caller decides whether the request may be granted.
    ///
    /// # Errors
    /// A name or key cannot be part of a certificate, or the clock is beyond the calendar.
    pub fn sign_serving(
        &self,
        request: &ServingRequest,
        validity: Duration,
        now: SystemTime,
    ) -> Result<Vec<u8>, CertError> {
        let public =
            SubjectPublicKeyInfo::from_der(&request.public).map_err(|_| CertError::Request)?;
        let mut params = params(now, validity)?;
        params.distinguished_name = subject(NODES, &format!("{NODE_PREFIX}{}", request.node));
        for name in &request.names {
            let name = name
                .as_str()
                .try_into()
                .map_err(|_| CertError::ServerName(name.clone()))?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params
            .subject_alt_names
            .extend(request.addresses.iter().copied().map(SanType::IpAddress));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        Ok(params.signed_by(&public, &self.issuer)?.der().to_vec())
    }

    fn sign_new(&self, params: &CertificateParams) -> Result<(Vec<u8>, Vec<u8>), CertError> {
        let key = EcKey::generate()?;
        let cert = params.signed_by(&key.pair, &self.issuer)?;
        Ok((cert.der().to_vec(), key.sec1_der().to_vec()))
    }
}

impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ca").finish_non_exhaustive()
    }
}

/// Returns the parameters that all certificates share: not a CA, a random serial number, a validity.
fn params(now: SystemTime, validity: Duration) -> Result<CertificateParams, CertError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.serial_number = Some(SerialNumber::from_slice(uuid::Uuid::new_v4().as_bytes()));
    params.not_before = calendar(now.checked_sub(BACKDATED))?;
    params.not_after = calendar(now.checked_add(validity))?;
    params.is_ca = IsCa::NoCa;
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
    ];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn subject(organisation: &str, name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, organisation);
    subject.push(DnType::CommonName, name);
    subject
}

fn calendar(time: Option<SystemTime>) -> Result<OffsetDateTime, CertError> {
    let since = time
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .ok_or(CertError::Time)?;
    let seconds = i64::try_from(since.as_secs()).map_err(|_| CertError::Time)?;
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| CertError::Time)
}

#[cfg(test)]
mod tests;
