//! The certificates that CloudHub, the stream server and the enrolment server show and accept: the cloud's own, or those of a fault.

use std::{sync::Arc, time::Duration};

use rustls::{ServerConfig, server::danger::ClientCertVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer, UnixTime};
use tokio::sync::watch;
use wire::enroll::{Ca, Token};

use super::{
    NodeCertificates, Pki, PkiError, RecordError, RejectedNode, RejectionCause, RejectionReports,
    ServerIdentity,
    tls::{node_verifiers, server_tls},
};
use crate::faults::{Certificate, Faults};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A name that no cloud has.
const WRONG_NAME: &str = "elsewhere.invalid";

/// The keys for every certificate fault; cheap to clone.
#[derive(Clone, Debug)]
pub struct Trust {
    now: watch::Receiver<Certificate>,
    all: Arc<TrustKeys>,
}

#[derive(Debug)]
struct TrustKeys {
    /// In the order of [`Certificate::ALL`].
    keys: Vec<ServerKeys>,
    genuine: Arc<Ca>,
    rotated: Arc<Ca>,
    certificates: NodeCertificates,
    grace: Duration,
    rejected: RejectionReports,
}

/// The keys of the servers for one certificate fault.
#[derive(Debug)]
struct ServerKeys {
    hub: Arc<ServerConfig>,
    enrolment: Arc<ServerConfig>,
    /// The certificate that both show.
    certificate: CertificateDer<'static>,
    /// Verify nodes' certificates: the hub's and the enrolment server's.
    verifiers: [Arc<dyn ClientCertVerifier>; 2],
}

impl Trust {
    /// Makes the keys. `names` has the names of the cloud; an expired node's certificate can be renewed within `grace`; nodes that are
    /// rejected are reported to `rejected`; `certificates` has the valid ones of nodes.
    pub(crate) fn new(
        pki: &Pki,
        names: &[String],
        grace: Duration,
        rejected: RejectionReports,
        faults: &Faults,
        certificates: NodeCertificates,
    ) -> Result<Self, PkiError> {
        let rotated = Arc::new(Ca::generate(clock::system_now())?);
        let mut keys = Vec::new();
        for certificate in Certificate::ALL {
            let identity = identity(pki, &rotated, names, certificate)?;
            let verifiers = node_verifiers(&identity, grace, &rejected)?;
            let [of_hub, of_enrolment] = verifiers.clone();
            let mut enrolment = server_tls(&identity, of_enrolment)?;
            enrolment.alpn_protocols = kubeapi::serve::ALPN.map(<[u8]>::to_vec).to_vec();
            keys.push(ServerKeys {
                hub: Arc::new(server_tls(&identity, of_hub)?),
                enrolment: Arc::new(enrolment),
                certificate: identity.cert,
                verifiers,
            });
        }
        let all = TrustKeys {
            keys,
            genuine: Arc::clone(pki.ca()),
            rotated,
            certificates,
            grace,
            rejected,
        };
        Ok(Self {
            now: faults.certificate(),
            all: Arc::new(all),
        })
    }

    /// Returns the TLS configuration of the hub.
    pub fn hub(&self) -> Arc<ServerConfig> {
        self.keys().hub.clone()
    }

    /// Returns the TLS configuration of the enrolment server.
    pub fn enrolment(&self) -> Arc<ServerConfig> {
        self.keys().enrolment.clone()
    }

