//! The cloud's keys and certificates, kept in the API as CloudCore keeps them: Secrets `casecret`, `cloudcoresecret` and
//! `tokensecret` in namespace `kubeedge`.
//!
//! Source: KubeEdge's CloudHub (preparation of CA, server certificate and token).

mod client_ca;
mod error;
mod grace;
mod join_token;
mod node_certificates;
mod records;
pub(crate) mod reserved_names;
mod secrets;
mod service_accounts;
mod tls;
mod trust;

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use kube::Client;
use kubeapi::store::{Key, Resource};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer};
use wire::enroll::{Ca, EcKey, pem_certificate};

pub(crate) use self::records::{Change, Entry, Expected, LABEL as RECORDS_LABEL, Records};
pub use self::secrets::NAMESPACE;
use self::secrets::Secrets;
pub(crate) use self::trust::lost_message;
pub use self::{
    client_ca::publish as publish_client_ca,
    error::PkiError,
    join_token::{JoinToken, JoinTokens, NoToken, TokenRequest},
    node_certificates::{LostRecords, Name, NodeCertificates, RecordError, UNKNOWN},
    records::RecordsError,
    service_accounts::ServiceAccountTokens,
    tls::{api_tls, enrolment_tls, hub_tls},
    trust::Trust,
};

const CA: (&str, &str, &str) = ("casecret", "cadata", "cakeydata");
const SERVER: (&str, &str, &str) = ("cloudcoresecret", "cloudcoredata", "cloudcorekeydata");
/// Not CloudCore's: a real cluster signs service account tokens itself.
const ACCOUNTS: (&str, &str) = ("serviceaccountsecret", "keydata");

/// A server certificate with its key, and the CA that signed it.
#[derive(Debug)]
pub struct ServerIdentity {
    /// The CA.
    pub ca: CertificateDer<'static>,
    /// The certificate.
    pub cert: CertificateDer<'static>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
}

impl ServerIdentity {
    fn clone_key(&self) -> Self {
        Self { ca: self.ca.clone(), cert: self.cert.clone(), key: self.key.clone_key() }
    }
}

/// The cloud's keys.
#[derive(Debug)]
pub struct Pki {
    ca: Arc<Ca>,
    server: ServerIdentity,
}

impl Pki {
    /// The keys in the API, made where they are missing. `names`: the DNS names and IP addresses by which the cloud is reached;
    /// the server certificate is signed anew where it does not name them all, or another authority has signed it.
    pub async fn ensure(client: &Client, names: &[String]) -> Result<Self, PkiError> {
        let secrets = Secrets::new(client);
        let ca = Arc::new(ensure_ca(&secrets).await?);
        let (cert, key) = ensure_server(&secrets, &ca, names, Names::AsGiven).await?;
        Ok(Self::of(ca, cert, key))
    }

    /// The same before a cluster's API server, where others have the same keys: the servers' certificate keeps the names that it has.
    pub async fn ensure_shared(client: &Client, names: &[String]) -> Result<Self, PkiError> {
        let secrets = Secrets::new(client);
        let ca = Arc::new(ensure_ca(&secrets).await?);
        let (cert, key) = ensure_server(&secrets, &ca, names, Names::Also).await?;
        Ok(Self::of(ca, cert, key))
    }

    /// The authority that stands in the API, for whoever has access to it.
    pub async fn read_authority(client: &Client) -> Result<Option<Ca>, PkiError> {
        let (secret, cert, key) = CA;
        let Some(data) = Secrets::new(client).get(secret).await? else { return Ok(None) };
        let ca = Ca::from_der(data.field(cert)?, data.field(key)?);
        ca.map(Some).map_err(|error| PkiError::Secret { secret, why: error.to_string() })
    }

    fn of(ca: Arc<Ca>, cert: Vec<u8>, key: Vec<u8>) -> Self {
        let server = ServerIdentity {
            ca: CertificateDer::from(ca.cert_der().to_vec()),
            cert: CertificateDer::from(cert),
            key: PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key)),
        };
        Self { ca, server }
    }

    /// The authority.
    pub fn ca(&self) -> &Arc<Ca> {
        &self.ca
    }

    /// The authority's certificate in PEM.
    pub fn ca_pem(&self) -> String {
        pem_certificate(self.ca.cert_der())
    }

    /// The servers' certificate.
    pub fn server(&self) -> &ServerIdentity {
        &self.server
    }

    /// A new certificate for a person who may do everything, and its key: DER, SEC1 DER.
    pub fn sign_admin(&self) -> Result<(Vec<u8>, Vec<u8>), PkiError> {
        Ok(self.ca.sign_admin(SystemTime::now())?)
    }
}

