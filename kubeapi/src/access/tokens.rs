//! Whose a bearer token is: the issuer knows its signature, the store whether what it was issued to is still there.

use crate::{
    Api, Identity, TokenError, VerifiedToken,
    object::text_or_empty,
    status::StatusError,
    store::{Key, Resource, Store},
};

/// The token, if it is good for one of `audiences` (none given: for this API) and its account still there; else why not.
pub(super) async fn verify(
    api: &Api,
    token: &str,
    audiences: &[String],
) -> Result<Result<VerifiedToken, String>, StatusError> {
    let Some(issuer) = api.token_issuer() else { return Ok(Err("no tokens are issued here".to_owned())) };
    let verified = match issuer.verify(token, audiences).await {
        Ok(verified) => verified,
        Err(TokenError::Refused(why)) => return Ok(Err(why)),
        Err(error @ TokenError::Failed(_)) => return Err(StatusError::internal(error.to_string())),
    };
    let mut bearers = vec![("serviceaccounts", verified.name.as_str(), verified.uid.as_str())];
    bearers.extend(verified.pod.iter().map(|(name, uid)| ("pods", name.as_str(), uid.as_str())));
    for (plural, name, uid) in bearers {
        let key = Key::new(Resource::new("", plural), verified.namespace.as_str(), name);
        let found = Store::get(&**api.store(), &key).await?.map(|object| object.value()).transpose()?;
        if found.is_none_or(|object| text_or_empty(&object, "/metadata/uid") != uid) {
            return Ok(Err("invalid bearer token: what it was issued to is gone".to_owned()));
        }
    }
    Ok(Ok(verified))
}

/// The service account as a caller.
pub(super) fn identity(token: &VerifiedToken) -> Identity {
    let VerifiedToken { namespace, name, .. } = token;
    let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    let groups = groups.into_iter().chain([super::roles::AUTHENTICATED.to_owned()]).collect();
    Identity { user: format!("system:serviceaccount:{namespace}:{name}"), groups }
}
