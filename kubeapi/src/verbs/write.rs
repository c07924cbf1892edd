//! The common part of all writes: reading the body, admission, and storing.

use serde_json::Value;

use super::{
    get::{Outcome, find, key},
    merge::status_has_metadata,
};
use crate::{
    Api,
    object::{
        conversion::{convert_served, to_stored},
        deletion::{Next, is_awaited},
        is_deleting, metadata, object_size, text_or_empty,
    },
    patch::{self, ApplyOptions, Versions},
    registry::{Builtin, Kind, SchemaSource},
    request::{call::Call, path::Target, subresource::Subresource},
    status::StatusError,
};
use objectstore::{Expect, Object, StoreError, Write};

/// How often a write without a precondition is retried after a conflict.
const ATTEMPTS: usize = 32;

/// Checks a received object against its schema, and sets its type, name and namespace by the path. Its writer is warned also if the object
/// is refused later.
pub fn admit(api: &Api, call: &Call, mut object: Value) -> Result<Value, StatusError> {
    for warning in api.strategy().decode(call, &mut object)? {
        call.warnings.add(warning);
    }
    place(&call.target.kind, &call.target, &mut object)?;
    Ok(object)
}

fn place(kind: &Kind, target: &Target, object: &mut Value) -> Result<(), StatusError> {
    let (namespace, name) = (
        text_or_empty(object, "/metadata/namespace").to_owned(),
        text_or_empty(object, "/metadata/name").to_owned(),
    );
    if kind.namespaced && !namespace.is_empty() && namespace != target.namespace {
        return Err(StatusError::other_namespace());
    }
    if !target.name.is_empty() && !name.is_empty() && name != target.name {
        return Err(StatusError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    if let Value::Object(map) = object {
        // first, where people look for them
        map.shift_insert(0, "kind".into(), kind.kind.as_str().into());
        map.shift_insert(1, "apiVersion".into(), kind.api_version().into());
    }
    let metadata = metadata(object);
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let is_empty = match metadata.get(field) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            _ => false,
        };
        if is_empty {
            metadata.shift_remove(field);
        }
    }
    if kind.namespaced {
        metadata.insert("namespace".into(), target.namespace.as_str().into());
    } else {
        metadata.shift_remove("namespace");
    }
    if !target.name.is_empty() {
        metadata.insert("name".into(), target.name.as_str().into());
    }
    Ok(())
}

/// Stores `value` (`None` deletes) in place of what stands: what the store must find, and what that was, where it is known.
pub async fn store(
    api: &Api,
    target: &Target,
    expect: Expect,
    before: Option<&Value>,
    value: Option<Value>,
) -> Result<Object, StatusError> {
    let value = match value {
        Some(value) => Some(to_stored(api, &target.kind, value).await?),
        None => None,
    };
    if let Some(value) = &value {
        api.strategy().check_size(before, value)?;
    }
    if !api.strategy().allocates(target) {
        let write = Write {
            key: key(target),
            expect,
            value,
        };
        return commit(api, target, vec![write]).await?;
    }
    let mut attempts = ATTEMPTS;
    loop {
        let mut value = value.clone();
        let claims = api
            .strategy()
            .allocate(api, target, before, value.as_mut())
            .await?;
        let writes = std::iter::once(Write {
            key: key(target),
            expect,
            value,
        })
        .chain(claims)
        .collect();
        attempts -= 1;
        match commit(api, target, writes).await {
            Ok(written) => return written,
            Err(error) if attempts == 0 => return Err(error),
            // what it was to be given was given to another meanwhile
            Err(_) => {}
        }
    }
}

/// Returns the first written object, or why it was not written; the outer error is that of another write.
async fn commit(
    api: &Api,
    target: &Target,
    writes: Vec<Write>,
) -> Result<Result<Object, StatusError>, StatusError> {
    let error = match api.store().commit(writes).await {
        Ok(written) => {
            let nothing = || StatusError::internal("the store answered nothing");
            let written = written.into_iter().next().ok_or_else(nothing);
            return Ok(match written {
                Ok(written) => convert_served(api, &target.kind, written).await,
                Err(error) => Err(error),
            });
        }
        Err(error) => error,
    };
    let (in_claim, error) = match error {
        StoreError::Exists(key) => (
            api.strategy().is_allocation(&key),
            StatusError::already_exists(&target.kind, &target.name),
        ),
        StoreError::Missing(key) => (
            api.strategy().is_allocation(&key),
            StatusError::not_found(&target.kind, &target.name),
        ),
        StoreError::Conflict { key, .. } => (
            api.strategy().is_allocation(&key),
            StatusError::modified(&target.kind, &target.name),
        ),
        error => (false, error.into()),
    };
    if in_claim { Err(error) } else { Ok(Err(error)) }
}

