//! Answers reviews (`SubjectAccessReview`, `TokenReview` and so on), which are created and never stored.

use bytes::Bytes;
use http::{Method, Response, StatusCode, request::Parts};
use serde_json::{Value, json};

use super::{
    attributes::Attributes,
    decision::{decide, granted, is_node},
    roles, tokens,
};
use crate::{
    Api, Body, Identity, body,
    cause::Cause,
    object::{as_map, child, items, text_or_empty},
    review_kind::ReviewKind,
    status::StatusError,
};

/// Returns the review with its result in `status`.
pub(crate) async fn answer(
    api: &Api,
    review: ReviewKind,
    namespace: &str,
    caller: &Identity,
    (parts, body): (&Parts, Bytes),
) -> Result<Response<Body>, StatusError> {
    if parts.method != Method::POST || (review.namespaced() && namespace.is_empty()) {
        return Err(StatusError::method_not_allowed());
    }
    let mut question = body::parse(&parts.headers, &body)?;
    let map = as_map(&mut question);
    map.shift_insert(0, "kind".into(), review.kind().into());
    map.shift_insert(1, "apiVersion".into(), format!("{}/v1", review.group()).into());
    child(map, "metadata");
    child(map, "spec");
    let status = match review {
        ReviewKind::Subject => {
            map.shift_remove("spec");
            json!({"userInfo": caller.user_info()})
        }
        ReviewKind::Token => token(api, &question).await?,
        ReviewKind::OwnAccess => access(api, review, caller, &question).await?,
        ReviewKind::Access | ReviewKind::LocalAccess => {
            check_subject(review, namespace, &question)?;
            access(api, review, &subject(&question), &question).await?
        }
        ReviewKind::OwnRules => rules(api, caller, text_or_empty(&question, "/spec/namespace")).await?,
    };
    as_map(&mut question).insert("status".into(), status);
    Ok(body::answer(StatusCode::CREATED, Bytes::from(question.to_string()), &[]))
}

async fn token(api: &Api, question: &Value) -> Result<Value, StatusError> {
    let audiences: Vec<_> = texts(question, "/spec/audiences");
    match tokens::verify(api, text_or_empty(question, "/spec/token"), &audiences).await? {
        Err(why) => Ok(json!({"user": {}, "error": why})),
        Ok(token) => {
            let user = tokens::identity(&token).user_info();
            Ok(json!({"authenticated": true, "user": user, "audiences": token.audiences}))
        }
    }
}

fn check_subject(review: ReviewKind, namespace: &str, question: &Value) -> Result<(), StatusError> {
    let mut causes = Vec::new();
    if text_or_empty(question, "/spec/user").is_empty() && items(question, "/spec/groups").is_empty() {
        let why = "at least one of user or group must be specified";
        causes.push(Cause::invalid("spec.user", &json!(""), why));
    }
    let asked = text_or_empty(question, "/spec/resourceAttributes/namespace");
    if review.namespaced() && asked != namespace {
        let why = "must match metadata.namespace";
        causes.push(Cause::invalid("spec.resourceAttributes.namespace", &json!(asked), why));
    }
    refuse(review, causes)
}

fn refuse(review: ReviewKind, causes: Vec<Cause>) -> Result<(), StatusError> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(StatusError::invalid(review.group(), review.kind(), "", causes))
}

fn subject(question: &Value) -> Identity {
    Identity::new(text_or_empty(question, "/spec/user"), texts(question, "/spec/groups"))
}

async fn access(
    api: &Api,
    review: ReviewKind,
    who: &Identity,
    question: &Value,
) -> Result<Value, StatusError> {
    let text = |field: &str| text_or_empty(question, &format!("/spec/{field}")).to_owned();
    let has = |field: &str| question["spec"][field].is_object();
    let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    if has("resourceAttributes") == has("nonResourceAttributes") {
        refuse(review, vec![Cause::invalid("spec.resourceAttributes", &Value::Null, why)])?;
    }
    let wanted = if has("nonResourceAttributes") {
        Attributes::of_path(&text("nonResourceAttributes/verb"), &text("nonResourceAttributes/path"))
    } else {
        let of = |field: &str| text(&format!("resourceAttributes/{field}"));
        let (resource, part) = (of("resource"), of("subresource"));
        Attributes {
            verb: of("verb"),
            group: of("group"),
            resource: if part.is_empty() { resource } else { format!("{resource}/{part}") },
            namespace: of("namespace"),
            name: of("name"),
            path: None,
        }
    };
    // nodes do not get in here; CloudHub asks what it may do for them
    let reason =
        if is_node(who) { granted(api, who, &wanted).await? } else { decide(api, who, &wanted).await? };
    Ok(match reason {
        Some(reason) if reason.is_empty() => json!({"allowed": true}),
        Some(reason) => json!({"allowed": true, "reason": reason}),
        None if !api.enforces_rbac() => {
            json!({"allowed": false, "reason": "RBAC is off: only system:masters has access"})
        }
        None => json!({"allowed": false}),
    })
}

async fn rules(api: &Api, caller: &Identity, namespace: &str) -> Result<Value, StatusError> {
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
    items(object, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
