//! Who issues the tokens of service accounts.

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenRequestSpec, TokenRequestStatus};

/// Issues, and knows again, the tokens that the `serviceaccounts/<name>/token` subresource answers (Kubernetes' `TokenRequest`).
#[async_trait]
pub trait TokenIssuer: Send + Sync + 'static {
    /// A token for the service account `namespace`/`name` with uid `uid`.
    async fn issue(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        spec: &TokenRequestSpec,
    ) -> Result<TokenRequestStatus, TokenError>;

    /// Whose `token` is, if it was issued here for one of `audiences` (none given: for this API) and has not expired.
    ///
    /// # Errors
    /// [`TokenError::Refused`] for every other token.
    async fn verify(&self, token: &str, audiences: &[String]) -> Result<VerifiedToken, TokenError>;
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
    /// Name and uid of the pod that the token is bound to.
    pub pod: Option<(String, String)>,
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
