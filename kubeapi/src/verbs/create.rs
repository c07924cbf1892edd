//! `create`.

use http::{Response, StatusCode};
use serde_json::Value;
use uuid::Uuid;

use super::{
    generated_name::generate_name,
    get::{self, Outcome, answer, key},
    write::{admit, store},
};
use crate::{
    Api, Body,
    api::strategy::Origin,
    object::{metadata, object_size, text_or_empty},
    registry::Builtin,
    request::{body, call::Call, path::Target},
    status::StatusError,
};
use objectstore::{Expect, Store};

/// How often a new name is generated where one is taken.
const ATTEMPTS: usize = 8;

/// Creates an object in the request's collection.
pub(crate) async fn create(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    if call.target.kind.namespaced && call.target.namespace.is_empty() {
        return Err(StatusError::method_not_allowed());
    }
    let object = body::parse(&call.headers, &call.body, &call.target.kind.kind)?;
    let object = admit(api, call, object)?;
    let object = create_object(api, call, object, Origin::Update).await?;
    answer(call, StatusCode::CREATED, object)
}

/// Creates an admitted object for an update or apply; `None` where one exists already.
pub(super) async fn create_if_missing(
    api: &Api,
    call: &Call,
    object: impl FnOnce() -> Result<Value, StatusError>,
    origin: Origin,
) -> Result<Option<Response<Body>>, StatusError> {
    match get::find(api, &call.target).await {
        Ok(_) => return Ok(None),
        // a damaged object is replaced
        Err(error) if error.code == StatusCode::NOT_FOUND || error.is_storage_read() => {}
        Err(error) => return Err(error),
    }
    match create_object(api, call, object()?, origin).await {
        Ok(object) => answer(call, StatusCode::CREATED, object).map(Some),
        Err(error) if error.is_already_exists() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stores the new object and returns it.
async fn create_object(
    api: &Api,
    call: &Call,
    mut object: Value,
    origin: Origin,
) -> Result<Outcome, StatusError> {
    if call.target.kind.is_terminating() {
        return Err(StatusError::definition_terminating("create"));
    }
    // a dry run does not reach the store, which alone minds, as in the API server
    let version = text_or_empty(&object, "/metadata/resourceVersion").parse::<u64>();
    if version.is_ok_and(|version| version > 0) && !call.query.dry_run() {
        return Err(StatusError::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let generate = text_or_empty(&object, "/metadata/generateName").to_owned();
    let mut target = call.target.clone();
    target.name = text_or_empty(&object, "/metadata/name").to_owned();
    let generates = target.name.is_empty() && !generate.is_empty();
    if target.kind.is(Builtin::LimitRange) && target.name.is_empty() && !generates {
        // a name of its own, which only this kind gets
        target.name = clock::uuid().to_string();
        metadata(&mut object).insert("name".into(), target.name.as_str().into());
    }
    let strategy = api.strategy();
    let sent = object.clone();
    strategy.admit_new(api, &target, &mut object).await?;
    // the writer owns what it sent, but nothing that admission adds
    let sent = (sent != object).then_some(sent);
    let mut attempts = if generates { ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        let is_last = attempts == 0;
        let mut object = if is_last {
            object.take()
        } else {
            object.clone()
        };
        if generates {
            // before all that the server adds: some of it is made of the name
            target.name = generate_name(&generate);
            metadata(&mut object).insert("name".into(), target.name.as_str().into());
        }
        let damaged_uid = damaged_uid(api, &target, &object).await?;
        strategy.prepare_create(call, &mut object, sent.as_ref(), origin)?;
        if let Some(uid) = damaged_uid {
            metadata(&mut object).insert("uid".into(), uid.into());
        }
        object = strategy.admit_create(api, call, &target, object).await?;
        let _turn = strategy.admit_quota(api, &target, None, &object).await?;
        if call.query.dry_run() {
            strategy
                .allocate(api, &target, None, Some(&mut object))
                .await?;
            object_size::check(&object, None)?;
            return refused_if_there(api, &target, object)
                .await
                .map(Outcome::DryRun);
        }
        match store(api, &target, Expect::Absent, None, Some(object)).await {
            Err(error) if error.is_already_exists() && !is_last => {}
            written => return written.map(Outcome::Stored),
        }
    }
}

/// Returns the uid of the damaged object that is replaced, so that what it owns stays its own: the writer's, or the stored one.
async fn damaged_uid(
    api: &Api,
    target: &Target,
    object: &Value,
) -> Result<Option<String>, StatusError> {
    let key = key(target);
    if !api.store().damaged_objects().has(&key) {
        return Ok(None);
    }
    let known = Uuid::parse_str(text_or_empty(object, "/metadata/uid")).ok();
    Ok(match known {
        Some(uid) => Some(uid.to_string()),
        None => api.store().damaged_uid(&key).await?,
    })
}

async fn refused_if_there(api: &Api, target: &Target, object: Value) -> Result<Value, StatusError> {
    match Store::get(&**api.store(), &key(target)).await? {
        Some(_) => Err(StatusError::already_exists(&target.kind, &target.name)),
        None => Ok(object),
    }
}
