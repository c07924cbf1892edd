//! Issues and verifies the tokens of service accounts.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::TokenRequestStatus;
use serde_json::Value;

/// Issues and verifies the tokens that the `serviceaccounts/<name>/token` subresource returns (Kubernetes' `TokenRequest`).
#[async_trait]
pub trait TokenIssuer: Send + Sync + 'static {
    /// Issues a token for `grant`, whose values the server has looked up; only the audiences come from the caller.
    async fn issue(&self, grant: &TokenGrant) -> Result<TokenRequestStatus, TokenError>;

    /// Returns the owner of `token`, if it was issued here for one of `audiences` (none given: for this API) and has not expired.
    ///
    /// # Errors
    /// [`TokenError::Refused`] for every other token.
    async fn verify(&self, token: &str, audiences: &[String]) -> Result<VerifiedToken, TokenError>;

    /// Returns the longest lifetime of a token; a longer request is shortened with a warning to the caller.
    fn max_lifetime(&self) -> Option<Duration> {
        None
    }

    /// Returns what OpenID discovery publishes: others can verify tokens with it. `None` if nothing is published.
    fn published_keys(&self) -> Option<PublishedKeys> {
        None
    }
}

/// The public keys of an issuer, and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedKeys {
    /// The `iss` of its tokens.
    pub issuer: &'static str,
    /// The algorithm of its signatures, such as `ES256`.
    pub algorithm: &'static str,
    /// JSON Web Keys (RFC 7517).
    pub keys: Vec<Value>,
}

/// The kinds of objects that a token may be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundKind {
    /// A pod that runs as the account.
    Pod,
    /// A Secret in the account's namespace.
    Secret,
    /// A node.
    Node,
}

impl BoundKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Pod, Self::Secret, Self::Node];

    /// Returns the kind's name.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Secret => "Secret",
            Self::Node => "Node",
        }
    }

    /// Returns its name in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::Node => "nodes",
        }
    }

    /// Returns the name of its claim in the token.
    pub fn claim(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Secret => "secret",
            Self::Node => "node",
        }
    }
}

/// An object with whose deletion a token becomes invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    /// The object's kind.
    pub kind: BoundKind,
    /// The object's name; pods and Secrets belong to the account's namespace.
    pub name: String,
    /// The object's uid.
    pub uid: String,
}

/// The content of a token that is to be issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenGrant {
    /// The service account's namespace.
    pub namespace: String,
    /// The service account's name.
    pub name: String,
    /// The service account's uid.
    pub uid: String,
    /// The audiences that may accept the token; empty means this API alone.
    pub audiences: Vec<String>,
    /// How long the token is valid.
    pub lifetime: Duration,
    /// The object to which the token is bound.
    pub bound: Option<BoundObject>,
    /// Name and uid of the bound pod's node; there is no uid if that node is gone.
    pub node: Option<(String, Option<String>)>,
}

/// The content of a verified token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedToken {
    /// The service account's namespace.
    pub namespace: String,
    /// The service account's name.
    pub name: String,
    /// The service account's uid.
    pub uid: String,
    /// The object to which the token is bound.
    pub bound: Option<BoundObject>,
    /// Name and uid of its pod's node at the time of issue.
    pub node: Option<(String, Option<String>)>,
    /// The token's own id (`jti`).
    pub id: Option<String>,
    /// The requested audiences for which it is valid.
    pub audiences: Vec<String>,
}

/// Why no token was issued, or a token is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The request cannot be granted, or the token is not valid; the text says why.
    #[error("{0}")]
    Refused(String),
    /// The issuer failed.
    #[error("the issuer of tokens failed: {0}")]
    Failed(String),
}
