//! Callers with a bearer token: the API says whose the token is (TokenReview) and what its owner may do (SubjectAccessReview).

use http::{HeaderMap, header};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{
        NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
    },
};
use kube::{Api, Client, api::PostParams};

/// The longest token, bytes.
const MAX_TOKEN: usize = 16 * 1024;

/// A caller has no valid token, or it could not be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    /// There is no token.
    #[error("show a token: Authorization: Bearer TOKEN, as kubectl create token gives one")]
    NoToken,
    /// The API does not know the token.
    #[error("unknown token")]
    UnknownToken,
    /// The API did not answer.
    #[error("cannot reach the API: {0}")]
    Api(#[from] kube::Error),
}

/// Returns the bearer token among the headers.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Result<&str, ReviewError> {
    let value = headers.get(header::AUTHORIZATION);
    let value = value.and_then(|value| value.to_str().ok());
    value
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .filter(|token| !token.is_empty() && token.len() <= MAX_TOKEN)
        .ok_or(ReviewError::NoToken)
}

/// Returns the owner of a token.
pub(crate) async fn owner_of(client: &Client, token: &str) -> Result<UserInfo, ReviewError> {
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: Some(token.to_owned()),
            ..TokenReviewSpec::default()
        },
        ..TokenReview::default()
    };
    let review = Api::<TokenReview>::all(client.clone())
        .create(&PostParams::default(), &review)
        .await?;
    let status = review.status.unwrap_or_default();
    let user = status.user.filter(|_| status.authenticated == Some(true));
    user.ok_or(ReviewError::UnknownToken)
}

/// Reports whether the user may do this with objects.
pub(crate) async fn is_granted(
    client: &Client,
    user: &UserInfo,
    attributes: ResourceAttributes,
) -> Result<bool, ReviewError> {
    let question = SubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    review(client, user, question).await
}

/// Reports whether the user may send a request with this verb to a path that is none of objects.
pub(crate) async fn is_path_granted(
    client: &Client,
    user: &UserInfo,
    (verb, path): (&str, &str),
) -> Result<bool, ReviewError> {
    let question = SubjectAccessReviewSpec {
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(path.to_owned()),
            verb: Some(verb.to_owned()),
        }),
        ..SubjectAccessReviewSpec::default()
    };
    review(client, user, question).await
}

async fn review(
    client: &Client,
    user: &UserInfo,
    question: SubjectAccessReviewSpec,
) -> Result<bool, ReviewError> {
    let question = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
            ..question
        },
        ..SubjectAccessReview::default()
    };
    let answer = Api::<SubjectAccessReview>::all(client.clone())
        .create(&PostParams::default(), &question)
        .await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