/// What a repaired database says of nodes' certificates whose records were lost.
pub fn lost_records() -> LostRecords {
    LostRecords { authority: Key::new(Resource::new("", "secrets"), secrets::NAMESPACE, CA.0) }
}

/// The key that signs service account tokens, made where it is missing.
pub async fn ensure_accounts_key(client: &Client) -> Result<EcKey, PkiError> {
    let (secret, field) = ACCOUNTS;
    let secrets = Secrets::new(client);
    let made = EcKey::generate()?;
    let data = secrets.ensure(secret, BTreeMap::from([(field, made.sec1_der().to_vec())])).await?;
    EcKey::from_sec1_der(data.field(field)?)
        .map_err(|error| PkiError::Secret { secret, why: error.to_string() })
}

async fn ensure_ca(secrets: &Secrets) -> Result<Ca, PkiError> {
    let (secret, cert, key) = CA;
    let made = Ca::generate(SystemTime::now())?;
    let made = BTreeMap::from([(cert, made.cert_der().to_vec()), (key, made.key_sec1_der().to_vec())]);
    let data = secrets.ensure(secret, made).await?;
    Ca::from_der(data.field(cert)?, data.field(key)?)
        .map_err(|error| PkiError::Secret { secret, why: error.to_string() })
}

/// What a servers' certificate that is signed anew is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// The names that are asked for.
    AsGiven,
    /// These, and those of the certificate before it.
    Also,
}

/// How often the certificate is signed while others sign theirs.
const ATTEMPTS: usize = 8;

async fn ensure_server(
    secrets: &Secrets,
    ca: &Ca,
    names: &[String],
    kept: Names,
) -> Result<(Vec<u8>, Vec<u8>), PkiError> {
    let (secret, cert, key) = SERVER;
    for _ in 0..ATTEMPTS {
        let (mut all, mut version) = (names.to_vec(), None);
        if let Some(data) = secrets.get(secret).await? {
            version = data.version.clone();
            if let (Ok(cert), Ok(key)) = (data.field(cert), data.field(key)) {
                // the authority may have been lost and made anew
                let is_own = ca.has_signed(cert);
                if is_own && tls::names(cert, names) && tls::is_pair(cert, key) {
                    return Ok((cert.to_vec(), key.to_vec()));
                }
                if kept == Names::Also && is_own {
                    all.extend(tls::names_of(cert).into_iter().filter(|name| !names.contains(name)));
                }
            }
        }
        let (signed, signed_key) = ca.sign_server(&all, SystemTime::now())?;
        let fields = BTreeMap::from([(cert, signed.clone()), (key, signed_key.clone())]);
        if secrets.put_over(secret, fields, version).await? {
            return Ok((signed, signed_key));
        }
    }
    Err(PkiError::Secret { secret, why: "others change it all the time".to_owned() })
}

#[cfg(test)]
mod tests {
    use kubeapi::store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_new_authority_signs_the_servers_anew() {
        let client = kubeapi::Api::builder(MemoryStore::new()).build().client("default");
        crate::controllers::namespaces::ensure_initial(&client).await.unwrap();
        let names = ["localhost".to_owned()];
        let first = Pki::ensure(&client, &names).await.unwrap();
        let again = Pki::ensure(&client, &names).await.unwrap();
        assert_eq!(first.server().cert, again.server().cert, "it stays");
        let secrets = kube::Api::<k8s_openapi::api::core::v1::Secret>::namespaced(client.clone(), "kubeedge");
        secrets.delete(CA.0, &Default::default()).await.unwrap();
        let other = Pki::ensure(&client, &names).await.unwrap();
        assert!(!other.ca().has_signed(&first.server().cert));
        assert!(other.ca().has_signed(&other.server().cert));
        let kept = Pki::ensure(&client, &names).await.unwrap();
        assert_eq!(other.server().cert, kept.server().cert);
    }
}
