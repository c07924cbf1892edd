//! `serviceaccounts/<name>/token`: `TokenRequest` (authentication.k8s.io/v1).
//!
//! The account and the bound object are taken from the store: the request only names them.
//!
//! Source: Kubernetes' registry of service accounts (`TokenREST`).

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequestSpec};
use serde_json::{Value, json};

use crate::{BoundKind, BoundObject, Server, TokenError, TokenGrant};
use kubeapi::verbs::get::find;
use kubeapi::{
    Body,
    cause::Cause,
    object::{is_mirror, text_or_empty, timestamp::now},
    request::{body, call::Call, request_type},
    status::StatusError,
    validate::decode_body,
};
use objectstore::{Key, Resource, Store};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
/// The default lifetime of a token.
const DEFAULT_LIFETIME: i64 = 3600;

/// Issues a token for the request's service account.
pub(crate) async fn answer(api: &Server, call: &Call) -> Result<Response<Body>, StatusError> {
    let (namespace, name) = (&call.target.namespace, &call.target.name);
    let issuer = api.token_issuer().ok_or_else(|| {
        StatusError::not_implemented(
            "no issuer of service account tokens is configured; use the cloud's API",
        )
    })?;
    let (request, mut warnings) = decode_body(
        &request_type::TOKEN_REQUEST,
        &call.headers,
        &call.body,
        &call.query,
    )?;
    let mut spec = with_audiences(request.get("spec").cloned().unwrap_or_else(|| json!({})));
    let typed: TokenRequestSpec = serde_json::from_value(spec.clone()).map_err(|error| {
        StatusError::bad_request(format!("the body is not a TokenRequest: {error}"))
    })?;
    let account = find(api, &call.target).await?.value()?;
    let uid = text_or_empty(&account, "/metadata/uid");
    check_subject(call, uid, &request)?;
    let (lifetime, shortened) = lifetime(name, &typed, issuer.max_lifetime())?;
    warnings.extend(shortened);
    let (bound, node) = match &typed.bound_object_ref {
        Some(reference) => read_bound(api, call, reference).await?,
        None => (None, None),
    };
    let grant = TokenGrant {
        namespace: namespace.clone(),
        name: name.clone(),
        uid: uid.to_owned(),
        audiences: typed.audiences,
        lifetime,
        bound,
        node,
    };
    let status = issuer.issue(&grant).await.map_err(|error| match error {
        TokenError::Refused(why) => StatusError::bad_request(why),
        TokenError::Failed(_) => StatusError::internal(error.to_string()),
    })?;
    spec["expirationSeconds"] = lifetime.as_secs().into();
    if let Some(bound) = &grant.bound {
        spec["boundObjectRef"]["uid"] = bound.uid.as_str().into();
    }
    let answer = json!({
        "kind": KIND, "apiVersion": format!("{GROUP}/v1"),
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": now()},
        "spec": spec, "status": status,
    });
    Ok(body::answer(
        StatusCode::CREATED,
        Bytes::from(answer.to_string()),
        &warnings,
    ))
}

/// Checks what the request states about the account.
fn check_subject(call: &Call, uid: &str, request: &Value) -> Result<(), StatusError> {
    let (namespace, name) = (&call.target.namespace, &call.target.name);
    let said = |field: &str| text_or_empty(request, &format!("/metadata/{field}"));
    let mut causes = Vec::new();
    for (field, own) in [("name", name), ("namespace", namespace)] {
        if !said(field).is_empty() && said(field) != own {
            let why = format!("must match the service account {field} if specified");
            causes.push(Cause::invalid(
                format!("metadata.{field}"),
                &said(field).into(),
                &why,
            ));
        }
    }
    if !causes.is_empty() {
        return Err(StatusError::invalid(GROUP, KIND, name, causes));
    }
    if !said("uid").is_empty() && said("uid") != uid {
        let why = format!(
            "the UID in the token request ({}) does not match the UID of the service account ({uid})",
            said("uid")
        );
        return Err(StatusError::conflict(&call.target.kind, name, &why));
    }
    Ok(())
}

