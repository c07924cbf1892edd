//! What CloudHub, the stream server and the enrolment server show and whom they trust: the cloud's own keys, or what a fault puts in their place.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer};
use tokio::sync::watch;
use wire::enroll::{Ca, Token};

use super::{NodeCertificates, Pki, PkiError, RecordError, ServerIdentity, enrolment_tls, hub_tls};
use crate::faults::{Certificate, Faults};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A name that no cloud has.
const ELSEWHERE: &str = "elsewhere.invalid";

/// Keys for every state of the servers for nodes; cheap to clone.
#[derive(Clone, Debug)]
pub struct Trust {
    now: watch::Receiver<Certificate>,
    all: Arc<All>,
}

#[derive(Debug)]
struct All {
    /// In the order of [`Certificate::ALL`]: the hub's, the enrolment server's.
    keys: Vec<(Arc<ServerConfig>, Arc<ServerConfig>)>,
    genuine: Arc<Ca>,
    rotated: Arc<Ca>,
    certificates: NodeCertificates,
    grace: Duration,
}

impl Trust {
    /// Makes the keys. `names`: those by which the cloud is reached; `grace`: how long after its end a node's certificate is good
    /// for its renewal; `certificates`: those that nodes are known by.
    pub fn new(
        pki: &Pki,
        names: &[String],
        grace: Duration,
        faults: &Faults,
        certificates: NodeCertificates,
    ) -> Result<Self, PkiError> {
        let rotated = Arc::new(Ca::generate(SystemTime::now())?);
        let mut keys = Vec::new();
        for certificate in Certificate::ALL {
            let identity = identity(pki, &rotated, names, certificate)?;
            let mut enrolment = enrolment_tls(&identity, grace)?;
            enrolment.alpn_protocols = kubeapi::serve::ALPN.map(<[u8]>::to_vec).to_vec();
            keys.push((Arc::new(hub_tls(&identity)?), Arc::new(enrolment)));
        }
        let all = All { keys, genuine: Arc::clone(pki.ca()), rotated, certificates, grace };
        Ok(Self { now: faults.certificate(), all: Arc::new(all) })
    }

    /// The hub's keys.
    pub fn hub(&self) -> Arc<ServerConfig> {
        self.keys().0.clone()
    }

    /// The enrolment server's keys.
    pub fn enrolment(&self) -> Arc<ServerConfig> {
        self.keys().1.clone()
    }

    /// Which keys these are.
    pub fn shown(&self) -> Certificate {
        *self.now.borrow()
    }

    /// Who signs nodes' certificates.
    pub fn authority(&self) -> &Arc<Ca> {
        match *self.now.borrow() {
            Certificate::RotatedAuthority => &self.all.rotated,
            _ => &self.all.genuine,
        }
    }

    /// Which certificates nodes are known by.
    pub fn certificates(&self) -> &NodeCertificates {
        &self.all.certificates
    }

    /// How long after its end a node's certificate is good for its renewal.
    pub fn grace(&self) -> Duration {
        self.all.grace
    }

    /// Whether the node may come with this certificate (DER), which TLS has verified.
    pub async fn admits(&self, node: &str, certificate: &[u8]) -> Result<bool, RecordError> {
        self.all.certificates.admit(node, certificate, self.authority().cert_der()).await
    }

    /// The same in words: why the node may not come with it, where that is so.
    pub async fn refusal(&self, node: &str, certificate: &[u8]) -> Option<String> {
        match self.admits(node, certificate).await {
            Ok(true) => None,
            Ok(false) if self.certificates().is_lost(node).await.unwrap_or_default() => {
                Some(lost_message(node))
            }
            Ok(false) => Some(format!(
                "this certificate of node {node} was taken back: the Node was deleted, the name reset, or another machine has joined \
                 with it; run `edge-agent reset` and join anew"
            )),
            Err(error) => Some(format!("this cloud cannot say whether the certificate counts: {error}")),
        }
    }

    /// A join token of that authority, good for a day.
    pub fn token(&self) -> Result<String, PkiError> {
        Ok(Token::mint(self.authority(), SystemTime::now(), DAY)?)
    }

    /// Waits until other keys are to be shown. Cancel-safe: a change that is not seen stays. Never, where nobody can change it.
    pub async fn changed(&mut self) {
        if self.now.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn keys(&self) -> &(Arc<ServerConfig>, Arc<ServerConfig>) {
        let now = *self.now.borrow();
        let place = Certificate::ALL.iter().position(|one| *one == now).unwrap_or_default();
        // there is one pair for each
        self.all.keys.get(place).unwrap_or(&self.all.keys[0])
    }
}

/// Why no certificate of `node` counts where the record of them was lost, and what is to be done.
pub(crate) fn lost_message(node: &str) -> String {
    format!(
        "which certificates of node {node} count was lost with the cloud's database, which was damaged and repaired: until an \
         administrator says so, none does, and a join token gives no other one. Let an administrator run `cloudsim node reset {node}` \
         (`cloudsim node reset --lost` for all such names), or delete the Node; then run `edge-agent reset` and join anew"
    )
}

/// What a server shows, and the authority whose nodes it lets in.
fn identity(
    pki: &Pki,
    rotated: &Ca,
    names: &[String],
    certificate: Certificate,
) -> Result<ServerIdentity, PkiError> {
    let (ca, now) = (pki.ca(), SystemTime::now());
    let year = DAY * 365;
    let (cert, key) = match certificate {
        Certificate::Genuine => return Ok(pki.server().clone_key()),
        Certificate::Expired => ca.sign_server_for(names, DAY, now - DAY * 30)?,
        Certificate::NotYetValid => ca.sign_server_for(names, year, now + DAY)?,
        Certificate::WrongName => ca.sign_server_for([ELSEWHERE], year, now)?,
        Certificate::UnknownAuthority => Ca::generate(now)?.sign_server_for(names, year, now)?,
        Certificate::RotatedAuthority => rotated.sign_server_for(names, year, now)?,
    };
    let trusted = if certificate == Certificate::RotatedAuthority { rotated } else { ca };
    Ok(ServerIdentity {
        ca: CertificateDer::from(trusted.cert_der().to_vec()),
        cert: CertificateDer::from(cert),
        key: PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key)),
    })
}
