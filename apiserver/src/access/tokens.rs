//! Verifies bearer tokens: the issuer checks the signature, the store whether the bound objects still exist.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{BoundKind, Server, TokenError, VerifiedToken};
use kubeapi::{
    Identity,
    object::{text, text_or_empty},
    status::StatusError,
};
use objectstore::{Key, Resource, Store};

/// How long a token outlives the deletion of its bound object: Kubernetes' allowance for clock skew.
const CLOCK_LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// The token, if it is good for one of `audiences` (none given: for this API) and its account still there, with what the token
/// is bound to; else why not.
pub(super) async fn verify(
    api: &Server,
    token: &str,
    audiences: &[String],
) -> Result<Result<VerifiedToken, String>, StatusError> {
    let Some(issuer) = api.token_issuer() else {
        return Ok(Err("no tokens are issued here".to_owned()));
    };
    let verified = match issuer.verify(token, audiences).await {
        Ok(verified) => verified,
        Err(TokenError::Refused(why)) => return Ok(Err(why)),
        Err(error @ TokenError::Failed(_)) => return Err(StatusError::internal(error.to_string())),
    };
    let namespace = verified.namespace.as_str();
    let mut bearers = vec![(
        "serviceaccounts",
        namespace,
        verified.name.as_str(),
        verified.uid.as_str(),
    )];
    if let Some(bound) = &verified.bound {
        let namespace = if bound.kind == BoundKind::Node {
            ""
        } else {
            namespace
        };
        bearers.push((
            bound.kind.plural(),
            namespace,
            bound.name.as_str(),
            bound.uid.as_str(),
        ));
    }
    for (plural, namespace, name, uid) in bearers {
        let key = Key::new(Resource::new("", plural), namespace, name);
        let found = Store::get(&**api.store(), &key)
            .await?
            .map(|object| object.value())
            .transpose()?;
        if found.is_none_or(|object| is_over(&object, uid, clock::now())) {
            return Ok(Err(
                "invalid bearer token: its pod or account no longer exists".to_owned(),
            ));
        }
    }
    Ok(Ok(verified))
}

/// Whether the object is another one by now, or was to be gone a while ago.
fn is_over(object: &Value, uid: &str, now: Timestamp) -> bool {
    let end = text(object, "/metadata/deletionTimestamp").map(str::parse::<Timestamp>);
    let has_ended = match end {
        None => false,
        Some(Ok(end)) => now.duration_since(end) > CLOCK_LEEWAY,
        Some(Err(_)) => true,
    };
    has_ended || text_or_empty(object, "/metadata/uid") != uid
}

/// The service account as a caller.
pub(super) fn identity(token: &VerifiedToken) -> Identity {
    let account = Identity::service_account(&token.namespace, &token.name);
    Identity {
        uid: token.uid.clone(),
        extra: extra(token),
        ..account
    }
}

/// Returns the extra information of a token, with Kubernetes' keys.
fn extra(token: &VerifiedToken) -> BTreeMap<String, Vec<String>> {
    let mut extra = BTreeMap::new();
    let mut add = |name: &str, value: &str| {
        extra.insert(
            format!("authentication.kubernetes.io/{name}"),
            vec![value.to_owned()],
        );
    };
    if let Some(id) = &token.id {
        add("credential-id", &format!("JTI={id}"));
    }
    if let Some(bound) = token
        .bound
        .as_ref()
        .filter(|bound| bound.kind != BoundKind::Secret)
    {
        add(&format!("{}-name", bound.kind.claim()), &bound.name);
        add(&format!("{}-uid", bound.kind.claim()), &bound.uid);
    }
    if let Some((name, uid)) = &token.node {
        add("node-name", name);
        if let Some(uid) = uid {
            add("node-uid", uid);
        }
    }
    extra
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_being_deleted_bears_its_token_for_another_minute() {
        let now: Timestamp = "2026-01-01T00:01:30Z".parse().unwrap();
        let object = |end: Value| json!({"metadata": {"uid": "u", "deletionTimestamp": end}});
        for (end, expected) in [
            (Value::Null, false),
            (json!("2026-01-01T00:02:00Z"), false),
            (json!("2026-01-01T00:01:00Z"), false),
            (json!("2026-01-01T00:00:30Z"), false),
            (json!("2026-01-01T00:00:29Z"), true),
            (json!("soon"), true),
        ] {
            assert_eq!(is_over(&object(end.clone()), "u", now), expected, "{end}");
        }
        assert!(is_over(&object(Value::Null), "another", now));
    }
}
