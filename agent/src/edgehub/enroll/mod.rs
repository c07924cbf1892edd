//! Enrolment: gets a certificate for this node with a join token, once; afterwards reads it from its files, and renews it.
//!
//! Source: KubeEdge's certificate manager (EdgeHub) and CloudHub's HTTPS endpoints `/ca.crt` and `/edge.crt`.

mod bootstrap;
mod files;
mod renewal;
mod verifier;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use record::Recorder;
use rustls::ClientConfig;
use tracing::{info, warn};
use wire::{
    enroll::{Csr, Token, validity_of},
    text::with_causes,
};

use self::bootstrap::Credential;
pub(crate) use self::bootstrap::ServerAnswer;
pub(super) use self::{files::Credentials, renewal::Renewal, verifier::verifier};
use super::{Config, Proxy, unreached::unreached_cure};
use crate::{config::HostPort, tls::CertificateFault};

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum EnrollError {
    /// There is no certificate, and no token to get one.
    #[error(
        "this node has neither a certificate ({0}) nor a join token; run `edge-agent reset`, then `edge-agent join --cloud HOST \
         --token TOKEN`, or set modules.edgeHub.token"
    )]
    NoToken(PathBuf),
    /// The token is malformed.
    #[error("the join token is unusable")]
    Token(#[source] wire::enroll::TokenError),
    /// The configured URL is malformed.
    #[error("{0} is not https://host:port")]
    Url(String),
    /// The bootstrap server cannot be reached.
    #[error("cannot reach {url}; {}", unreached_remedy(server, &**source, "the address of the cloud"))]
    Unreachable {
        /// The requested URL.
        url: String,
        /// The server, `HOST:PORT`.
        server: String,
        /// The error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A certificate is not valid at this time.
    #[error("cannot request a certificate at {url}: {fault}")]
    Certificate {
        /// The requested URL.
        url: String,
        /// Which certificate, and the cure.
        fault: CertificateFault,
    },
    /// The server's CA does not match the token, or did not sign the server's certificate.
    #[error("cannot join the cloud at {url}: {why}; {OTHER_CLOUD}")]
    WrongCloud {
        /// The requested URL.
        url: String,
        /// What does not match.
        why: String,
    },
    /// The server's certificate is of the token's cloud, but for other names than the one in the URL.
    #[error(
        "the certificate of the cloud at {url} is not for {host} but for {names}; use one of these names in the configuration, or add \
         {host} to the cloud's certificate (cloudsim up --name {host}; CloudCore: advertiseAddress)"
    )]
    OtherName {
        /// The requested URL.
        url: String,
        /// The host name in the URL.
        host: String,
        /// The names in the certificate.
        names: String,
    },
    /// The server's certificate is of the token's cloud, but not valid now.
    #[error(
        "the certificate of the cloud at {url} is not valid now ({why}); correct this machine's clock, or the cloud's"
    )]
    WrongTime {
        /// The requested URL.
        url: String,
        /// Whether it is not valid yet, or has expired.
        why: String,
    },
    /// The server refused the request.
    #[error("{url} refused: {status} {said}{}", after_semicolon(refusal_remedy(*status, said)))]
    Refused {
        /// The requested URL.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The text of the answer.
        said: String,
    },
    /// A file cannot be read or written, or has unexpected content.
    #[error("{path}: {why}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong, and the cure.
        why: String,
    },
    /// Keys or certificates cannot be generated or used.
    #[error("keys and certificate cannot be used: {0}")]
    Crypto(String),
}

/// The remedy if the token is not of the cloud at this address.
const OTHER_CLOUD: &str = "use the token of this cloud, from `cloudsim token` or `keadm gettoken`, or correct the address";

/// The remedy if the token is refused. The hash in the token is that of the cloud's CA, so this is the token's cloud.
const NEW_TOKEN: &str = "the token may have expired or been used; get a new one with `cloudsim token` or `keadm gettoken`";

/// The remedy if the token is for another node.
const OTHER_NODE: &str = "join with the name of that node (--name), or get a token for this one: `cloudsim token --node NAME`";

