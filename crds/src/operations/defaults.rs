//! The defaults of node jobs, as KubeEdge documents them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON,
};
use serde_json::{Value, json};

use super::terms::{CONCURRENCY, FAILURE_TOLERATE, TIMEOUT_SECONDS};

/// Adds the defaults to the newest version of a kind; `path` leads from the object to their fields.
pub(crate) fn with_defaults(
    mut crd: CustomResourceDefinition,
    path: &[&str],
) -> CustomResourceDefinition {
    let defaults: [(&str, Value); 3] = [
        ("concurrency", json!(CONCURRENCY)),
        ("failureTolerate", json!(FAILURE_TOLERATE)),
        ("timeoutSeconds", json!(TIMEOUT_SECONDS)),
    ];
    let newest = crd.spec.versions.first_mut();
    let mut schema = newest
        .and_then(|version| version.schema.as_mut())
        .and_then(|schema| schema.open_api_v3_schema.as_mut());
    for name in path {
        schema = schema
            .and_then(|schema| schema.properties.as_mut())
            .and_then(|properties| properties.get_mut(*name));
    }
    let Some(properties) = schema.and_then(|schema| schema.properties.as_mut()) else {
        return crd;
    };
    for (name, value) in defaults {
        if let Some(field) = properties.get_mut(name) {
            field.default = Some(JSON(value));
        }
    }
    crd
}
