//! `delete` of one object or of a collection: preconditions, grace, finalizers.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    get::{Outcome, answer, key},
    list::{all, remove_kind, scope, selection},
    options::{of_dry_run, refuse},
    write::{Change, modify, store},
};
use crate::{
    Api, Body,
    cause::Cause,
    object::{
        deletion::{Deletion, Next, Policy, begin_deletion, deletion_effect},
        is_deleting, metadata, text_or_empty,
    },
    registry::{Builtin, Kind},
    request::{body, call::Call, request_type},
    status::StatusError,
    validate::decode_body,
};
use objectstore::{Expect, Key, Store, StoreError};

/// `DeleteOptions` (meta/v1).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Options {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    dry_run: Option<Vec<String>>,
    propagation_policy: Option<String>,
    /// The deprecated form of `Orphan` or `Background`.
    orphan_dependents: Option<bool>,
}

impl Options {
    /// Parses the options in a body.
    pub(super) fn read(value: Value) -> Result<Self, StatusError> {
        serde_json::from_value(value).map_err(|error| {
            StatusError::bad_request(format!("the body is not DeleteOptions: {error}"))
        })
    }

    /// Makes `call` a dry run if these options say so.
    pub(super) fn take_dry_run(&self, call: &mut Call) -> Result<(), StatusError> {
        let stages: Vec<_> = self.dry_run.iter().flatten().map(String::as_str).collect();
        refuse("DeleteOptions", of_dry_run(&stages).into_iter().collect())?;
        if let Some(stage) = stages.first() {
            call.query.set("dryRun", stage);
        }
        Ok(())
    }

    /// Returns the options without the precondition of the resourceVersion, which was checked before a write of the deletion's own.
    pub(super) fn without_resource_version(mut self) -> Self {
        if let Some(preconditions) = &mut self.preconditions {
            preconditions.resource_version = None;
        }
        self
    }

    fn deletion(&self) -> Result<Deletion, StatusError> {
        const FIELD: &str = "propagationPolicy";
        let policy = match (self.propagation_policy.as_deref(), self.orphan_dependents) {
            (Some(policy), Some(_)) => {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                let cause = Cause::invalid(FIELD, &policy.into(), why);
                return Err(StatusError::invalid(
                    "meta.k8s.io",
                    "DeleteOptions",
                    "",
                    vec![cause],
                ));
            }
            (None, None) => None,
            (None, Some(true)) | (Some("Orphan"), None) => Some(Policy::Orphan),
            (None, Some(false)) | (Some("Background"), None) => Some(Policy::Background),
            (Some("Foreground"), None) => Some(Policy::Foreground),
            (Some(other), None) => {
                let cause = Cause::unsupported(
                    FIELD,
                    &other.into(),
                    &["Foreground", "Background", "Orphan", "nil"],
                );
                return Err(StatusError::invalid(
                    "meta.k8s.io",
                    "DeleteOptions",
                    "",
                    vec![cause],
                ));
            }
        };
        Ok(Deletion {
            grace: self.grace_period_seconds,
            policy,
        })
    }
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
    let (mut object, gone) = delete_one(api, &call, &options).await?;
    let kind = &call.target.kind;
    if gone && kind.is(Builtin::Pod) {
        object = last_state(kind, object);
    }
    if kind.answers_deleted() || !gone {
        return answer(&call, StatusCode::OK, Outcome::DryRun(object));
    }
    let status = success(
        kind,
        &call.target.name,
        text_or_empty(&object, "/metadata/uid"),
    );
    Ok(body::answer(
        StatusCode::OK,
        Bytes::from(status.to_string()),
        &[],
    ))
}

/// Returns a removed pod as its deletion without a grace period would have left it.
fn last_state(kind: &Kind, pod: Value) -> Value {
    if !is_deleting(&pod) {
        return begin_deletion(kind, pod, 0, clock::now());
    }
    let mut pod = pod;
    metadata(&mut pod).insert("deletionGracePeriodSeconds".into(), 0.into());
    pod
}

