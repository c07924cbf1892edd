//! Makes what is written readable as Go reads it: a definition that cannot be read could not be served.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::schema_parts::inner_mut;
use kubeapi::status::StatusError;

/// Removes what Go reads as absent: `items` that is no schema and no list of schemas.
pub(crate) fn drop_unreadable_items(definition: &mut Value) {
    let versions = definition
        .pointer_mut("/spec/versions")
        .and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        if let Some(Value::Object(schema)) = version.pointer_mut("/schema/openAPIV3Schema") {
            drop_items(schema);
        }
    }
}

fn drop_items(schema: &mut Map<String, Value>) {
    let is_readable = |items: &Value| items.is_object() || items.is_array() || items.is_null();
    if schema.get("items").is_some_and(|items| !is_readable(items)) {
        schema.shift_remove("items");
    }
    inner_mut(schema).into_iter().for_each(drop_items);
}

/// Refuses a definition that cannot be read.
pub(crate) fn check_readable(definition: &Value) -> Result<(), StatusError> {
    CustomResourceDefinition::deserialize(definition)
        .map(drop)
        .map_err(|error| {
            StatusError::bad_request(format!(
                "CustomResourceDefinition in version \"v1\" cannot be handled as a CustomResourceDefinition: {error}"
            ))
        })
}
