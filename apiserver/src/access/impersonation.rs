//! Lets a caller act as another user, as far as roles let it `impersonate` that user:
//! <https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation>.

use http::HeaderMap;
use kubeapi::{Identity, access::impersonation::Impersonated, status::StatusError};

use super::decision::decide;
use crate::Server;

/// Returns the identity that the headers name, if `caller` may impersonate all of it.
pub(super) async fn impersonate(
    api: &Server,
    caller: &Identity,
    headers: &HeaderMap,
) -> Result<Identity, StatusError> {
    let impersonated = Impersonated::from_headers(headers)?;
    for wanted in impersonated.required_rights() {
        if decide(api, caller, &wanted).await?.is_none() {
            return Err(StatusError::denied(&caller.user, &wanted));
        }
    }
    let identity = impersonated.into_identity();
    tracing::debug!(
        caller = caller.user,
        user = identity.user,
        "caller acts as another user"
    );
    Ok(identity)
}