/// Deletes every selected object of the request's collection.
pub(crate) async fn delete_collection(
    api: &Api,
    call: &Call,
) -> Result<Response<Body>, StatusError> {
    let kind = &call.target.kind;
    let spans_namespaces = kind.namespaced && call.target.namespace.is_empty();
    // too much would go at once, says the real server
    if spans_namespaces || kind.is(Builtin::Namespace) {
        return Err(StatusError::method_not_allowed());
    }
    let (options, call) = options(call)?;
    options.deletion()?;
    let selection = selection(&call)?;
    if selection.is_everything() {
        delete_damaged_of(api, &call, &options).await?;
    }
    let (objects, revision) = all(api, &call, &selection).await?;
    let mut items = Vec::with_capacity(objects.len());
    for object in objects {
        let mut one = call.bodyless();
        one.target.name = object.key.name;
        match delete_one(api, &one, &options).await {
            Ok((mut object, _)) => {
                if api.strategy().lists_untyped(kind) {
                    remove_kind(&mut object);
                }
                items.push(object);
            }
            // somebody else was faster
            Err(error) if error.code == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    let list = json!({
        "kind": kind.list_kind(), "apiVersion": kind.api_version(),
        "metadata": {"resourceVersion": revision.to_string()}, "items": items,
    });
    Ok(body::answer(
        StatusCode::OK,
        Bytes::from(list.to_string()),
        &[],
    ))
}

/// Returns the options in the body or else in the parameters; `dryRun` in the body is copied to the parameters.
fn options(call: &Call) -> Result<(Options, Call), StatusError> {
    let mut options = Options::default();
    if !call.body.is_empty() {
        let (body, warnings) = decode_body(
            &request_type::DELETE_OPTIONS,
            &call.headers,
            &call.body,
            &call.query,
        )?;
        warnings
            .into_iter()
            .for_each(|warning| call.warnings.add(warning));
        options = Options::read(body)?;
    }
    if options.grace_period_seconds.is_none() {
        options.grace_period_seconds = call.query.number("gracePeriodSeconds")?;
    }
    if options.propagation_policy.is_none() && options.orphan_dependents.is_none() {
        options.propagation_policy = call.query.get("propagationPolicy").map(str::to_owned);
        options.orphan_dependents = call
            .query
            .has("orphanDependents")
            .then(|| call.query.flag("orphanDependents"));
    }
    let mut call = call.bodyless();
    options.take_dry_run(&mut call)?;
    Ok((options, call))
}

/// Deletes one object; returns it, and whether it was removed.
pub(super) async fn delete_one(
    api: &Api,
    call: &Call,
    options: &Options,
) -> Result<(Value, bool), StatusError> {
    if is_damaged(api, call).await? {
        return Ok((delete_damaged(api, call, options).await?, true));
    }
    // in a cache nobody empties a namespace or collects dependents: the cloud has done so
    let mut asked = options.deletion()?;
    let is_cached_namespace =
        !api.strategy().collects_garbage() && call.target.kind.is(Builtin::Namespace);
    asked.policy = asked.policy.filter(|_| api.strategy().collects_garbage());
    let mut gone = false;
    let object = modify(api, call, Change::Delete, |current| {
        check(call, options, current)?;
        let next = if is_cached_namespace {
            Next::Remove
        } else {
            deletion_effect(&call.target.kind, &asked, current, clock::now())
        };
        gone = matches!(next, Next::Remove);
        Ok(next)
    })
    .await?;
    Ok((object.value()?, gone))
}

/// Reports whether the target's object is stored and cannot be read.
async fn is_damaged(api: &Api, call: &Call) -> Result<bool, StatusError> {
    match Store::get(&**api.store(), &key(&call.target)).await {
        Err(StoreError::Damaged { .. }) => Ok(true),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(false),
    }
}

/// Deletes a damaged object, of which only the key is known: finalizers and grace periods do not apply. A precondition is refused,
/// since it cannot be checked. Returns the object's name.
async fn delete_damaged(api: &Api, call: &Call, options: &Options) -> Result<Value, StatusError> {
    let target = &call.target;
    if options.preconditions.is_some() {
        let why = "the stored object is damaged, so that preconditions cannot be checked; delete it without them";
        return Err(StatusError::conflict(&target.kind, &target.name, why));
    }
    let mut metadata = json!({"name": target.name});
    if target.kind.namespaced {
        metadata["namespace"] = json!(target.namespace);
    }
    if !call.query.dry_run() {
        store(api, target, Expect::Anything, None, None).await?;
    }
    Ok(
        json!({"kind": target.kind.kind, "apiVersion": target.kind.api_version(), "metadata": metadata}),
    )
}

/// Deletes the damaged objects of the request's collection, of which no selector can be checked.
async fn delete_damaged_of(api: &Api, call: &Call, options: &Options) -> Result<(), StatusError> {
    let (scope, damaged) = (scope(&call.target), api.store().damaged_objects().now());
    let covered = |key: &&Key| {
        key.resource == scope.resource
            && scope
                .namespace
                .as_ref()
                .is_none_or(|wanted| *wanted == key.namespace)
    };
    for key in damaged.keys().filter(covered) {
        let mut one = call.bodyless();
        one.target.name.clone_from(&key.name);
        match delete_one(api, &one, options).await {
            Err(error) if error.code != StatusCode::NOT_FOUND => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Checks the preconditions of a deletion.
pub(super) fn check(call: &Call, options: &Options, current: &Value) -> Result<(), StatusError> {
    let Some(Preconditions {
        uid,
        resource_version,
    }) = &options.preconditions
    else {
        return Ok(());
    };
    let (kind, name) = (&call.target.kind, &call.target.name);
    let wanted = [
        ("UID", uid, "/metadata/uid"),
        (
            "ResourceVersion",
            resource_version,
            "/metadata/resourceVersion",
        ),
    ];
    for (what, wanted, pointer) in wanted {
        let found = text_or_empty(current, pointer);
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            let reason = match what {
                "UID" => "deleted and then recreated",
                _ => "modified",
            };
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {reason}"
            );
            return Err(StatusError::precondition(kind, name, &why));
        }
    }
    Ok(())
}

/// Returns the `Status` of a completed deletion.
fn success(kind: &Kind, name: &str, uid: &str) -> Value {
    let mut details = json!({"name": name});
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    details["kind"] = json!(kind.plural);
    details["uid"] = json!(uid);
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
