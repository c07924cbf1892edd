//! The certificate authority of one cloud.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, GeneralSubtree,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, SanType, SerialNumber, SubjectPublicKeyInfo,
};
use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;
use x509_parser::{
    certificate::X509Certificate, certification_request::X509CertificationRequest, extensions::GeneralName,
    prelude::FromDer,
};

use super::{
    CertError, EcKey, ServingRequest, Usage,
    csr::REQUEST_LIMIT,
    identity::{Identity, MASTERS, NODE_PREFIX, NODES, of_subject},
};

/// The name of the authority and of its servers.
const NAME: &str = "KubeEdge";
/// The administrator's common name, kubeadm's.
const ADMIN: &str = "kubernetes-admin";
/// How long the authority, its servers and its administrators are valid: KubeEdge's hundred years.
const LIFETIME: Duration = Duration::from_secs(36_400 * 24 * 60 * 60);
/// How far back validity begins: the clocks of nodes are not exact.
const BACKDATED: Duration = Duration::from_secs(5 * 60);

/// A certificate authority: its certificate and its key.
pub struct Ca {
    cert_der: Vec<u8>,
    key_sec1: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    /// A new authority.
    ///
    /// # Errors
    /// No randomness, or a clock beyond the calendar.
    pub fn generate(now: SystemTime) -> Result<Self, CertError> {
        let mut params = params(now, LIFETIME)?;
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Self::self_signed(params)
    }

