//! `create`.

use std::time::Duration;

use http::{Response, StatusCode};
use rand::Rng;
use serde_json::Value;
use uuid::Uuid;

use super::{
    get::answer,
    write::{Admitted, accept, admit, check_namespace, store, target, timestamp, writer},
};
use crate::{
    Api, Body, body, defaults,
    object::{as_map, default_to, metadata, text_or_empty},
    patch,
    path::Target,
    service::Call,
    status::StatusError,
    store::{Expect, Store},
    validate,
};

/// The characters of generated names: no vowels and nothing that reads like another.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many characters are appended to `generateName`.
const SUFFIX: usize = 5;

/// The longest name, the suffix included.
const LONGEST: usize = 63;

/// A new object in the request's collection.
pub(crate) async fn create(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    if call.target.kind.namespaced && call.target.namespace.is_empty() {
        return Err(StatusError::method_not_allowed());
    }
    let object = body::parse(&call.headers, &call.body)?;
    let (object, warnings) = create_object(api, call, object).await?;
    answer(call, StatusCode::CREATED, object, &warnings)
}

/// The new object as stored, and warnings for its author.
pub(super) async fn create_object(
    api: &Api,
    call: &Call,
    object: Value,
) -> Result<(Value, Vec<String>), StatusError> {
    let Admitted { mut object, warnings } = admit(api, call, object)?;
    if !text_or_empty(&object, "/metadata/resourceVersion").is_empty() {
        return Err(StatusError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let dry_run = call.query.dry_run()?;
    let generate = text_or_empty(&object, "/metadata/generateName").to_owned();
    let generates = text_or_empty(&object, "/metadata/name").is_empty() && !generate.is_empty();
    let mut target = call.target.clone();
    begin(api, call, &mut object);
    check_namespace(api, &target).await?;
    // a generated name that is taken is not the client's fault
    let mut attempts = if generates { 8 } else { 1 };
    loop {
        if generates {
            metadata(&mut object).insert("name".into(), generated(&generate).into());
        }
        target.name = text_or_empty(&object, "/metadata/name").to_owned();
        if api.is_full() {
            accept(&target.kind, &target.name, validate::create(&target.kind, &object))?;
        }
        if dry_run {
            return Ok((refused_if_there(api, &target, object).await?, warnings));
        }
        attempts -= 1;
        match store(api, &target, Expect::Absent, Some(object.clone())).await {
            Err(error) if error.is_conflict() && attempts > 0 => {}
            written => return Ok((written?.value()?, warnings)),
        }
    }
}

async fn refused_if_there(api: &Api, target: &Target, object: Value) -> Result<Value, StatusError> {
    match Store::get(&**api.store(), &super::get::key(target)).await? {
        Some(_) => Err(StatusError::already_exists(&target.kind, &target.name)),
        None => Ok(object),
    }
}

/// Sets what the server sets.
fn begin(api: &Api, call: &Call, object: &mut Value) {
    let kind = &call.target.kind;
    let now = timestamp(Duration::ZERO);
    if !api.is_full() {
        let metadata = metadata(object);
        default_to(metadata, "uid", Uuid::new_v4().to_string());
        default_to(metadata, "creationTimestamp", now);
        return;
    }
    if !kind.keeps_status_on_create() {
        as_map(object).shift_remove("status");
    }
    let metadata = metadata(object);
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.shift_remove(key);
    }
    metadata.insert("uid".into(), Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".into(), now.as_str().into());
    if kind.counts_generations() {
        metadata.insert("generation".into(), 1.into());
    } else {
        metadata.shift_remove("generation");
    }
    defaults::begin(kind, object);
    defaults::fill(kind, object);
    // an apply has said already who owns what
    if object.pointer("/metadata/managedFields").is_none() {
        patch::track_update(&target(kind), None, object, &writer(call, &now));
    }
}

fn generated(prefix: &str) -> String {
    let mut random = rand::rng();
    let kept = prefix.chars().take(LONGEST - SUFFIX);
    let suffix = (0..SUFFIX).filter_map(|_| ALPHABET.get(random.random_range(0..ALPHABET.len()))).map(|byte| char::from(*byte));
    kept.chain(suffix).collect()
}
