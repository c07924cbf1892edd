//! Answers reviews (`SubjectAccessReview`, `TokenReview` and so on), which are created and never stored.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::{
    decision::{decide, granting_binding, is_node},
    roles, tokens,
};
use crate::Server;
use kubeapi::access::attributes::Attributes;
use kubeapi::{
    Body, Identity,
    cause::Cause,
    object::{as_map, child, items, metadata, text_or_empty},
    request::{body, query::Query, request_type::RequestType, review_kind::ReviewKind},
    status::StatusError,
    strategy::ReviewRequest,
    validate::decode_body,
    verbs,
};

/// Returns the review with its result in `status`.
pub(crate) async fn answer(
    api: &Server,
    request: ReviewRequest<'_>,
    body: Bytes,
) -> Result<Response<Body>, StatusError> {
    let ReviewRequest {
        kind: review,
        namespace,
        caller,
        parts,
    } = request;
    if parts.method != Method::POST || (review.is_namespaced() && namespace.is_empty()) {
        return Err(StatusError::method_not_allowed());
    }
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    verbs::check_create_options(&query)?;
    let (mut question, warnings) = decode_body(
        RequestType::of_review(review),
        &parts.headers,
        &body,
        &query,
    )?;
    check_namespace(review, namespace, &mut question)?;
    let map = as_map(&mut question);
    map.shift_insert(0, "kind".into(), review.kind().into());
    map.shift_insert(
        1,
        "apiVersion".into(),
        format!("{}/v1", review.group()).into(),
    );
    child(map, "metadata");
    child(map, "spec");
    let status = match review {
        ReviewKind::Subject => {
            map.shift_remove("spec");
            json!({"userInfo": caller.user_info()})
        }
        ReviewKind::Token => token(api, &question).await?,
        ReviewKind::OwnAccess | ReviewKind::Access | ReviewKind::LocalAccess => {
            check_access(review, &question)?;
            let subject = if review == ReviewKind::OwnAccess {
                caller
            } else {
                &subject(&question)
            };
            access(api, subject, &question).await?
        }
        ReviewKind::OwnRules => {
            rules(api, caller, text_or_empty(&question, "/spec/namespace")).await?
        }
    };
    as_map(&mut question).insert("status".into(), status);
    Ok(body::answer(
        StatusCode::CREATED,
        Bytes::from(question.to_string()),
        &warnings,
    ))
}

