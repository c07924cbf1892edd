//! Authenticates the caller of a request: by certificate, by bearer token, or by impersonation.

use http::{HeaderMap, header, request::Parts};

use super::{impersonation, tokens};
use crate::Server;
use kubeapi::access::impersonation::is_requested;
use kubeapi::{Identity, status::StatusError};

/// Returns the identity of the caller.
pub(super) async fn of(api: &Server, parts: &Parts) -> Result<Identity, StatusError> {
    let caller = match parts.extensions.get::<Identity>() {
        Some(identity) => identity.clone().authenticated(),
        None => {
            let token = bearer(&parts.headers).ok_or_else(StatusError::unauthorized)?;
            let token = tokens::verify(api, token, &[]).await?.map_err(|why| {
                tracing::debug!(reason = %why, "bearer token rejected");
                StatusError::unauthorized()
            })?;
            tokens::identity(&token)
        }
    };
    if is_requested(&parts.headers) {
        return impersonation::impersonate(api, &caller, &parts.headers).await;
    }
    Ok(caller)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim())
        .filter(|token| !token.is_empty())
}