    /// A new authority called `name`, whose servers have none but these DNS names, and any addresses: name constraints of RFC 5280.
    ///
    /// # Errors
    /// No randomness, or a clock beyond the calendar.
    pub fn generate_for(name: &str, servers: &[String], now: SystemTime) -> Result<Self, CertError> {
        let mut params = params(now, LIFETIME)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: servers.iter().cloned().map(GeneralSubtree::DnsName).collect(),
            excluded_subtrees: Vec::new(),
        });
        Self::self_signed(params)
    }

    fn self_signed(mut params: CertificateParams) -> Result<Self, CertError> {
        let key = EcKey::generate()?;
        params.key_usages.push(KeyUsagePurpose::KeyCertSign);
        params.use_authority_key_identifier_extension = false;
        let cert_der = params.self_signed(&key.pair)?.der().to_vec();
        Ok(Self { cert_der, key_sec1: key.sec1_der().to_vec(), issuer: Issuer::new(params, key.pair) })
    }

    /// The DNS names that the authority's servers may have, as [`Ca::generate_for`] was told; `None`: all.
    pub fn servers(&self) -> Option<Vec<String>> {
        let (_, cert) = X509Certificate::from_der(&self.cert_der).ok()?;
        let permitted = cert.name_constraints().ok()??.value.permitted_subtrees.as_ref()?;
        let name = |base: &GeneralName<'_>| match base {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        };
        Some(permitted.iter().filter_map(|subtree| name(&subtree.base)).collect())
    }

    /// The authority that `cert_der` and `key_sec1_der` are.
    ///
    /// # Errors
    /// One of them cannot be read, or they do not belong together, or the certificate is no authority's.
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
        Ok(Self { cert_der: cert_der.to_vec(), key_sec1: key_sec1_der.to_vec(), issuer })
    }

    /// The authority's certificate, DER.
    pub fn cert_der(&self) -> &[u8] {
        &self.cert_der
    }

    /// The authority's private key, SEC1 DER. Join tokens are signed with these very bytes.
    pub fn key_sec1_der(&self) -> &[u8] {
        &self.key_sec1
    }

    /// Whether this authority's key has signed the certificate, DER.
    pub fn has_signed(&self, cert_der: &[u8]) -> bool {
        let (Ok((_, own)), Ok((_, cert))) =
            (X509Certificate::from_der(&self.cert_der), X509Certificate::from_der(cert_der))
        else {
            return false;
        };
        cert.verify_signature(Some(own.public_key())).is_ok()
    }

    /// A certificate for a server with these DNS names and IP addresses, and its new key: DER, SEC1 DER.
    ///
    /// # Errors
    /// No name, or one that is neither.
    pub fn sign_server<S: Into<String>>(
        &self,
        names: impl IntoIterator<Item = S>,
        now: SystemTime,
    ) -> Result<(Vec<u8>, Vec<u8>), CertError> {
        self.sign_server_for(names, LIFETIME, now)
    }

    /// The same, good for `validity` from `now` on.
    ///
    /// # Errors
    /// No name, or one that is neither.
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
        let alternatives =
            CertificateParams::new(names.clone()).map_err(|_| CertError::ServerName(names.join(" ")))?;
        let mut params = params(now, validity)?;
        params.subject_alt_names = alternatives.subject_alt_names;
        params.distinguished_name = subject(NAME, NAME);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign_new(&params)
    }

    /// A client certificate for an administrator of the API, and its new key: DER, SEC1 DER.
    ///
    /// # Errors
    /// No randomness, or a clock beyond the calendar.
    pub fn sign_admin(&self, now: SystemTime) -> Result<(Vec<u8>, Vec<u8>), CertError> {
        let mut params = params(now, LIFETIME)?;
        params.distinguished_name = subject(MASTERS, ADMIN);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign_new(&params)
    }

    /// A node's certificate for its request, DER. From the request come the node's name and its public key and nothing else: no
    /// extension, no further name. Whether the request may be granted is the caller's to decide; compare
    /// [`identity_of`](super::identity_of) the certificate with who asked.
    ///
    /// # Errors
    /// No request, one that its key has not signed, or one whose subject is no node's.
    pub fn sign_edge(
        &self,
        csr_der: &[u8],
        usages: &[Usage],
        validity: Duration,
        now: SystemTime,
    ) -> Result<Vec<u8>, CertError> {
        if csr_der.len() > REQUEST_LIMIT {
            return Err(CertError::RequestTooLarge { size: csr_der.len(), limit: REQUEST_LIMIT });
        }
        let (_, request) = X509CertificationRequest::from_der(csr_der).map_err(|_| CertError::Request)?;
        request.verify_signature().map_err(|_| CertError::Request)?;
        let info = &request.certification_request_info;
        let node = match of_subject(&info.subject)? {
            Identity::Node(node) => node,
            Identity::Admin(_) => return Err(CertError::Subject(info.subject.to_string())),
        };
        let public = SubjectPublicKeyInfo::from_der(info.subject_pki.raw).map_err(|_| CertError::Request)?;
        let mut params = params(now, validity)?;
        params.distinguished_name = subject(NODES, &format!("{NODE_PREFIX}{node}"));
        params.extended_key_usages = usages.iter().map(|usage| (*usage).into()).collect();
        Ok(params.signed_by(&public, &self.issuer)?.der().to_vec())
    }

    /// A certificate for a server of a node, DER. Whether the request may be granted is the caller's to decide.
    ///
    /// # Errors
    /// A name or key that no certificate can hold, or a clock beyond the calendar.
    pub fn sign_serving(
        &self,
        request: &ServingRequest,
        validity: Duration,
        now: SystemTime,
    ) -> Result<Vec<u8>, CertError> {
        let public = SubjectPublicKeyInfo::from_der(&request.public).map_err(|_| CertError::Request)?;
        let mut params = params(now, validity)?;
        params.distinguished_name = subject(NODES, &format!("{NODE_PREFIX}{}", request.node));
        for name in &request.names {
            let name = name.as_str().try_into().map_err(|_| CertError::ServerName(name.clone()))?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.subject_alt_names.extend(request.addresses.iter().copied().map(SanType::IpAddress));
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

/// What all certificates share: no authority of their own, a random serial number, a lifetime.
fn params(now: SystemTime, validity: Duration) -> Result<CertificateParams, CertError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.serial_number = Some(SerialNumber::from_slice(uuid::Uuid::new_v4().as_bytes()));
    params.not_before = calendar(now.checked_sub(BACKDATED))?;
    params.not_after = calendar(now.checked_add(validity))?;
    params.is_ca = IsCa::NoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
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
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).ok_or(CertError::Time)?;
    let seconds = i64::try_from(since.as_secs()).map_err(|_| CertError::Time)?;
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| CertError::Time)
}

#[cfg(test)]
mod tests;
