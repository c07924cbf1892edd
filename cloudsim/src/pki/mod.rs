//! The cloud's keys and certificates, stored in the API as CloudCore does: Secrets `casecret`, `cloudcoresecret` and `tokensecret` in
//! namespace `kubeedge`.
//!
//! Source: KubeEdge's CloudHub (preparation of CA, server certificate and token).

mod client_ca;
mod error;
mod join_token;
mod node_certificates;
mod node_verifier;
mod records;
pub(crate) mod reserved_names;
mod secrets;
mod service_accounts;
mod tls;
mod trust;

use std::{collections::BTreeMap, sync::Arc};

use kube::Client;
use objectstore::{Key, Resource};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer};
use tracing::error;
use wire::enroll::{Ca, EcKey, pem_certificate};

pub(crate) use self::node_verifier::{
    RejectedNode, RejectionCause, RejectionReports, is_expired, rejection_reports,
};
pub(crate) use self::records::{
    Change, LABEL as RECORDS_LABEL, Precondition, RecordEntry, Records,
};
pub use self::secrets::NAMESPACE;
use self::secrets::{Data, Secrets};
pub(crate) use self::trust::lost_message;
pub use self::{
    client_ca::publish as publish_client_ca,
    error::PkiError,
    join_token::{JoinToken, JoinTokenError, JoinTokens, TokenRequest},
    node_certificates::{LostRecords, Name, NodeCertificates, RecordError, UNKNOWN},
    records::RecordsError,
    service_accounts::ServiceAccountTokens,
    tls::api_tls,
    trust::Trust,
};

const CA: (&str, &str, &str) = ("casecret", "cadata", "cakeydata");
/// The CA of connections between replicas, which CloudCore does not have.
const REPLICAS: (&str, &str, &str) = ("cloudsimreplicasecret", "cadata", "cakeydata");
const SERVER: (&str, &str, &str) = ("cloudcoresecret", "cloudcoredata", "cloudcorekeydata");
/// The CA of the certificate with which the API forwards requests to other API servers, which CloudCore does not have.
const FRONT_PROXY: (&str, &str, &str) = ("cloudsimfrontproxysecret", "cadata", "cakeydata");
/// Not in CloudCore: a real cluster signs service account tokens itself.
const ACCOUNTS: (&str, &str) = ("serviceaccountsecret", "keydata");

/// A server certificate with its key, and the CA that signed it.
#[derive(Debug)]
pub struct ServerIdentity {
    /// The CA certificate.
    pub ca: CertificateDer<'static>,
    /// The server certificate.
    pub cert: CertificateDer<'static>,
    /// The key of the server certificate.
    pub key: PrivateKeyDer<'static>,
}

impl ServerIdentity {
    pub(crate) fn clone_key(&self) -> Self {
        Self {
            ca: self.ca.clone(),
            cert: self.cert.clone(),
            key: self.key.clone_key(),
        }
    }
}

/// The cloud's CA and server certificate.
#[derive(Debug)]
pub struct Pki {
    ca: Arc<Ca>,
    server: ServerIdentity,
}

impl Pki {
    /// Reads the keys from the API, and makes missing ones. `names` has the DNS names and IP addresses of the cloud; the server
    /// certificate is signed again if it lacks one of them, or another CA has signed it.
    pub async fn ensure(client: &Client, names: &[String]) -> Result<Self, PkiError> {
        let secrets = Secrets::new(client);
        let ca = Arc::new(ensure_ca(&secrets, CA).await?);
        let (cert, key) = ensure_server(&secrets, &ca, names, NamePolicy::AsGiven).await?;
        Ok(Self::of(ca, cert, key))
    }

    /// Does the same before a cluster's API server, where replicas share the keys: the server certificate keeps the names that it has.
    pub async fn ensure_shared(client: &Client, names: &[String]) -> Result<Self, PkiError> {
        let secrets = Secrets::new(client);
        let ca = Arc::new(ensure_ca(&secrets, CA).await?);
        let (cert, key) = ensure_server(&secrets, &ca, names, NamePolicy::Also).await?;
        Ok(Self::of(ca, cert, key))
    }

    /// Reads the CA from the API.
    pub async fn read_authority(client: &Client) -> Result<Option<Ca>, PkiError> {
        let (secret, cert, key) = CA;
        let Some(data) = Secrets::new(client).get(secret).await? else {
            return Ok(None);
        };
        let ca = Ca::from_der(data.field(cert)?, data.field(key)?);
        ca.map(Some).map_err(|error| PkiError::Secret {
            secret,
            why: error.to_string(),
        })
    }

    fn of(ca: Arc<Ca>, cert: Vec<u8>, key: Vec<u8>) -> Self {
        let server = ServerIdentity {
            ca: CertificateDer::from(ca.cert_der().to_vec()),
            cert: CertificateDer::from(cert),
            key: PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key)),
        };
        Self { ca, server }
    }

    /// Returns the CA.
    pub fn ca(&self) -> &Arc<Ca> {
        &self.ca
    }

    /// Returns the CA certificate in PEM.
    pub fn ca_pem(&self) -> String {
        pem_certificate(self.ca.cert_der())
    }

    /// Returns the server certificate.
    pub fn server(&self) -> &ServerIdentity {
        &self.server
    }

    /// Signs a new client certificate with all rights; returns it as DER with its key as SEC1 DER.
    pub fn sign_admin(&self) -> Result<(Vec<u8>, Vec<u8>), PkiError> {
        Ok(self.ca.sign_admin(clock::system_now())?)
    }
}