    /// Returns the certificate that the servers show.
    pub(crate) fn server_certificate(&self) -> CertificateDer<'static> {
        self.keys().certificate.clone()
    }

    /// Verifies the certificate of a node at the hub, as TLS does.
    pub(crate) fn verify_node(
        &self,
        certificate: &CertificateDer<'_>,
    ) -> Result<(), rustls::Error> {
        self.verify(certificate, 0)
    }

    /// Verifies the certificate of a node at the enrolment server, as TLS does.
    pub(crate) fn verify_enrolling(
        &self,
        certificate: &CertificateDer<'_>,
    ) -> Result<(), rustls::Error> {
        self.verify(certificate, 1)
    }

    fn verify(&self, certificate: &CertificateDer<'_>, server: usize) -> Result<(), rustls::Error> {
        let now = UnixTime::since_unix_epoch(clock::since_unix_epoch());
        self.keys().verifiers[server]
            .verify_client_cert(certificate, &[], now)
            .map(drop)
    }

    /// Returns the certificate fault of these keys.
    pub fn certificate(&self) -> Certificate {
        *self.now.borrow()
    }

    /// Returns the CA that signs nodes' certificates.
    pub fn authority(&self) -> &Arc<Ca> {
        match *self.now.borrow() {
            Certificate::RotatedAuthority => &self.all.rotated,
            _ => &self.all.genuine,
        }
    }

    /// Returns the records of nodes' certificates.
    pub fn certificates(&self) -> &NodeCertificates {
        &self.all.certificates
    }

    /// Returns how long after its end a node's certificate can be renewed.
    pub fn grace(&self) -> Duration {
        self.all.grace
    }

    /// Reports whether the node may connect with this certificate (DER), which TLS has verified.
    pub async fn admits(&self, node: &str, certificate: &[u8]) -> Result<bool, RecordError> {
        self.all
            .certificates
            .admit(node, certificate, self.authority().cert_der())
            .await
    }

    /// Returns why the node may not connect with it, if so, and reports the node.
    pub async fn refusal(&self, node: &str, certificate: &[u8]) -> Option<String> {
        let why = self.find_refusal(node, certificate).await?;
        // beyond the capacity they are dropped: the node comes again
        let _ = self.all.rejected.try_send(RejectedNode {
            node: node.to_owned(),
            cause: RejectionCause::Refused(why.clone()),
        });
        Some(why)
    }

    async fn find_refusal(&self, node: &str, certificate: &[u8]) -> Option<String> {
        match self.admits(node, certificate).await {
            Ok(true) => None,
            Ok(false) if self.certificates().is_lost(node).await.unwrap_or_default() => {
                Some(lost_message(node))
            }
            Ok(false) => Some(format!(
                "this certificate of node {node} was revoked: the Node was deleted, the name reset, or another machine has joined \
                 with it; run `edge-agent reset` and join again"
            )),
            Err(error) => Some(format!(
                "this cloud cannot say whether the certificate counts: {error}"
            )),
        }
    }

    /// Signs a join token with that CA, valid for a day.
    pub fn token(&self) -> Result<String, PkiError> {
        Ok(Token::mint(self.authority(), clock::system_now(), DAY)?)
    }

    /// Waits until other keys are to be shown; forever if they cannot change. Cancel-safe: a change that is not seen is kept.
    pub async fn changed(&mut self) {
        if self.now.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn keys(&self) -> &ServerKeys {
        let now = *self.now.borrow();
        let place = Certificate::ALL
            .iter()
            .position(|one| *one == now)
            .unwrap_or_default();
        // there is a pair for each fault
        self.all.keys.get(place).unwrap_or(&self.all.keys[0])
    }
}

/// Returns why no certificate of `node` is valid after its record was lost, and what to do.
pub(crate) fn lost_message(node: &str) -> String {
    format!(
        "which certificates of node {node} count was lost with the cloud's database, which was damaged and repaired: until an \
         administrator says so, none does, and a join token gives no other one. Let an administrator run `cloudsim node reset {node}` \
         (`cloudsim node reset --lost` for all such names), or delete the Node; then run `edge-agent reset` and join again"
    )
}

/// Returns the certificate that a server shows, and the CA whose nodes it accepts.
fn identity(
    pki: &Pki,
    rotated: &Ca,
    names: &[String],
    certificate: Certificate,
) -> Result<ServerIdentity, PkiError> {
    let (ca, now) = (pki.ca(), clock::system_now());
    let year = DAY * 365;
    let (cert, key) = match certificate {
        Certificate::Genuine => return Ok(pki.server().clone_key()),
        Certificate::Expired => ca.sign_server_for(names, DAY, now - DAY * 30)?,
        Certificate::NotYetValid => ca.sign_server_for(names, year, now + DAY)?,
        Certificate::WrongName => ca.sign_server_for([WRONG_NAME], year, now)?,
        Certificate::UnknownAuthority => Ca::generate(now)?.sign_server_for(names, year, now)?,
        Certificate::RotatedAuthority => rotated.sign_server_for(names, year, now)?,
    };
    let trusted = if certificate == Certificate::RotatedAuthority {
        rotated
    } else {
        ca
    };
    Ok(ServerIdentity {
        ca: CertificateDer::from(trusted.cert_der().to_vec()),
        cert: CertificateDer::from(cert),
        key: PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key)),
    })
}
