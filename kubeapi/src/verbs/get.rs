//! `get`, and the encoding of single objects for all verbs.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    Api, Body,
    object::conversion::convert_served,
    request::{accept::Shape, body, call::Call, path::Target},
    status::StatusError,
    table::{self, IncludeObject},
};
use objectstore::{Key, Object, Store, StoreError};

/// Answers with the object at the request's path.
pub async fn get(api: &Api, call: &Call) -> Result<Response<Body>, StatusError> {
    let object = find(api, &call.target).await?;
    answer(call, StatusCode::OK, Outcome::Stored(object))
}

/// Returns the key of the target's object.
pub fn key(target: &Target) -> Key {
    Key::new(
        target.kind.resource().clone(),
        target.namespace.as_str(),
        target.name.as_str(),
    )
}

/// Returns the target's stored object, or 404.
pub async fn find(api: &Api, target: &Target) -> Result<Object, StatusError> {
    let found = Store::get(&**api.store(), &key(target)).await?;
    let found = found.ok_or_else(|| StatusError::not_found(&target.kind, &target.name))?;
    convert_served(api, &target.kind, found).await
}

/// The resulting object of a verb.
pub enum Outcome {
    /// The stored object.
    Stored(Object),
    /// The object that a dry run would have stored.
    DryRun(Value),
}

impl Outcome {
    /// Returns the object.
    pub fn value(self) -> Result<Value, StatusError> {
        match self {
            Self::Stored(object) => Ok(object.value()?),
            Self::DryRun(value) => Ok(value),
        }
    }
}

/// Encodes the object in the requested representation. A stored object is mostly sent as it is stored, without parsing it.
pub fn answer(
    call: &Call,
    code: StatusCode,
    outcome: Outcome,
) -> Result<Response<Body>, StatusError> {
    let object = match outcome {
        Outcome::Stored(object) if call.shape == Shape::Objects => {
            return Ok(body::answer(code, object.json, &[]));
        }
        Outcome::Stored(object) if call.shape == Shape::Metadata => {
            return Ok(body::answer(code, metadata_alone(&object)?.into(), &[]));
        }
        outcome => outcome.value()?,
    };
    let shaped = match call.shape {
        Shape::Objects => object,
        Shape::Metadata => metadata_of(&object),
        Shape::Table => {
            let include = IncludeObject::parse(call.query.get("includeObject"))?;
            let version = object
                .pointer("/metadata/resourceVersion")
                .cloned()
                .unwrap_or_default();
            let list_metadata = json!({"resourceVersion": version});
            table::table(
                &call.target.kind,
                &[object],
                list_metadata,
                include,
                true,
                clock::now(),
            )
        }
    };
    Ok(body::answer(code, Bytes::from(shaped.to_string()), &[]))
}

/// Returns the object's metadata only.
pub fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object.get("metadata")})
}

/// Returns the metadata of a stored object, parsing no more than needed.
pub fn metadata_alone(object: &Object) -> Result<String, StoreError> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    let head: Head<'_> =
        serde_json::from_slice(&object.json).map_err(|error| object.not_json(&error))?;
    let metadata = head.metadata.map_or("null", RawValue::get);
    Ok(format!(
        "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata}}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use objectstore::Resource;

    #[test]
    fn the_metadata_of_what_is_stored_is_the_same_read_or_cut_out() {
        let key = Key::new(Resource::new("", "nodes"), "", "a");
        for text in [
            r#"{"kind":"Node","metadata":{"name":"a \"}{ b","labels":{"x":"ü"}},"status":{"metadata":{"name":"no"}}}"#,
            r#"{"status":[{"metadata":1}]}"#,
        ] {
            let object = Object::new(key.clone(), 1, Bytes::from(text));
            let read = metadata_of(&object.value().unwrap());
            assert_eq!(
                serde_json::from_str::<Value>(&metadata_alone(&object).unwrap()).unwrap(),
                read
            );
        }
        let damaged = Object::new(key, 1, Bytes::from_static(b"{\"metadata\":{\"name\""));
        assert!(matches!(
            metadata_alone(&damaged),
            Err(StoreError::Damaged { .. })
        ));
    }
}
