//! Decodes a body as an object of its kind.

use std::sync::OnceLock;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, schemars::JsonSchema};
use serde_json::Value;

use super::FieldValidation;
use crate::{
    builtin_schema::{Findings, Schema, TypeMismatch},
    duplicates::{DuplicateFields, MAX_FIELD_ERRORS},
    object::{as_map, default_to, text_or_empty},
    registry::{Kind, KindSchema},
    status::StatusError,
    structural_schema::Structural,
};

/// Decodes `object` as one of `kind` and brings it into the form in which it is stored; returns warnings. `repeated` is the received
/// body, in which fields may be repeated.
///
/// # Errors
/// 400 for another kind or version, for values of the wrong type and, under `Strict`, for unknown fields. Violations of a definition's
/// schema are found later, when the whole object is known.
pub(crate) fn decode(
    kind: &Kind,
    object: &mut Value,
    repeated: DuplicateFields<'_>,
    fields: FieldValidation,
) -> Result<Vec<String>, StatusError> {
    take_kind(kind, object)?;
    let told = match kind.schema() {
        KindSchema::Published(schema) => published(kind, schema, object, (repeated, fields))?,
        KindSchema::Defined(schema) => defined(kind, schema, object, (repeated, fields))?,
    };
    Ok(if fields == FieldValidation::Warn { told } else { Vec::new() })
}

fn published(
    kind: &Kind,
    schema: &Schema,
    object: &mut Value,
    (repeated, fields): (DuplicateFields<'_>, FieldValidation),
) -> Result<Vec<String>, StatusError> {
    schema.normalise(object);
    let Findings { mismatches, unknown, .. } = schema.check(object);
    let told = allowed(kind, repeated.messages_with_unknown(&unknown), repeated, fields)?;
    if let Some(mismatch) = mismatches.first() {
        return Err(unreadable(kind, &wrong_type(kind, mismatch)));
    }
    if !unknown.is_empty() {
        schema.prune(object);
    }
    Ok(told)
}

/// Decodes an object of a kind from a definition, whose schema does not describe the metadata, which all kinds share.
fn defined(
    kind: &Kind,
    schema: &Structural,
    object: &mut Value,
    (repeated, fields): (DuplicateFields<'_>, FieldValidation),
) -> Result<Vec<String>, StatusError> {
    let mut unknown = schema.prune(object);
    if let Some(metadata) = object.get_mut("metadata") {
        metadata_schema().normalise(metadata);
        let found = metadata_schema().check(metadata);
        let inside =
            |path: &str| if path.is_empty() { "metadata".to_owned() } else { format!("metadata.{path}") };
        unknown.extend(found.unknown.iter().map(|path| inside(path)));
        if let Some(TypeMismatch { path, found, expected }) = found.mismatches.into_iter().next() {
            let mismatch = TypeMismatch { path: inside(&path), found, expected };
            return Err(unreadable(kind, &wrong_type(kind, &mismatch)));
        }
        metadata_schema().prune(metadata);
    }
    // Unknown fields are reported after repeated ones.
    let unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
    let told = repeated.messages().into_iter().chain(unknown).take(MAX_FIELD_ERRORS).collect();
    let told = allowed(kind, told, repeated, fields)?;
    schema.fill_defaults(object)?;
    Ok(told)
}

/// Returns warnings about unknown and repeated fields, or an error if they are not allowed.
fn allowed(
    kind: &Kind,
    told: Vec<String>,
    repeated: DuplicateFields<'_>,
    fields: FieldValidation,
) -> Result<Vec<String>, StatusError> {
    if fields == FieldValidation::Strict && !told.is_empty() {
        return Err(unreadable(kind, &format!("strict decoding error: {}", repeated.refused(&told))));
    }
    Ok(told)
}

/// Checks `apiVersion` and `kind` against the path; fills them in if they are absent.
fn take_kind(kind: &Kind, object: &mut Value) -> Result<(), StatusError> {
    if !object.is_object() {
        return Err(StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: json: \
             cannot unmarshal non-object into Go value",
            kind.kind
        )));
    }
    let expected = kind.api_version();
    let map = as_map(object);
    default_to(map, "apiVersion", expected.as_str());
    default_to(map, "kind", kind.kind.as_str());
    let (version, found) = (text_or_empty(object, "/apiVersion"), text_or_empty(object, "/kind"));
    if version != expected {
        return Err(StatusError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if found != kind.kind {
        let in_version =
            format!("{found} in version \"{}\" cannot be handled as a {}", kind.version, kind.kind);
        let (from, to) = (format!("{}.{found}", kind.version), format!("core.{}", kind.kind));
        return Err(StatusError::bad_request(format!(
            "{in_version}: converting ({from}) to ({to}): unknown conversion"
        )));
    }
    Ok(())
}

/// Returns the paths of unknown fields in an object's metadata.
pub(crate) fn unknown_metadata(object: &Value) -> Vec<String> {
    let found = object.get("metadata").map(|metadata| metadata_schema().check(metadata).unknown);
    found.into_iter().flatten().map(|path| format!("metadata.{path}")).collect()
}

fn metadata_schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::published(&ObjectMeta::schema_name()))
}

fn unreadable(kind: &Kind, why: &str) -> StatusError {
    StatusError::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: {why}",
        kind.kind, kind.version, kind.kind
    ))
}

fn wrong_type(kind: &Kind, mismatch: &TypeMismatch) -> String {
    let TypeMismatch { path, found, expected } = mismatch;
    format!("json: cannot unmarshal {found} into Go struct field {}.{path} of type {expected}", kind.kind)
}
