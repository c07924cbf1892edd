//! Enrolment: from a join token to a certificate of this node, once; afterwards from its files, and renewed with itself.
//!
//! Source: KubeEdge's certificate manager (EdgeHub) and CloudHub's HTTPS endpoints `/ca.crt` and `/edge.crt`.

mod bootstrap;
mod files;
mod renewal;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustls::ClientConfig;
use tracing::{info, warn};
use wire::enroll::{Csr, Token, validity_of};

use self::{bootstrap::Proof, files::Credentials};
pub(super) use self::{bootstrap::verifier, renewal::Renewal};
use super::Config;
use crate::config::HostPort;

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum EnrollError {
    /// No certificate, and no token to get one.
    #[error(
        "there is no certificate at {0} and no token: put the cloud's join token into modules.edgeHub.token"
    )]
    NoToken(PathBuf),
    /// The token is not one.
    #[error("modules.edgeHub.token is unusable")]
    Token(#[source] wire::enroll::TokenError),
    /// The configured URL is not one.
    #[error("modules.edgeHub.httpServer {0} is not https://host:port")]
    Url(String),
    /// The bootstrap server was not reached.
    #[error("cannot reach {url}; check that the cloud runs and modules.edgeHub.httpServer names it")]
    Unreachable {
        /// What was asked.
        url: String,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The CA that the server offers is not the token's, or did not sign the server's certificate.
    #[error(
        "the cloud at {url} is not the one that the token was made for: {why}; get a new token from this cloud"
    )]
    WrongCloud {
        /// What was asked.
        url: String,
        /// What does not match.
        why: String,
    },
    /// The server's certificate is of the token's cloud, and for other names than the one that it was reached by.
    #[error(
        "the certificate of the cloud at {url} is not for {host} but for {names}; write one of these into the configuration, or let \
         the cloud have {host} in its certificate (cloudsim up --name {host}; CloudCore: advertiseAddress)"
    )]
    OtherName {
        /// What was asked.
        url: String,
        /// By what name.
        host: String,
        /// The names in the certificate.
        names: String,
    },
    /// The server's certificate is of the token's cloud, and is not good now.
    #[error(
        "the certificate of the cloud at {url} is not good at this time ({why}); set this machine's clock, or the cloud's"
    )]
    WrongTime {
        /// What was asked.
        url: String,
        /// Before or after.
        why: String,
    },
    /// The server answered with a refusal.
    #[error("{url} refused: {status} {said}{}", cure(*status))]
    Refused {
        /// What was asked.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The answer's text.
        said: String,
    },
    /// A file cannot be read or written, or holds something else.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong and how to mend it.
        why: String,
    },
    /// Keys or certificates could not be made or used.
    #[error("keys and certificate cannot be used: {0}")]
    Crypto(String),
}

/// What most probably helps against a refusal with this status; one of a name that a node has says it itself.
fn cure(status: u16) -> &'static str {
    match status {
        409 => "",
        _ => "; the token may have expired (get a new one), or belong to another cloud",
    }
}

impl EnrollError {
    /// Whether the same try may succeed later without a person's help.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => *status >= 500,
            Self::NoToken(_)
            | Self::Token(_)
            | Self::Url(_)
            | Self::WrongCloud { .. }
            | Self::OtherName { .. }
            | Self::WrongTime { .. }
            | Self::File { .. }
            | Self::Crypto(_) => false,
        }
    }
}

/// This node's certificate with what was read out of it.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    credentials: Arc<Credentials>,
    tls: Arc<ClientConfig>,
    /// From when to when it is good.
    validity: (SystemTime, SystemTime),
}

impl Identity {
    fn new(credentials: Credentials) -> Result<Self, EnrollError> {
        let validity =
            validity_of(credentials.cert()).map_err(|error| EnrollError::Crypto(error.to_string()))?;
        let tls = Arc::new(credentials.client_config()?);
        Ok(Self { credentials: Arc::new(credentials), tls, validity })
    }

    /// TLS towards the cloud.
    pub(super) fn tls(&self) -> Arc<ClientConfig> {
        self.tls.clone()
    }

    fn has_expired(&self) -> bool {
        self.validity.1 <= SystemTime::now()
    }
}

/// What a cloud says of the node of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// There is none.
    No,
    /// There is one; CloudCore says no more.
    Yes,
    /// There is one, and an agent is connected as it now.
    Connected,
}

