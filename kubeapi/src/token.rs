//! Who issues the tokens of service accounts.

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenRequestSpec, TokenRequestStatus};

/// Issues the tokens that the `serviceaccounts/<name>/token` subresource answers (Kubernetes' `TokenRequest`).
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
}

/// Why no token was issued.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The request asks for what is not given; the text names it.
    #[error("{0}")]
    Refused(String),
    /// The issuer failed.
    #[error("cannot issue a token: {0}")]
    Failed(String),
}