/// Returns the remedy for a refusal with this status and text, which may contain one itself.
fn refusal_remedy(status: u16, said: &str) -> &'static str {
    match status {
        401 | 403 if said.contains("of another cloud") => OTHER_CLOUD,
        401 | 403 if said.contains("is for node") => OTHER_NODE,
        401 | 403 if !said.contains("get a new") => NEW_TOKEN,
        404 => "check that this is the port of the cloud's HTTPS server",
        _ => "",
    }
}

/// Returns the remedy for a server that cannot be reached, which is in this setting or option.
fn unreached_remedy(
    server: &str,
    source: &(dyn std::error::Error + 'static),
    setting: &str,
) -> String {
    let other = io::Error::from(io::ErrorKind::Other);
    unreached_cure(source.downcast_ref().unwrap_or(&other), server, setting)
}

/// Returns a remedy as the end of a sentence.
fn after_semicolon(remedy: &str) -> String {
    match remedy {
        "" => String::new(),
        remedy => format!("; {remedy}"),
    }
}

impl EnrollError {
    /// Returns what is wrong, without a remedy.
    pub fn what(&self) -> String {
        match self {
            Self::Unreachable { url, source, .. } => {
                format!("cannot reach {url}: {}", with_causes(&**source))
            }
            Self::WrongCloud { url, why } => {
                format!("cannot join the cloud at {url}: {why}")
            }
            Self::OtherName { url, host, names } => {
                format!("the certificate of the cloud at {url} is not for {host} but for {names}")
            }
            Self::WrongTime { url, why } => {
                format!("the certificate of the cloud at {url} is not valid now ({why})")
            }
            Self::Token(source) => source.to_string(),
            Self::Refused { url, status, said } => format!("{url} refused: {status} {said}"),
            other => with_causes(other),
        }
    }

    /// Returns the remedy for a command line, which names options of `edge-agent join` rather than settings.
    pub(crate) fn join_remedy(&self) -> String {
        let remedy = match self {
            Self::Unreachable { server, source, .. } => {
                return unreached_remedy(server, &**source, "--cloud and --cert-port");
            }
            Self::OtherName { .. } => {
                "use one of these names in --cloud, or start the cloud with this name (--name)"
            }
            Self::WrongTime { .. } | Self::Certificate { .. } => "compare `date` on both machines",
            Self::Refused {
                status: 401 | 403,
                said,
                ..
            } if said.contains("get a new") => {
                "get a new token with `cloudsim token` or `keadm gettoken`"
            }
            other => match other.remedy() {
                "" => "check the cloud's log",
                remedy => remedy,
            },
        };
        remedy.to_owned()
    }

    /// Returns the remedy where it does not depend on how the program was started.
    fn remedy(&self) -> &'static str {
        match self {
            Self::WrongCloud { .. } => OTHER_CLOUD,
            Self::Token(_) => "get the token with `cloudsim token` or `keadm gettoken`",
            Self::Refused { status, said, .. } => refusal_remedy(*status, said),
            _ => "",
        }
    }
    /// Reports whether the same request may succeed later without a person's help.
    pub(super) fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Certificate { .. } => true,
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

/// This node's certificate with its TLS configuration and validity.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    credentials: Arc<Credentials>,
    /// Created when it is needed: a node of the cloud's process has no TLS.
    tls: Arc<OnceLock<Arc<ClientConfig>>>,
    /// The validity period.
    validity: (SystemTime, SystemTime),
}

impl Identity {
    fn new(credentials: Credentials) -> Result<Self, EnrollError> {
        Self::of(Arc::new(credentials))
    }

    fn of(credentials: Arc<Credentials>) -> Result<Self, EnrollError> {
        let validity = validity_of(credentials.cert())
            .map_err(|error| EnrollError::Crypto(error.to_string()))?;
        Ok(Self {
            credentials,
            tls: Arc::default(),
            validity,
        })
    }

    /// Returns the TLS configuration for the cloud.
    pub(super) fn tls(&self) -> Result<Arc<ClientConfig>, EnrollError> {
        if let Some(tls) = self.tls.get() {
            return Ok(Arc::clone(tls));
        }
        let tls = Arc::new(self.credentials.client_config()?);
        Ok(Arc::clone(self.tls.get_or_init(|| tls)))
    }

