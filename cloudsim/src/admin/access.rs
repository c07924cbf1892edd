//! Who calls the administrators' API, and whether RBAC allows the request.

use std::sync::Arc;

use clock::Instant;
use http::{Method, StatusCode, request::Parts};
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;
use kubeapi::Identity;
use limits::Rate;
use parking_lot::Mutex;

use super::request::Refusal;
use crate::{
    page::SessionId,
    reviews::{ReviewError, bearer_token, is_path_granted, owner_of},
};

/// The most invalid tokens in a second. The API server reviews each token, with the credentials of this cloud.
const MAX_INVALID: u32 = 20;

/// The limit of tokens of all callers that are invalid or still reviewed; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct InvalidTokens(Arc<Mutex<Rate>>);

impl Default for InvalidTokens {
    fn default() -> Self {
        let rate = Rate::new(MAX_INVALID, MAX_INVALID, Instant::now());
        Self(Arc::new(Mutex::new(rate)))
    }
}

/// Returns the caller: by client certificate, by the page's cookie, or by a service account's token. After too many invalid tokens, only
/// those of the page's sessions are reviewed.
pub(super) async fn caller(
    client: &Client,
    invalid: &InvalidTokens,
    parts: &Parts,
) -> Result<Identity, Refusal> {
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
    let token = bearer_token(&parts.headers).map_err(refusal)?;
    let is_limited = parts.extensions.get::<SessionId>().is_none();
    if is_limited && !invalid.0.lock().take(Instant::now()) {
        let why = "too many requests with invalid tokens; retry in a second";
        return Err((StatusCode::TOO_MANY_REQUESTS, why.to_owned()));
    }
    let owner = owner_of(client, token).await;
    if is_limited && !matches!(owner, Err(ReviewError::UnknownToken)) {
        invalid.0.lock().give_back();
    }
    let user = owner.map_err(refusal)?;
    Ok(Identity {
        user: user.username.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        uid: user.uid.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    })
}

/// Admits members of `system:masters`, and those to whom RBAC grants the path.
pub(super) async fn admit(
    client: &Client,
    caller: &Identity,
    (method, path): (&Method, &str),
) -> Result<(), Refusal> {
    if caller.is_master() {
        return Ok(());
    }
    let verb = method.as_str().to_lowercase();
    let user = UserInfo {
        username: Some(caller.user.clone()),
        groups: Some(caller.groups.clone()),
        uid: Some(caller.uid.clone()).filter(|uid| !uid.is_empty()),
        extra: Some(caller.extra.clone()),
    };
    let is_granted = is_path_granted(client, &user, (&verb, path)).await;
    if is_granted.map_err(refusal)? {
        return Ok(());
    }
    let user = &caller.user;
    let why = format!(
        "{user} is no administrator of this cloud (system:masters), and no role allows {verb} for the path {path}"
    );
    Err((StatusCode::FORBIDDEN, why))
}

fn refusal(error: ReviewError) -> Refusal {
    match error {
        ReviewError::NoToken | ReviewError::UnknownToken => {
            let why = "use the credentials of a kubeconfig: a client certificate or a bearer token";
            (StatusCode::UNAUTHORIZED, why.to_owned())
        }
        ReviewError::Api(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}