/// What the cloud knows of a node of this name, which has no certificate yet, and the cloud's CA (DER). What is asked for that shows
/// that the cloud is the one that the token was made for, and that it is reached by a name in its certificate.
pub(crate) async fn probe(config: &Config) -> Result<(Known, Vec<u8>), EnrollError> {
    let text = config.token.as_ref().ok_or_else(|| EnrollError::NoToken(config.cert_file.clone()))?;
    let token = Token::parse(text.expose()).map_err(EnrollError::Token)?;
    let mut last = EnrollError::Url(String::new());
    for server in &config.http_servers {
        match bootstrap::fetch_ca(config, server, &token).await {
            Ok(ca) => return Ok((bootstrap::known(config, server, &ca, &token).await?, ca)),
            Err(error) if error.may_pass() => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Gets this node's certificate with the token, and keeps it in its files.
pub(crate) async fn by_token_once(config: &Config) -> Result<(), EnrollError> {
    keep(config, &by_token(config, &mut FirstRequest::default()).await?)
}

/// The request with which a node without a certificate asks: the same at each try, by which the cloud knows one whose answer was lost from
/// another machine's.
#[derive(Debug, Default)]
pub(super) struct FirstRequest(Option<Csr>);

impl FirstRequest {
    fn of(&mut self, node: &str) -> Result<&Csr, EnrollError> {
        match &mut self.0 {
            Some(csr) => Ok(csr),
            none => Ok(none.insert(request(node)?)),
        }
    }
}

fn request(node: &str) -> Result<Csr, EnrollError> {
    Csr::for_node(node).map_err(|error| EnrollError::Crypto(error.to_string()))
}

/// This node's identity: from the files where they hold one, else by the token. A certificate that has expired is used where no
/// other can be had: pods run on, the cloud decides, and this machine's clock may be wrong.
pub(super) async fn identity(config: &Config, first: &mut FirstRequest) -> Result<Identity, EnrollError> {
    let Some(credentials) = files::load(config)? else {
        return keep_new(config, by_token(config, first).await?);
    };
    let identity = Identity::new(credentials)?;
    if !identity.has_expired() {
        return Ok(identity);
    }
    let ended: Duration = identity.validity.1.elapsed().unwrap_or_default();
    warn!(file = %config.cert_file.display(), hours = ended.as_secs() / 3600, "the node's certificate has expired");
    if config.token.is_none() {
        return Ok(identity);
    }
    match by_token(config, first).await {
        Ok(enrolled) => keep_new(config, enrolled),
        Err(error) => {
            warn!(
                error = &error as &dyn std::error::Error,
                "a new certificate could not be had with the token"
            );
            Ok(identity)
        }
    }
}

fn keep_new(config: &Config, identity: Identity) -> Result<Identity, EnrollError> {
    keep(config, &identity)?;
    info!(node = %config.node_name, "enrolled: the cloud issued this node's certificate");
    Ok(identity)
}

/// A new key and a new certificate in place of `old`, which is shown as proof; once it has expired, the token where there is
/// one. Nothing is written.
pub(super) async fn renew(config: &Config, old: &Identity) -> Result<Identity, EnrollError> {
    match &config.token {
        Some(_) if old.has_expired() => by_token(config, &mut FirstRequest::default()).await,
        _ => request_certificate(config, How::Renewal(old), &request(&config.node_name)?).await,
    }
}

/// Writes the identity to its files.
pub(super) fn keep(config: &Config, identity: &Identity) -> Result<(), EnrollError> {
    files::save(config, &identity.credentials)
}

async fn by_token(config: &Config, first: &mut FirstRequest) -> Result<Identity, EnrollError> {
    let text = config.token.as_ref().ok_or_else(|| EnrollError::NoToken(config.cert_file.clone()))?;
    let token = Token::parse(text.expose()).map_err(EnrollError::Token)?;
    request_certificate(config, How::Token(&token), first.of(&config.node_name)?).await
}

/// By what the cloud knows this node.
#[derive(Clone, Copy)]
enum How<'a> {
    Token(&'a Token),
    Renewal(&'a Identity),
}

/// Asks one server after the other until one answers. A refusal is an answer.
async fn request_certificate(config: &Config, how: How<'_>, csr: &Csr) -> Result<Identity, EnrollError> {
    let mut last = EnrollError::Url(String::new());
    for server in &config.http_servers {
        match request_from(config, server, how, csr).await {
            Err(error) if error.may_pass() => last = error,
            answer => {
                let (ca, cert) = answer?;
                return Identity::new(Credentials::new(ca, cert, csr.key_sec1_der()));
            }
        }
    }
    Err(last)
}

/// The CA and this node's certificate.
async fn request_from(
    config: &Config,
    server: &HostPort,
    how: How<'_>,
    csr: &Csr,
) -> Result<(Vec<u8>, Vec<u8>), EnrollError> {
    match how {
        How::Token(token) => {
            let ca = bootstrap::fetch_ca(config, server, token).await?;
            let proof = Proof::Token { ca: &ca, token };
            let cert = bootstrap::fetch_certificate(config, server, &proof, csr.der()).await?;
            Ok((ca, cert))
        }
        How::Renewal(old) => {
            let proof = Proof::Certificate(&old.tls);
            let cert = bootstrap::fetch_certificate(config, server, &proof, csr.der()).await?;
            Ok((old.credentials.ca().to_vec(), cert))
        }
    }
}
