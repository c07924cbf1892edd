//! Authenticates calls to the router from other machines: the caller needs a bearer token that the API accepts (TokenReview) and, with
//! RBAC, the right to `create` the subresource `messages` of the rule in the group `rules.kubeedge.io`.

use http::{HeaderMap, StatusCode, header};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};

use crate::controllers::rules::CallError;

/// The longest token, bytes.
const MAX_TOKEN: usize = 16 * 1024;

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
        let unknown = |why: &str| CallError::new(StatusCode::UNAUTHORIZED, "Unauthorized", why);
        let value = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let token = value
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let token = token
            .map(|(_, token)| token.trim())
            .filter(|token| !token.is_empty() && token.len() <= MAX_TOKEN);
        let token = token.ok_or_else(|| {
            unknown("show a token: Authorization: Bearer TOKEN, as kubectl create token gives one")
        })?;
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let review = Api::<TokenReview>::all(self.client.clone())
            .create(&PostParams::default(), &review)
            .await;
        let status = review
            .map_err(|error| review_error(&error))?
            .status
            .unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        let user = user.ok_or_else(|| unknown("unknown token"))?;
        if !self.rbac || self.is_granted(&user, namespace, rule).await? {
            return Ok(());
        }
        let why = format!(
            "{} may not create rules/messages of group rules.kubeedge.io in namespace {namespace}; bind a role to it",
            user.username.unwrap_or_default()
        );
        Err(CallError::new(StatusCode::FORBIDDEN, "Forbidden", why))
    }

    async fn is_granted(
        &self,
        user: &UserInfo,
        namespace: &str,
        rule: Option<&str>,
    ) -> Result<bool, CallError> {
        let question = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username.clone(),
                uid: user.uid.clone(),
                groups: user.groups.clone(),
                resource_attributes: Some(ResourceAttributes {
                    group: Some("rules.kubeedge.io".to_owned()),
                    resource: Some("rules".to_owned()),
                    subresource: Some("messages".to_owned()),
                    verb: Some("create".to_owned()),
                    namespace: Some(namespace.to_owned()),
                    name: rule.map(str::to_owned),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = Api::<SubjectAccessReview>::all(self.client.clone())
            .create(&PostParams::default(), &question)
            .await;
        Ok(answer
            .map_err(|error| review_error(&error))?
            .status
            .is_some_and(|status| status.allowed))
    }
}

fn review_error(error: &kube::Error) -> CallError {
    CallError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "ApiUnavailable",
        format!("cannot reach the API: {error}"),
    )
}