async fn token(api: &Server, question: &Value) -> Result<Value, StatusError> {
    if text_or_empty(question, "/spec/token").is_empty() {
        return Err(StatusError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences: Vec<_> = texts(question, "/spec/audiences");
    match tokens::verify(api, text_or_empty(question, "/spec/token"), &audiences).await? {
        Err(why) => Ok(json!({"user": {}, "error": why})),
        Ok(token) => {
            let user = tokens::identity(&token).user_info();
            Ok(json!({"authenticated": true, "user": user, "audiences": token.audiences}))
        }
    }
}

/// Checks the namespace in a review against that of the path.
fn check_namespace(
    review: ReviewKind,
    namespace: &str,
    question: &mut Value,
) -> Result<(), StatusError> {
    if !review.is_namespaced() {
        return Ok(());
    }
    let own = text_or_empty(question, "/metadata/namespace");
    if !own.is_empty() && own != namespace {
        return Err(StatusError::other_namespace());
    }
    metadata(question).insert("namespace".into(), namespace.into());
    Ok(())
}

/// Checks the question of an access review.
///
/// Source: Kubernetes' validation of `authorization.k8s.io`.
fn check_access(review: ReviewKind, question: &Value) -> Result<(), StatusError> {
    const RESOURCE: &str = "spec.resourceAttributes";
    const PATH: &str = "spec.nonResourceAttributes";
    let mut causes = Vec::new();
    let spec = question.get("spec").cloned().unwrap_or_default();
    match (
        spec.get("resourceAttributes"),
        spec.get("nonResourceAttributes"),
    ) {
        (Some(_), Some(path)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            causes.push(Cause::invalid(PATH, path, why));
        }
        (None, None) => {
            let why =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            causes.push(Cause::invalid(RESOURCE, &Value::Null, why));
        }
        _ => {}
    }
    let is_local = review == ReviewKind::LocalAccess;
    if review != ReviewKind::OwnAccess
        && text_or_empty(&spec, "/user").is_empty()
        && items(&spec, "/groups").is_empty()
    {
        let why = "at least one of user or group must be specified";
        causes.push(Cause::invalid("spec.user", &json!(""), why));
    }
    let metadata = question.get("metadata").and_then(Value::as_object);
    let is_ignored = |name: &str| name == "managedFields" || (is_local && name == "namespace");
    if let Some(metadata) =
        metadata.filter(|metadata| metadata.keys().any(|name| !is_ignored(name)))
    {
        let why = if is_local {
            "must be empty except for namespace"
        } else {
            "must be empty"
        };
        causes.push(Cause::invalid("metadata", &json!(metadata), why));
    }
    if is_local && let Some(path) = spec.get("nonResourceAttributes") {
        causes.push(Cause::invalid(
            PATH,
            path,
            "disallowed on this kind of request",
        ));
    }
    if is_local && let Some(attributes) = spec.get("resourceAttributes") {
        let asked = text_or_empty(attributes, "/namespace");
        if asked != text_or_empty(question, "/metadata/namespace") {
            let why = "must match metadata.namespace";
            causes.push(Cause::invalid(
                format!("{RESOURCE}.namespace"),
                &json!(asked),
                why,
            ));
        }
    }
    // the real server leaves out the kind
    if causes.is_empty() {
        Ok(())
    } else {
        Err(StatusError::invalid(review.group(), "", "", causes))
    }
}

fn subject(question: &Value) -> Identity {
    Identity::new(
        text_or_empty(question, "/spec/user"),
        texts(question, "/spec/groups"),
    )
}

async fn access(api: &Server, who: &Identity, question: &Value) -> Result<Value, StatusError> {
    let text = |field: &str| text_or_empty(question, &format!("/spec/{field}")).to_owned();
    let has = |field: &str| question["spec"][field].is_object();
    let wanted = if has("nonResourceAttributes") {
        Attributes::of_path(
            &text("nonResourceAttributes/verb"),
            &text("nonResourceAttributes/path"),
        )
    } else {
        let of = |field: &str| text(&format!("resourceAttributes/{field}"));
        let (resource, part) = (of("resource"), of("subresource"));
        Attributes {
            verb: of("verb"),
            group: of("group"),
            resource: if part.is_empty() {
                resource
            } else {
                format!("{resource}/{part}")
            },
            namespace: of("namespace"),
            name: of("name"),
            path: None,
        }
    };
    // nodes do not get in here; CloudHub asks what it may do for them
    let reason = if is_node(who) {
        granting_binding(api, who, &wanted).await?
    } else {
        decide(api, who, &wanted).await?
    };
    Ok(match reason {
        Some(reason) if reason.is_empty() => json!({"allowed": true}),
        Some(reason) => json!({"allowed": true, "reason": reason}),
        None if !api.enforces_rbac() => {
            json!({"allowed": false, "reason": "RBAC is off: only system:masters has access"})
        }
        None => json!({"allowed": false}),
    })
}

async fn rules(api: &Server, caller: &Identity, namespace: &str) -> Result<Value, StatusError> {
    if namespace.is_empty() {
        return Err(StatusError::bad_request("no namespace on request"));
    }
    let (mut on_resources, mut on_paths) = (Vec::new(), Vec::new());
    if caller.is_master() {
        on_resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        on_paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    } else if api.enforces_rbac() {
        for grant in roles::grants(api, caller, namespace).await? {
            for rule in grant.rules {
                let is_path = !items(&rule, "/nonResourceURLs").is_empty();
                if is_path && grant.everywhere {
                    on_paths.push(rule);
                } else if !is_path {
                    on_resources.push(rule);
                }
            }
        }
    }
    Ok(json!({"resourceRules": on_resources, "nonResourceRules": on_paths, "incomplete": false}))
}

fn texts(object: &Value, pointer: &str) -> Vec<String> {
    items(object, pointer)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