/// Returns the lifetime: at least ten minutes, at most what the server allows.
fn lifetime(
    name: &str,
    spec: &TokenRequestSpec,
    max: Option<Duration>,
) -> Result<(Duration, Vec<String>), StatusError> {
    let seconds = spec.expiration_seconds.unwrap_or(DEFAULT_LIFETIME);
    let refused = |why: &str| {
        let cause = Cause::invalid("spec.expirationSeconds", &seconds.into(), why);
        Err(StatusError::invalid(GROUP, KIND, name, vec![cause]))
    };
    match seconds {
        ..600 => return refused("may not specify a duration less than 10 minutes"),
        4_294_967_297.. => return refused("may not specify a duration larger than 2^32 seconds"),
        _ => {}
    }
    let asked = Duration::from_secs(seconds.unsigned_abs());
    match max.filter(|max| asked > *max) {
        Some(max) => {
            let warning = format!(
                "requested expiration of {seconds} seconds shortened to {} seconds",
                max.as_secs()
            );
            Ok((max, vec![warning]))
        }
        None => Ok((asked, Vec::new())),
    }
}

/// The bound object, and the node of a bound pod.
type Bound = (Option<BoundObject>, Option<(String, Option<String>)>);

/// Reads the object that the token is bound to.
async fn read_bound(
    api: &Server,
    call: &Call,
    reference: &BoundObjectReference,
) -> Result<Bound, StatusError> {
    let (version, kind) = (
        reference.api_version.as_deref().unwrap_or_default(),
        reference.kind.as_deref().unwrap_or_default(),
    );
    let name = reference.name.as_deref().unwrap_or_default();
    let known = BoundKind::ALL
        .into_iter()
        .find(|known| known.kind() == kind && !version.contains('/'));
    let Some(known) = known else {
        let group = version
            .split_once('/')
            .map_or_else(|| format!("/{version}"), |_| version.to_owned());
        let what = format!("cannot bind token to object of type {group}, Kind={kind}");
        return Err(StatusError::bad_request(what));
    };
    let namespace = if known == BoundKind::Node {
        ""
    } else {
        call.target.namespace.as_str()
    };
    let found = read_stored(api, known.plural(), namespace, name).await?;
    let Some(object) = found else {
        let registry = api.registry();
        let kind = registry.find("", "v1", known.plural());
        return Err(kind.map_or_else(StatusError::no_resource, |kind| {
            StatusError::not_found(kind, name)
        }));
    };
    let account = call.target.name.as_str();
    let runs_as = if is_mirror(&object) {
        ""
    } else {
        text_or_empty(&object, "/spec/serviceAccountName")
    };
    if known == BoundKind::Pod && runs_as != account {
        return Err(StatusError::bad_request(format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        )));
    }
    let uid = text_or_empty(&object, "/metadata/uid");
    if let Some(asked) = reference
        .uid
        .as_deref()
        .filter(|asked| !asked.is_empty() && *asked != uid)
    {
        let registry = api.registry();
        let kind = registry
            .find("", "v1", known.plural())
            .ok_or_else(StatusError::no_resource)?;
        let why = format!(
            "the UID in the bound object reference ({asked}) does not match the UID in record. The object might have been deleted \
             and then recreated"
        );
        return Err(StatusError::conflict(kind, name, &why));
    }
    let on = if known == BoundKind::Pod {
        text_or_empty(&object, "/spec/nodeName")
    } else {
        ""
    };
    let node = if on.is_empty() {
        None
    } else {
        let node = read_stored(api, "nodes", "", on).await?;
        Some((
            on.to_owned(),
            node.map(|node| text_or_empty(&node, "/metadata/uid").to_owned()),
        ))
    };
    Ok((
        Some(BoundObject {
            kind: known,
            name: name.to_owned(),
            uid: uid.to_owned(),
        }),
        node,
    ))
}

async fn read_stored(
    api: &Server,
    plural: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, StatusError> {
    let key = Key::new(Resource::new("", plural), namespace, name);
    Ok(Store::get(&**api.store(), &key)
        .await?
        .map(|object| object.value())
        .transpose()?)
}

/// Sets an absent list of audiences to an empty one, which means the API server's own.
fn with_audiences(mut spec: Value) -> Value {
    if let Value::Object(map) = &mut spec
        && map.get("audiences").is_none_or(Value::is_null)
    {
        map.insert("audiences".into(), json!([]));
    }
    spec
}
