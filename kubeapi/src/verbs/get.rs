//! `get`, and the shapes in which any verb answers one object.

use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    Api, Body,
    accept::Shape,
    body,
    call::Call,
    conversion::served,
    path::Target,
    status::StatusError,
    store::{Key, Object, Store, StoreError},
    table::{self, Include},
};

/// The object at the request's path.
pub(crate) async fn get(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let object = find(api, &call.target).await?;
    answer(call, StatusCode::OK, Outcome::Stored(object), &[])
}

/// Where the target's object stands.
pub(crate) fn key(target: &Target) -> Key {
    Key::new(target.kind.resource().clone(), target.namespace.as_str(), target.name.as_str())
}

/// The target's object as stored, or 404.
pub(crate) async fn find(api: &Api, target: &Target) -> Result<Object, StatusError> {
    let found = Store::get(&**api.store(), &key(target)).await?;
    let found = found.ok_or_else(|| StatusError::not_found(&target.kind, &target.name))?;
    Ok(served(&target.kind, found)?)
}

/// An object at the end of a verb.
pub(super) enum Outcome {
    /// As it is stored.
    Stored(Object),
    /// As it would be: the verb was only tried.
    Tried(Value),
}

impl Outcome {
    /// The object itself.
    pub(super) fn value(self) -> Result<Value, StatusError> {
        match self {
            Self::Stored(object) => Ok(object.value()?),
            Self::Tried(value) => Ok(value),
        }
    }
}

/// The object in the shape that the caller asked for. What is stored is mostly answered as it is stored, unread.
pub(super) fn answer(
    call: &Call,
    code: StatusCode,
    outcome: Outcome,
    warnings: &[String],
) -> Result<Response<Body>, StatusError> {
    let object = match outcome {
        Outcome::Stored(object) if call.shape == Shape::Objects => {
            return Ok(body::answer(code, object.json, warnings));
        }
        Outcome::Stored(object) if call.shape == Shape::Metadata => {
            return Ok(body::answer(code, metadata_alone(&object)?.into(), warnings));
        }
        outcome => outcome.value()?,
    };
    let shaped = match call.shape {
        Shape::Objects => object,
        Shape::Metadata => metadata_of(&object),
        Shape::Table => {
            let include = Include::parse(call.query.get("includeObject"))?;
            let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
            let list_metadata = json!({"resourceVersion": version});
            table::table(&call.target.kind, &[object], list_metadata, include, true, Timestamp::now())
        }
    };
    Ok(body::answer(code, Bytes::from(shaped.to_string()), warnings))
}

/// The object without all but its metadata.
pub(crate) fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object.get("metadata")})
}

/// The same of a stored object, of which no more is read than it must.
pub(super) fn metadata_alone(object: &Object) -> Result<String, StoreError> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    let head: Head<'_> = serde_json::from_slice(&object.json).map_err(|error| object.not_json(&error))?;
    let metadata = head.metadata.map_or("null", RawValue::get);
    Ok(format!(
        "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata}}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Resource;

    #[test]
    fn the_metadata_of_what_is_stored_is_the_same_read_or_cut_out() {
        let key = Key::new(Resource::new("", "nodes"), "", "a");
        for text in [
            r#"{"kind":"Node","metadata":{"name":"a \"}{ b","labels":{"x":"ü"}},"status":{"metadata":{"name":"no"}}}"#,
            r#"{"status":[{"metadata":1}]}"#,
        ] {
            let object = Object { key: key.clone(), revision: 1, json: Bytes::from(text) };
            let read = metadata_of(&object.value().unwrap());
            assert_eq!(serde_json::from_str::<Value>(&metadata_alone(&object).unwrap()).unwrap(), read);
        }
        let damaged = Object { key, revision: 1, json: Bytes::from_static(b"{\"metadata\":{\"name\"") };
        assert!(matches!(metadata_alone(&damaged), Err(StoreError::Damaged { .. })));
    }
}
