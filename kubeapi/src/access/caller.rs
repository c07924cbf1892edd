//! Authenticates the caller of a request: by certificate, by bearer token, or by impersonation.

use http::{HeaderMap, header, request::Parts};

use super::{roles::AUTHENTICATED, tokens};
use crate::{Api, Identity, status::StatusError};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";

/// Returns the identity of the caller.
pub(super) async fn of(api: &Api, parts: &Parts) -> Result<Identity, StatusError> {
    let caller = match parts.extensions.get::<Identity>() {
        Some(identity) => identity.clone(),
        None => {
            let token = bearer(&parts.headers).ok_or_else(StatusError::unauthorized)?;
            let token = tokens::verify(api, token, &[]).await?.map_err(|why| {
                tracing::debug!(%why, "a bearer token is refused");
                StatusError::unauthorized()
            })?;
            tokens::identity(&token)
        }
    };
    let wants_other = parts.headers.keys().any(|name| name.as_str().starts_with("impersonate-"));
    if wants_other { impersonated(caller, &parts.headers) } else { Ok(caller) }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// Returns the impersonated identity in the headers, for `system:masters`.
fn impersonated(caller: Identity, headers: &HeaderMap) -> Result<Identity, StatusError> {
    let text = |name| headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned);
    let user = text(USER).next().filter(|user| !user.is_empty());
    let user = user.ok_or_else(|| StatusError::bad_request("impersonation headers name no user"))?;
    if !caller.is_master() {
        return Err(StatusError::forbidden_impersonation(&caller.user, &user));
    }
    let mut groups: Vec<_> = text(GROUP).collect();
    let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    if let Some((namespace, _)) = account.filter(|_| groups.is_empty()) {
        groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    }
    if user != "system:anonymous" && !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    Ok(Identity { user, groups })
}
