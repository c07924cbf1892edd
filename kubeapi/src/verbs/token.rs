//! `serviceaccounts/<name>/token`: `TokenRequest` (authentication.k8s.io/v1).

use bytes::Bytes;
use http::{Response, StatusCode};
use k8s_openapi::api::authentication::v1::TokenRequestSpec;
use serde_json::{Value, json};

use super::{get::find, write::now};
use crate::{
    Api, Body, TokenError, body,
    object::text_or_empty,
    service::Call,
    status::{Cause, StatusError},
};

/// A token for the request's service account.
pub(crate) async fn token(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let (namespace, name) = (&call.target.namespace, &call.target.name);
    let issuer = api.token_issuer().ok_or_else(|| {
        StatusError::not_implemented("no issuer of service account tokens is configured; ask the cloud's API")
    })?;
    let request = body::parse(&call.headers, &call.body)?;
    let spec = request.get("spec").cloned().unwrap_or_else(|| json!({}));
    let typed: TokenRequestSpec = serde_json::from_value(with_audiences(spec.clone()))
        .map_err(|error| StatusError::bad_request(format!("the body is not a TokenRequest: {error}")))?;
    check_lifetime(name, &typed)?;
    let account = find(api, &call.target).await?.value()?;
    let status = issuer.issue(namespace, name, text_or_empty(&account, "/metadata/uid"), &typed).await;
    let status = status.map_err(|error| match error {
        TokenError::Refused(why) => StatusError::bad_request(why),
        TokenError::Failed(_) => StatusError::internal(error.to_string()),
    })?;
    let answer = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": now()},
        "spec": spec, "status": status,
    });
    Ok(body::answer(StatusCode::CREATED, Bytes::from(answer.to_string()), &[]))
}

/// Tokens live ten minutes at the least; the upper limit is that of the field.
fn check_lifetime(name: &str, spec: &TokenRequestSpec) -> Result<(), StatusError> {
    let Some(seconds) = spec.expiration_seconds else { return Ok(()) };
    let why = match seconds {
        ..600 => "may not specify a duration less than 10 minutes",
        4_294_967_297.. => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    let cause = Cause::invalid("spec.expirationSeconds", &seconds.into(), why);
    Err(StatusError::invalid("authentication.k8s.io", "TokenRequest", name, vec![cause]))
}

/// An absent list of audiences is an empty one: the API server's own.
fn with_audiences(mut spec: Value) -> Value {
    if let Value::Object(map) = &mut spec
        && map.get("audiences").is_none_or(Value::is_null)
    {
        map.insert("audiences".into(), json!([]));
    }
    spec
}
