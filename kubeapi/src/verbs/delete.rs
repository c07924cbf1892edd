//! `delete` of one object or of a collection: preconditions, grace, finalizers.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    get::answer,
    list::{all, selection},
    merge::next_generation,
    write::{Next, modify, timestamp},
};
use crate::{
    Api, Body, body,
    object::{has_finalizers, is_deleting, metadata, text, text_or_empty},
    registry::{Builtin, Kind},
    service::Call,
    status::StatusError,
};

/// Kubernetes' default of `terminationGracePeriodSeconds`.
const DEFAULT_GRACE: i64 = 30;

/// `DeleteOptions` (meta/v1), as far as they matter here: nothing is owned by anything, so what becomes of dependents
/// (`propagationPolicy`) is taken and changes nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Options {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    dry_run: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// Deletes the request's object, or begins to.
pub(crate) async fn delete(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let (options, call) = options(call)?;
    let (object, gone) = delete_one(api, &call, &options).await?;
    if call.target.kind.answers_deleted() || !gone {
        return answer(&call, StatusCode::OK, object, &[]);
    }
    let uid = text_or_empty(&object, "/metadata/uid");
    Ok(body::answer(StatusCode::OK, Bytes::from(success(&call.target.kind, &call.target.name, uid).to_string()), &[]))
}

/// Deletes every selected object of the request's collection.
pub(crate) async fn delete_collection(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    if call.target.kind.namespaced && call.target.namespace.is_empty() {
        return Err(StatusError::method_not_allowed());
    }
    let (options, call) = options(call)?;
    let (objects, revision) = all(api, &call, &selection(&call)?).await?;
    let mut items = Vec::with_capacity(objects.len());
    for object in objects {
        let mut one = call.bodyless();
        one.target.name = object.key.name;
        match delete_one(api, &one, &options).await {
            Ok((object, _)) => items.push(object),
            // somebody else was faster
            Err(error) if error.code == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    let kind = &call.target.kind;
    let list = json!({
        "kind": kind.list_kind(), "apiVersion": kind.api_version(),
        "metadata": {"resourceVersion": revision.to_string()}, "items": items,
    });
    Ok(body::answer(StatusCode::OK, Bytes::from(list.to_string()), &[]))
}

/// Options come in the body or as parameters; a dry run in the body is made one of the parameters.
fn options(call: &Call) -> Result<(Options, Call), StatusError> {
    let mut options = Options::default();
    if !call.body.is_empty() {
        let value = body::parse(&call.headers, &call.body)?;
        options = serde_json::from_value(value)
            .map_err(|error| StatusError::bad_request(format!("the body is not DeleteOptions: {error}")))?;
    }
    if let Some(grace) = call.query.number("gracePeriodSeconds")? {
        options.grace_period_seconds = Some(i64::try_from(grace).unwrap_or(i64::MAX));
    }
    let mut call = call.bodyless();
    if options.dry_run.iter().any(|stage| stage == "All") {
        call.query.set("dryRun", "All");
    }
    Ok((options, call))
}

/// The object afterwards, and whether it is gone.
async fn delete_one(api: &Api, call: &Call, options: &Options) -> Result<(Value, bool), StatusError> {
    let mut gone = false;
    let object = modify(api, call, |current| {
        check(call, options, current)?;
        let next = begin(&call.target.kind, options, current);
        gone = matches!(next, Next::Remove);
        Ok(next)
    })
    .await?;
    Ok((object, gone))
}

fn check(call: &Call, options: &Options, current: &Value) -> Result<(), StatusError> {
    let Some(Preconditions { uid, resource_version }) = &options.preconditions else { return Ok(()) };
    let (kind, name) = (&call.target.kind, &call.target.name);
    let found = text_or_empty(current, "/metadata/uid");
    if let Some(uid) = uid.as_deref().filter(|uid| *uid != found) {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
        return Err(StatusError::conflict(kind, name, &why));
    }
    let found = text_or_empty(current, "/metadata/resourceVersion");
    if let Some(version) = resource_version.as_deref().filter(|version| *version != found) {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {found}"
        );
        return Err(StatusError::conflict(kind, name, &why));
    }
    Ok(())
}

/// The first step of a deletion: often the last one too.
fn begin(kind: &Kind, options: &Options, current: &Value) -> Next {
    let grace = if kind.is(Builtin::Pod) { pods_grace(options, current) } else { 0 };
    if grace == 0 && !has_finalizers(current) {
        return Next::Remove;
    }
    let pending = current.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    if is_deleting(current) && pending.unwrap_or_default() <= grace {
        return Next::Same;
    }
    let mut deleting = current.clone();
    let was_deleting = is_deleting(current);
    let metadata = metadata(&mut deleting);
    let end = timestamp(Duration::from_secs(u64::try_from(grace).unwrap_or_default()));
    metadata.insert("deletionTimestamp".into(), end.into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    if !was_deleting && kind.counts_generations() {
        next_generation(&mut deleting);
    }
    Next::Replace(deleting)
}

/// How many seconds a pod gets to end: none where nothing runs.
fn pods_grace(options: &Options, pod: &Value) -> i64 {
    let wanted = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    let is_over = matches!(text(pod, "/status/phase"), Some("Succeeded" | "Failed"));
    let runs_somewhere = !text_or_empty(pod, "/spec/nodeName").is_empty();
    if !runs_somewhere || (is_over && !is_deleting(pod)) {
        return 0;
    }
    // a negative one is an old way to ask for the shortest that still is graceful
    let grace = options.grace_period_seconds.or(wanted).unwrap_or(DEFAULT_GRACE);
    if grace < 0 { 1 } else { grace }
}

/// `Status` of a deletion done.
pub(super) fn success(kind: &Kind, name: &str, uid: &str) -> Value {
    let mut details = json!({"name": name});
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    details["kind"] = json!(kind.plural);
    details["uid"] = json!(uid);
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