/// The kind of the change, for admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object of the request is updated.
    Update,
    /// The object of the request is deleted.
    Delete,
    /// The server itself updates the object, on behalf of another request.
    Note,
}

/// Updates the target's object by `change`, which is called again with the newer state after a conflict. Returns the object afterwards
/// (its last state, if it was deleted).
pub async fn modify(
    api: &Api,
    call: &Call,
    kind_of_change: Change,
    mut change: impl FnMut(&Value) -> Result<Next, StatusError>,
) -> Result<Outcome, StatusError> {
    let target = &call.target;
    let dry_run = call.query.dry_run();
    let mut attempts = ATTEMPTS;
    loop {
        let mut last_state = None;
        let current = find(api, target).await?;
        let value = current.value()?;
        let mut changed = change(&value);
        while changed.is_err() && call.versions.convert_missing(api, &target.kind).await? {
            changed = change(&value);
        }
        let next = match (changed?, kind_of_change) {
            (Next::Replace(new), Change::Update) => {
                let new = api.strategy().admit_update(api, call, &value, new).await?;
                if is_over(&target.kind, &new) {
                    last_state = Some(new);
                    Next::Remove
                } else {
                    Next::Replace(new)
                }
            }
            (next, Change::Delete) => {
                api.strategy().admit_delete(api, call, &value).await?;
                next
            }
            (next, _) => next,
        };
        if let Next::Replace(new) = &next {
            api.strategy()
                .check_replacement(api, call, &value, new)
                .await?;
        }
        let next = match next {
            Next::Same => return Ok(Outcome::Stored(current)),
            Next::Replace(object) if object == value => return Ok(Outcome::Stored(current)),
            Next::Replace(mut object) if dry_run => {
                api.strategy()
                    .allocate(api, target, Some(&value), Some(&mut object))
                    .await?;
                object_size::check(&object, Some(&value))?;
                return Ok(Outcome::DryRun(object));
            }
            Next::Remove if dry_run => {
                return Ok(last_state.map_or(Outcome::Stored(current), Outcome::DryRun));
            }
            Next::Replace(object) => Some(object),
            Next::Remove => None,
        };
        let _turn = match &next {
            Some(new) => {
                api.strategy()
                    .admit_quota(api, target, Some(&value), new)
                    .await?
            }
            None => None,
        };
        attempts -= 1;
        match store(
            api,
            target,
            Expect::Revision(current.revision),
            Some(&value),
            next,
        )
        .await
        {
            Ok(object) => {
                return Ok(last_state.map_or(Outcome::Stored(object), Outcome::DryRun));
            }
            Err(error) if error.is_conflict() && attempts > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reports whether an object under deletion is to be removed: it has no finalizer, and a pod's grace period is 0.
fn is_over(kind: &Kind, object: &Value) -> bool {
    let grace = object
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    is_deleting(object) && !is_awaited(kind, object) && grace == 0
}

/// Returns the patch target of a request's kind.
pub fn target(kind: &Kind) -> patch::Target<'_> {
    let schema = match &kind.source {
        SchemaSource::Published { .. } => None,
        SchemaSource::Definition(schema) => Some(schema),
    };
    patch::Target {
        group: &kind.group,
        version: &kind.version,
        kind: &kind.kind,
        schema,
    }
}

/// Returns the writer, and the fields that this endpoint does not change.
pub fn writer<'a>(call: &'a Call, now: &'a str) -> ApplyOptions<'a> {
    let kind = &call.target.kind;
    let ignored: &[&str] = match call.target.part {
        Some(Subresource::Status) if !status_has_metadata(kind) => &["spec", "metadata"],
        Some(Subresource::Status | Subresource::Approval) => &["spec"],
        Some(Subresource::Resize) => &["metadata", "status"],
        None if kind.is(Builtin::CertificateSigningRequest) => &["spec", "status"],
        _ if kind.status => &["status"],
        _ => &[],
    };
    ApplyOptions {
        manager: call.manager(),
        force: false,
        now,
        subresource: call.target.part_name(),
        ignored,
        versions: kind
            .defined
            .as_ref()
            .filter(|defined| defined.has_versions)
            .map(|_| call as &dyn Versions),
    }
}
