//! Who calls the administrators' API, and whether RBAC allows the request.

use std::fmt::Debug;

use http::{HeaderMap, StatusCode, header, request::Parts};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, Resource, api::PostParams};
use kubeapi::Identity;
use serde::{Serialize, de::DeserializeOwned};

use super::request::Refusal;

/// Returns the caller: by client certificate, by the page's cookie, or by a service account's token.
pub(super) async fn caller(client: &Client, parts: &Parts) -> Result<Identity, Refusal> {
    if parts
        .headers
        .keys()
        .any(|name| name.as_str().starts_with("impersonate-"))
    {
        let why =
            "this API does not support impersonation: leave out --as and the headers Impersonate-*";
        return Err((StatusCode::FORBIDDEN, why.to_owned()));
    }
    if let Some(caller) = parts.extensions.get::<Identity>() {
        return Ok(caller.clone().authenticated());
    }
    let unauthorized = || {
        let why = "use the credentials of a kubeconfig: a client certificate or a bearer token";
        (StatusCode::UNAUTHORIZED, why.to_owned())
    };
    let token = bearer(&parts.headers).ok_or_else(unauthorized)?;
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: Some(token.to_owned()),
            audiences: None,
        },
        ..TokenReview::default()
    };
    let status = ask(client, &review).await?.status.unwrap_or_default();
    let user = status.user.filter(|_| status.authenticated == Some(true));
    let user = user.ok_or_else(unauthorized)?;
    Ok(Identity {
        user: user.username.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        uid: user.uid.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    })
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Admits members of `system:masters`, and those to whom RBAC grants the path.
pub(super) async fn admit(
    client: &Client,
    caller: &Identity,
    parts: &Parts,
) -> Result<(), Refusal> {
    if caller.is_master() {
        return Ok(());
    }
    let (path, verb) = (parts.uri.path(), parts.method.as_str().to_lowercase());
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(caller.user.clone()),
            groups: Some(caller.groups.clone()),
            uid: Some(caller.uid.clone()).filter(|uid| !uid.is_empty()),
            extra: Some(caller.extra.clone()),
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some(verb.clone()),
            }),
            resource_attributes: None,
        },
        ..SubjectAccessReview::default()
    };
    let status = ask(client, &review).await?.status.unwrap_or_default();
    if status.allowed {
        return Ok(());
    }
    let user = &caller.user;
    let why = format!(
        "{user} is no administrator of this cloud (system:masters), and no role allows {verb} for the path {path}"
    );
    Err((StatusCode::FORBIDDEN, why))
}

/// Sends a review to the API.
async fn ask<K>(client: &Client, review: &K) -> Result<K, Refusal>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let reviews = Api::<K>::all(client.clone());
    let answered = reviews.create(&PostParams::default(), review).await;
    answered.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