    fn has_expired(&self) -> bool {
        self.validity.1 <= clock::system_now()
    }
}

/// What a cloud knows of a node's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeStatus {
    /// There is no such node.
    Unknown,
    /// The node exists; CloudCore returns nothing more, and accepts its name from every holder of a token.
    Exists,
    /// There is such a node, and its name is not given before an administrator has freed it.
    Taken,
    /// There is such a node, and its name is given.
    Free,
    /// There is such a node, and an agent is connected as it now.
    Connected,
}

/// Queries a node of this name, which has no certificate yet, and the cloud's CA (DER). The query also verifies that the cloud
/// is the token's, and that its address is in its certificate.
pub(crate) async fn probe(config: &Config) -> Result<(NodeStatus, Vec<u8>), EnrollError> {
    let text = config
        .token
        .as_ref()
        .ok_or_else(|| EnrollError::NoToken(config.cert_file.clone()))?;
    let token = Token::parse(text.expose()).map_err(EnrollError::Token)?;
    let mut last = EnrollError::Url(String::new());
    for server in &config.http_servers {
        match bootstrap::fetch_ca(config.into(), server, &token).await {
            Ok(ca) => {
                let proof = Credential::Token {
                    ca: &ca,
                    token: &token,
                };
                return Ok((bootstrap::query_node(config, server, &proof).await?, ca));
            }
            Err(error) if error.is_retryable() => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Reports whether this node must join again: the cloud would issue a certificate for its name, and refuses the one in its files. The node
/// was reset or deleted, or this is another cloud. The name of a node that has its certificate and no connection yet is free, too.
pub(crate) async fn must_rejoin(config: &Config) -> Result<bool, EnrollError> {
    let (status, ca) = probe(config).await?;
    let is_free = matches!(status, NodeStatus::Unknown | NodeStatus::Free);
    let Some(own) = files::load(config)?.filter(|_| is_free) else {
        return Ok(false);
    };
    if own.ca() != ca {
        return Ok(true);
    }
    let mut last = EnrollError::Url(String::new());
    for server in &config.http_servers {
        match bootstrap::query_node(config, server, &Credential::Certificate(&own)).await {
            Ok(_) => return Ok(false),
            Err(EnrollError::Refused { status: 401, .. }) => return Ok(true),
            Err(error) if error.is_retryable() => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Fetches the CA certificate (DER) of the cloud that `token` belongs to, from its HTTPS server.
///
/// # Errors
/// The server does not answer, or it is not the cloud of the token.
pub async fn fetch_ca(server: &HostPort, token: &Token) -> Result<Vec<u8>, EnrollError> {
    let client = bootstrap::Client {
        node: "",
        proxy: &Proxy::default(),
        recorder: &Recorder::default(),
        in_process: None,
    };
    bootstrap::fetch_ca(client, server, token).await
}

/// Asks one of the cloud's HTTPS servers for its time, and checks whether its certificate is one of the cloud's CA (DER).
///
/// # Errors
/// The server does not answer.
pub(crate) async fn request_time(
    config: &Config,
    server: &HostPort,
    ca: &[u8],
) -> Result<ServerAnswer, EnrollError> {
    bootstrap::request_time(config, server, ca).await
}

/// Checks that this node has a certificate, or a token to get one.
///
/// # Errors
/// It has neither, or a file of the certificate cannot be read.
pub(crate) fn check_identity(config: &Config) -> Result<(), EnrollError> {
    if config.token.is_some() || files::load(config)?.is_some() {
        return Ok(());
    }
    Err(EnrollError::NoToken(config.cert_file.clone()))
}

/// Gets this node's certificate with the token, and writes it to its files.
pub(crate) async fn enroll_with_token(config: &Config) -> Result<(), EnrollError> {
    keep(
        config,
        &request_with_token(config, &mut EnrollmentCsr::default()).await?,
    )
}

/// The first certificate request of a node. Every attempt sends the same one, so that the cloud can tell a node whose answer
/// was lost from another machine.
#[derive(Debug, Default)]
pub(super) struct EnrollmentCsr(Option<Csr>);

impl EnrollmentCsr {
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

/// Returns this node's identity: from the files if they have one, else with the token. An expired certificate is used if no
/// other can be had: pods go on, the cloud decides, and this machine's clock may be wrong.
pub(super) async fn identity(
    config: &Config,
    first: &mut EnrollmentCsr,
) -> Result<Identity, EnrollError> {
    let Some(credentials) = files::load(config)? else {
        return save_new(config, request_with_token(config, first).await?);
    };
    let identity = Identity::of(credentials)?;
    if !identity.has_expired() {
        return Ok(identity);
    }
    let ended: Duration = identity.validity.1.elapsed().unwrap_or_default();
    warn!(file = %config.cert_file.display(), hours = ended.as_secs() / 3600, "certificate of this node has expired");
    if config.token.is_none() {
        return Ok(identity);
    }
    match request_with_token(config, first).await {
        Ok(enrolled) => save_new(config, enrolled),
        Err(error) => {
            warn!(
                error = &error as &dyn std::error::Error,
                "failed to get a new certificate with the join token"
            );
            Ok(identity)
        }
    }
}

fn save_new(config: &Config, identity: Identity) -> Result<Identity, EnrollError> {
    keep(config, &identity)?;
    info!(node = %config.node_name, "enrolled: the cloud issued this node's certificate");
    Ok(identity)
}

/// Requests a new certificate for a new key, authenticated by `old`, or by the token if `old` has expired and there is one.
/// Nothing is written.
pub(super) async fn renew(config: &Config, old: &Identity) -> Result<Identity, EnrollError> {
    match &config.token {
        Some(_) if old.has_expired() => {
            request_with_token(config, &mut EnrollmentCsr::default()).await
        }
        _ => {
            request_certificate(
                config,
                AuthMethod::Renewal(old),
                &request(&config.node_name)?,
            )
            .await
        }
    }
}

/// Writes the identity to its files.
pub(super) fn keep(config: &Config, identity: &Identity) -> Result<(), EnrollError> {
    files::save(config, &identity.credentials)
}

async fn request_with_token(
    config: &Config,
    first: &mut EnrollmentCsr,
) -> Result<Identity, EnrollError> {
    let text = config
        .token
        .as_ref()
        .ok_or_else(|| EnrollError::NoToken(config.cert_file.clone()))?;
    let token = Token::parse(text.expose()).map_err(EnrollError::Token)?;
    request_certificate(
        config,
        AuthMethod::Token(&token),
        first.of(&config.node_name)?,
    )
    .await
}

/// How this node is authenticated.
#[derive(Clone, Copy)]
enum AuthMethod<'a> {
    Token(&'a Token),
    Renewal(&'a Identity),
}

/// Requests a certificate from one server after the other until one answers. A refusal is an answer.
async fn request_certificate(
    config: &Config,
    how: AuthMethod<'_>,
    csr: &Csr,
) -> Result<Identity, EnrollError> {
    let mut last = EnrollError::Url(String::new());
    for server in &config.http_servers {
        // boxed: what waits for a renewal would keep space for it
        match Box::pin(request_from(config, server, how, csr)).await {
            Err(error) if error.is_retryable() => last = error,
            answer => {
                let (ca, cert) = answer?;
                return Identity::new(Credentials::new(ca, cert, csr.key_sec1_der()));
            }
        }
    }
    Err(last)
}

/// Returns the CA and this node's certificate.
async fn request_from(
    config: &Config,
    server: &HostPort,
    how: AuthMethod<'_>,
    csr: &Csr,
) -> Result<(Vec<u8>, Vec<u8>), EnrollError> {
    match how {
        AuthMethod::Token(token) => {
            let ca = bootstrap::fetch_ca(config.into(), server, token).await?;
            let proof = Credential::Token { ca: &ca, token };
            let cert = bootstrap::fetch_certificate(config, server, &proof, csr.der()).await?;
            Ok((ca, cert))
        }
        AuthMethod::Renewal(old) => {
            let proof = Credential::Certificate(&old.credentials);
            let cert = bootstrap::fetch_certificate(config, server, &proof, csr.der()).await?;
            Ok((old.credentials.ca().to_vec(), cert))
        }
    }
}
