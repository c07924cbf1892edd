//! Enrolment: from a join token to a certificate of this node, once; afterwards from its files.
//!
//! Source: KubeEdge's certificate manager (EdgeHub) and CloudHub's HTTPS endpoints `/ca.crt` and `/edge.crt`.

mod bootstrap;
mod files;

use std::{path::PathBuf, sync::Arc};

use rustls::ClientConfig;
use tracing::info;
use wire::enroll::{Csr, Token};

use self::files::Credentials;
use super::Config;

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
    /// The server answered with a refusal.
    #[error(
        "{url} refused: {status} {said}; the token may have expired (get a new one), or belong to another cloud"
    )]
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
            | Self::File { .. }
            | Self::Crypto(_) => false,
        }
    }
}

/// The client configuration with this node's certificate: from the files where they hold one, else by the token.
pub(super) async fn identity(config: &Config) -> Result<Arc<ClientConfig>, EnrollError> {
    let credentials = match files::load(config)? {
        Some(credentials) => credentials,
        None => enroll(config).await?,
    };
    credentials.client_config().map(Arc::new)
}

async fn enroll(config: &Config) -> Result<Credentials, EnrollError> {
    let text = config.token.as_ref().ok_or_else(|| EnrollError::NoToken(config.cert_file.clone()))?;
    let token = Token::parse(text.expose()).map_err(EnrollError::Token)?;
    let ca = bootstrap::fetch_ca(&config.http_server, &token).await?;
    let csr = Csr::for_node(&config.node_name).map_err(|error| EnrollError::Crypto(error.to_string()))?;
    let cert = bootstrap::fetch_certificate(config, &ca, &token, csr.der()).await?;
    let credentials = Credentials::new(ca, cert, csr.key_sec1_der());
    files::save(config, &credentials)?;
    info!(node = %config.node_name, "enrolled: the cloud issued this node's certificate");
    Ok(credentials)
}
