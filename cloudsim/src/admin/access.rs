//! Who calls the administrators' API, and whether RBAC allows the request.

use std::{sync::Arc, time::Duration};

use clock::Instant;
use http::{Method, StatusCode, request::Parts};
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;
use kubeapi::Identity;
use parking_lot::Mutex;

use super::request::Refusal;
use crate::{
    page::SessionId,
    reviews::{ReviewError, bearer_token, is_path_granted, owner_of},
};

/// The most invalid tokens in a second. The API server reviews each token, with the credentials of this cloud.
const MAX_INVALID: usize = 20;
const SECOND: Duration = Duration::from_secs(1);

/// The times at which the latest tokens of all callers came that are invalid or still reviewed; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct InvalidTokens(Arc<Mutex<Vec<Instant>>>);

impl InvalidTokens {
    /// Adds a token, unless there were too many.
    fn add(&self, now: Instant) -> bool {
        let mut times = self.0.lock();
        times.retain(|time| now < *time + SECOND);
        let is_allowed = times.len() < MAX_INVALID;
        if is_allowed {
            times.push(now);
        }
        is_allowed
    }

    /// Removes a token that is valid.
    fn remove(&self, now: Instant) {
        let mut times = self.0.lock();
        if let Some(at) = times.iter().position(|time| *time == now) {
            times.swap_remove(at);
        }
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
    let now = Instant::now();
    if parts.extensions.get::<SessionId>().is_none() && !invalid.add(now) {
        let why = "too many requests with invalid tokens; retry in a second";
        return Err((StatusCode::TOO_MANY_REQUESTS, why.to_owned()));
    }
    let owner = owner_of(client, token).await;
    if !matches!(owner, Err(ReviewError::UnknownToken)) {
        invalid.remove(now);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_tokens_are_limited_for_a_second() {
        let (invalid, now) = (InvalidTokens::default(), Instant::now());
        for _ in 0..MAX_INVALID {
            assert!(invalid.add(now));
        }
        assert!(!invalid.add(now));
        invalid.remove(now);
        assert!(invalid.add(now) && !invalid.add(now));
        assert!(invalid.add(now + SECOND));
    }
}
