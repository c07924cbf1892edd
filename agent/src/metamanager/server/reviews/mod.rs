//! Reviews that callers request about themselves: SelfSubjectReview, SelfSubjectAccessReview, SelfSubjectRulesReview.
//!
//! They are answered here, for the caller that MetaServer has authenticated and by the rules that it applies to that caller's
//! requests. The cloud does not know the caller: it would answer for the account that carries out the calls of nodes there.

use http::{Method, Uri, request::Parts};
use kubeapi::Identity;
use serde_json::{Value, json};
use wire::application::{SelfReview, Target, Verb};

use super::{
    super::response::ApiError,
    access::Caller,
    authenticator::Authenticator,
    keys::text,
    route::{ObjectRequest, Route, route},
};

/// The group of all authenticated callers.
const AUTHENTICATED_GROUP: &str = "system:authenticated";
/// The paths that every authenticated caller may read: Kubernetes' ClusterRole `system:discovery`.
const DISCOVERY_PATHS: [&str; 10] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
];

/// Checks the request for a review.
pub(super) fn check(request: &ObjectRequest) -> Result<(), ApiError> {
    let target = &request.target;
    if target.version != "v1" {
        return Err(ApiError::path_not_found());
    }
    let is_collection = [&target.namespace, &target.name, &request.part]
        .iter()
        .all(|text| text.is_empty());
    if request.verb == Verb::Create && is_collection {
        return Ok(());
    }
    Err(ApiError::method_not_allowed("reviews can only be created"))
}

/// Returns the review with its answer in `status`.
pub(super) async fn answer(
    review: SelfReview,
    who: &Authenticator,
    caller: &Caller,
    parts: &Parts,
    node: &str,
    question: &Value,
) -> Result<Value, ApiError> {
    let status = match review {
        SelfReview::Subject => {
            let Identity { user, groups, .. } = identity(who, caller, parts, node);
            json!({"userInfo": {"username": user, "groups": groups}})
        }
        SelfReview::Access => access_review(who, caller, question).await?,
        SelfReview::Rules => rules_review(who, caller, text(question, "/spec/namespace")).await?,
    };
    Ok(review.into_answer("v1", &question["spec"], &status))
}

/// Returns the authenticated identity of the caller. Programs of this machine are the node.
pub(super) fn identity(
    who: &Authenticator,
    caller: &Caller,
    parts: &Parts,
    node: &str,
) -> Identity {
    let certificate = match who {
        Authenticator::Accounts(_) => parts.extensions.get::<Identity>(),
        Authenticator::Local(_) | Authenticator::Agent => None,
    };
    let mut identity = match (caller, certificate) {
        (Caller::Account(namespace, name), _) => Identity::service_account(namespace, name),
        (Caller::Anonymous, _) => {
            return Identity::new("system:anonymous", ["system:unauthenticated"]);
        }
        (_, Some(identity)) => identity.clone(),
        (Caller::Other(user), None) => Identity {
            user: user.clone(),
            ..Identity::default()
        },
        (Caller::Owner, None) => Identity::new(format!("system:node:{node}"), ["system:nodes"]),
    };
    if !identity
        .groups
        .iter()
        .any(|group| group == AUTHENTICATED_GROUP)
    {
        identity.groups.push(AUTHENTICATED_GROUP.into());
    }
    identity
}

/// Returns the error for a review that MetaServer alone cannot answer.
fn cloud_decides() -> ApiError {
    ApiError::method_not_allowed(
        "MetaServer passes this caller's requests on as the node's, and the cloud decides about each; it cannot be said beforehand",
    )
}

/// Returns whether MetaServer would allow the request in the review.
async fn access_review(
    who: &Authenticator,
    caller: &Caller,
    question: &Value,
) -> Result<Value, ApiError> {
    let spec = &question["spec"];
    let no = |reason: &str| Ok(json!({"allowed": false, "reason": reason}));
    let wanted = match (
        spec["resourceAttributes"].is_object(),
        spec["nonResourceAttributes"].is_object(),
    ) {
        (true, false) => &spec["resourceAttributes"],
        (false, true) => {
            return Ok(json!({"allowed": reads_discovery(&spec["nonResourceAttributes"])}));
        }
        _ => {
            return Err(ApiError::bad_request(
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ));
        }
    };
    let Some(request) = object_request(wanted) else {
        return no("MetaServer knows the verbs get, list, watch, create, update, patch and delete");
    };
    match who.authorize(caller, &request).await {
        // requests for what is on this node do not reach the cloud
        Ok(()) if request.is_stream() => {
            Ok(json!({"allowed": true, "reason": "for the pods of this node"}))
        }
        Ok(()) if *caller == Caller::Owner => Err(cloud_decides()),
        Ok(()) => Ok(json!({
            "allowed": true, "reason": "the account's ServiceAccountAccess allows it; the cloud must allow it to the node, too",
        })),
        Err(refusal) if refusal.is_forbidden() => no(refusal.message()),
        Err(failure) => Err(failure),
    }
}

/// Returns what MetaServer would allow in the namespace `place`.
async fn rules_review(
    who: &Authenticator,
    caller: &Caller,
    place: &str,
) -> Result<Value, ApiError> {
    if place.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let on_resources = match (who, caller) {
        (_, Caller::Owner) => return Err(cloud_decides()),
        (Authenticator::Accounts(access), Caller::Account(namespace, name)) => {
            access.rules_of(namespace, name, place).await?
        }
        _ => Vec::new(),
    };
    let is_of_resources = |rule: &Value| {
        rule["resources"]
            .as_array()
            .is_some_and(|list| !list.is_empty())
    };
    let on_resources: Vec<_> = on_resources.into_iter().filter(is_of_resources).collect();
    let on_paths = json!([{"verbs": ["get"], "nonResourceURLs": DISCOVERY_PATHS}]);
    Ok(json!({"resourceRules": on_resources, "nonResourceRules": on_paths, "incomplete": false}))
}

fn reads_discovery(wanted: &Value) -> bool {
    let is_get = text(wanted, "/verb").eq_ignore_ascii_case("get");
    let path: Option<Uri> = text(wanted, "/path").parse().ok();
    is_get && path.is_some_and(|path| route(&Method::GET, &path) == Route::Discovery)
}

/// Returns the request that the review is about; `None` if MetaServer does not serve it.
fn object_request(wanted: &Value) -> Option<ObjectRequest> {
    let of = |pointer: &str| text(wanted, pointer).to_owned();
    let verb = match text(wanted, "/verb") {
        "get" => Verb::Get,
        "list" => Verb::List,
        "watch" => Verb::Watch,
        "create" => Verb::Create,
        "update" => Verb::Update,
        "patch" => Verb::Patch,
        "delete" => Verb::Delete,
        _ => return None,
    };
    let (group, plural, mut namespace) = (of("/group"), of("/resource"), of("/namespace"));
    // a request has a namespace itself in cluster scope
    if group.is_empty() && plural == "namespaces" {
        namespace.clear();
    }
    let target = Target {
        group,
        version: of("/version"),
        plural,
        namespace,
        name: of("/name"),
    };
    Some(ObjectRequest {
        target,
        part: of("/subresource"),
        verb,
    })
}

#[cfg(test)]
mod tests;
