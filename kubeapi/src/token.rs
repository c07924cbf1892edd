//! Who issues the tokens of service accounts.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::TokenRequestStatus;

/// Issues, and knows again, the tokens that the `serviceaccounts/<name>/token` subresource answers (Kubernetes' `TokenRequest`).
#[async_trait]
pub trait TokenIssuer: Send + Sync + 'static {
    /// A token with what `grant` says. Everything in it was looked up by the server; nothing is the caller's word but the audiences.
    async fn issue(&self, grant: &TokenGrant) -> Result<TokenRequestStatus, TokenError>;

    /// Whose `token` is, if it was issued here for one of `audiences` (none given: for this API) and has not expired.
    ///
    /// # Errors
    /// [`TokenError::Refused`] for every other token.
    async fn verify(&self, token: &str, audiences: &[String]) -> Result<VerifiedToken, TokenError>;

    /// The longest a token may live; one that is asked to live longer is shortened, and the caller warned.
    fn max_lifetime(&self) -> Option<Duration> {
        None
    }
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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pod, Self::Secret, Self::Node];

    /// The kind's name.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Secret => "Secret",
            Self::Node => "Node",
        }
    }

    /// Its name in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::Node => "nodes",
        }
    }

    /// The name of its claim.
    pub fn claim(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Secret => "secret",
            Self::Node => "node",
        }
    }
}

/// An object that a token ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    /// What it is.
    pub kind: BoundKind,
    /// Its name; pods and Secrets stand in the account's namespace.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// A token that is to be issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenGrant {
    /// The service account's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Where the token may be shown; empty for this API alone.
    pub audiences: Vec<String>,
    /// How long it is good for.
    pub lifetime: Duration,
    /// What it ends with.
    pub bound: Option<BoundObject>,
    /// Name and uid of the node that the bound pod runs on; no uid where that node is gone.
    pub node: Option<(String, Option<String>)>,
}

/// What a token says that its issuer knows again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedToken {
    /// The service account's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// What it is bound to.
    pub bound: Option<BoundObject>,
    /// Name and uid of the node that its pod was on when it was issued.
    pub node: Option<(String, Option<String>)>,
    /// The token's own name (`jti`).
    pub id: Option<String>,
    /// The audiences asked for that it is good for.
    pub audiences: Vec<String>,
}

/// Why no token was issued, or one is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The request asks for what is not given, or the token is not good; the text says why.
    #[error("{0}")]
    Refused(String),
    /// The issuer failed.
    #[error("the issuer of tokens failed: {0}")]
    Failed(String),
}
