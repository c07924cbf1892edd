//! Authenticates calls to the router from other machines: the caller needs a bearer token that the API accepts and, with RBAC, the right
//! to `create` the subresource `messages` of the rule in the group `rules.kubeedge.io`.

use http::{HeaderMap, StatusCode};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::Client;

use crate::{
    controllers::rules::CallError,
    reviews::{ReviewError, bearer_token, is_granted, owner_of},
};

/// Authenticates through the API; cheap to clone.
#[derive(Clone)]
pub(crate) struct Auth {
    client: Client,
    /// Whether RBAC is on.
    rbac: bool,
}

impl Auth {
    /// Creates an authenticator that uses `client`.
    pub(crate) fn new(client: Client, rbac: bool) -> Self {
        Self { client, rbac }
    }

    /// Checks whether a request with these headers may be made, and to this rule if there is one.
    pub(super) async fn permit(
        &self,
        headers: &HeaderMap,
        namespace: &str,
        rule: Option<&str>,
    ) -> Result<(), CallError> {
        let token = bearer_token(headers).map_err(call_error)?;
        let user = owner_of(&self.client, token).await.map_err(call_error)?;
        let attributes = ResourceAttributes {
            group: Some("rules.kubeedge.io".to_owned()),
            resource: Some("rules".to_owned()),
            subresource: Some("messages".to_owned()),
            verb: Some("create".to_owned()),
            namespace: Some(namespace.to_owned()),
            name: rule.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let granted = !self.rbac
            || is_granted(&self.client, &user, attributes)
                .await
                .map_err(call_error)?;
        if granted {
            return Ok(());
        }
        let why = format!(
            "{} may not create rules/messages of group rules.kubeedge.io in namespace {namespace}; bind a role to it",
            user.username.unwrap_or_default()
        );
        Err(CallError::new(StatusCode::FORBIDDEN, "Forbidden", why))
    }
}

fn call_error(error: ReviewError) -> CallError {
    let (status, reason) = match error {
        ReviewError::NoToken | ReviewError::UnknownToken => {
            (StatusCode::UNAUTHORIZED, "Unauthorized")
        }
        ReviewError::Api(_) => (StatusCode::SERVICE_UNAVAILABLE, "ApiUnavailable"),
    };
    CallError::new(status, reason, error.to_string())
}