/// Returns what to record of nodes' certificates whose records a repair of the database has lost.
pub fn lost_records() -> LostRecords {
    LostRecords {
        authority: Key::new(Resource::new("", "secrets"), secrets::NAMESPACE, CA.0),
    }
}

/// Returns the key that signs service account tokens; makes it if it is missing.
pub async fn ensure_accounts_key(client: &Client) -> Result<EcKey, PkiError> {
    let (secret, field) = ACCOUNTS;
    let secrets = Secrets::new(client);
    let made = EcKey::generate()?;
    // tokens that were signed with a key that is lost are issued again when they are refused
    let data = secrets
        .ensure_readable(secret, BTreeMap::from([(field, made.sec1_der().to_vec())]))
        .await?;
    EcKey::from_sec1_der(data.field(field)?).map_err(|error| PkiError::Secret {
        secret,
        why: error.to_string(),
    })
}

/// Returns the CA that signs the certificates with which replicas identify each other; makes it if it is missing. It is not that of nodes,
/// because CloudCore signs any name that a node requests.
pub(crate) async fn ensure_replica_ca(client: &Client) -> Result<Ca, PkiError> {
    ensure_ca(&Secrets::new(client), REPLICAS).await
}

/// Returns the CA of the certificate with which the API forwards requests; makes it if it is missing.
pub async fn ensure_front_proxy(client: &Client) -> Result<Ca, PkiError> {
    let (secret, cert, key) = FRONT_PROXY;
    // other servers read the new one from the ConfigMap
    let data = Secrets::new(client)
        .ensure_readable(secret, new_ca(cert, key)?)
        .await?;
    read_ca(&data, FRONT_PROXY)
}

async fn ensure_ca(
    secrets: &Secrets,
    place: (&'static str, &'static str, &'static str),
) -> Result<Ca, PkiError> {
    let (secret, cert, key) = place;
    let data = secrets.ensure(secret, new_ca(cert, key)?).await?;
    read_ca(&data, place)
}

fn new_ca<'a>(cert: &'a str, key: &'a str) -> Result<BTreeMap<&'a str, Vec<u8>>, PkiError> {
    let made = Ca::generate(clock::system_now())?;
    Ok(BTreeMap::from([
        (cert, made.cert_der().to_vec()),
        (key, made.key_sec1_der().to_vec()),
    ]))
}

fn read_ca(data: &Data, (secret, cert, key): (&'static str, &str, &str)) -> Result<Ca, PkiError> {
    Ca::from_der(data.field(cert)?, data.field(key)?).map_err(|error| PkiError::Secret {
        secret,
        why: error.to_string(),
    })
}

/// The names of a server certificate that is signed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamePolicy {
    /// Only the given names.
    AsGiven,
    /// The given names and those of the previous certificate.
    Also,
}

/// How often signing the certificate is tried when others do the same.
const MAX_ATTEMPTS: usize = 8;

async fn ensure_server(
    secrets: &Secrets,
    ca: &Ca,
    names: &[String],
    kept: NamePolicy,
) -> Result<(Vec<u8>, Vec<u8>), PkiError> {
    let (secret, cert, key) = SERVER;
    for _ in 0..MAX_ATTEMPTS {
        let (mut all, mut version) = (names.to_vec(), None);
        let stored = match secrets.get(secret).await {
            Err(PkiError::Damaged { secret, why }) => {
                error!(
                    secret,
                    error = why,
                    "certificate of the cloud damaged; reissuing it"
                );
                None
            }
            stored => stored?,
        };
        if let Some(data) = stored {
            version = data.version.clone();
            if let (Ok(cert), Ok(key)) = (data.field(cert), data.field(key)) {
                // the CA may have been lost and made again
                let is_own = ca.has_signed(cert);
                if is_own && tls::names(cert, names) && tls::is_pair(cert, key) {
                    return Ok((cert.to_vec(), key.to_vec()));
                }
                if kept == NamePolicy::Also && is_own {
                    all.extend(
                        tls::names_of(cert)
                            .into_iter()
                            .filter(|name| !names.contains(name)),
                    );
                }
            }
        }
        let (signed, signed_key) = ca.sign_server(&all, clock::system_now())?;
        let fields = BTreeMap::from([(cert, signed.clone()), (key, signed_key.clone())]);
        if secrets.put_over(secret, fields, version).await? {
            return Ok((signed, signed_key));
        }
    }
    Err(PkiError::Secret {
        secret,
        why: "others change it all the time".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use objectstore::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_new_authority_signs_the_servers_anew() {
        let client = apiserver::builder(MemoryStore::new())
            .build()
            .client("default");
        crate::controllers::namespace_defaults::ensure_initial(&client)
            .await
            .unwrap();
        let names = ["localhost".to_owned()];
        let first = Pki::ensure(&client, &names).await.unwrap();
        let again = Pki::ensure(&client, &names).await.unwrap();
        assert_eq!(first.server().cert, again.server().cert, "it stays");
        let secrets =
            kube::Api::<k8s_openapi::api::core::v1::Secret>::namespaced(client.clone(), "kubeedge");
        secrets.delete(CA.0, &Default::default()).await.unwrap();
        let other = Pki::ensure(&client, &names).await.unwrap();
        assert!(!other.ca().has_signed(&first.server().cert));
        assert!(other.ca().has_signed(&other.server().cert));
        let kept = Pki::ensure(&client, &names).await.unwrap();
        assert_eq!(other.server().cert, kept.server().cert);
    }
}
