//! Decodes a body as an object of its kind.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use super::FieldValidation;
use crate::{
    cause::Cause,
    object::{as_map, default_to, text_or_empty},
    registry::{Kind, KindSchema, TypeName},
    request::{
        body,
        duplicates::{DuplicateFields, MAX_FIELD_ERRORS},
        query::Query,
        request_type::{RequestType, is_registered},
    },
    schema::{
        builtin_schema::{Findings, Schema, TypeMismatch, metadata_schema},
        structural_schema::Structural,
    },
    status::StatusError,
};

/// Decodes `object` as one of `kind` and brings it into the form in which it is stored; returns warnings. `repeated` is the received
/// body, in which fields may be repeated.
///
/// # Errors
/// 400 for another kind or version, for values of the wrong type and, under `Strict`, for unknown fields. Violations of a definition's
/// schema are found later, when the whole object is known.
pub fn decode(
    kind: &Kind,
    object: &mut Value,
    repeated: DuplicateFields<'_>,
    fields: FieldValidation,
) -> Result<Vec<String>, StatusError> {
    let name = kind.type_name();
    take_kind(
        name,
        |version| version == name.api_version(),
        kind.defined.is_some(),
        object,
    )?;
    let told = match kind.schema() {
        KindSchema::Published(schema) => decode_published(name, schema, object, repeated, fields)?,
        KindSchema::Defined(schema) => decode_defined(name, schema, object, repeated, fields)?,
    };
    Ok(if fields == FieldValidation::Warn {
        told
    } else {
        Vec::new()
    })
}

/// Reads the body of a request as an object of a type that is not stored, as [`decode`] reads objects; returns it with warnings.
///
/// # Errors
/// As [`decode`].
pub fn decode_body(
    type_: &RequestType,
    headers: &HeaderMap,
    body: &Bytes,
    query: &Query,
) -> Result<(Value, Vec<String>), StatusError> {
    let name = type_.name();
    let fields = FieldValidation::parse(query.get("fieldValidation"))?;
    let mut object = body::parse(headers, body, name.kind)?;
    take_kind(name, |version| type_.takes(version), false, &mut object)?;
    let repeated = DuplicateFields::of(headers, body, fields);
    let told = decode_published(name, type_.schema(), &mut object, repeated, fields)?;
    Ok((
        object,
        if fields == FieldValidation::Warn {
            told
        } else {
            Vec::new()
        },
    ))
}

fn decode_published(
    name: TypeName<'_>,
    schema: &Schema,
    object: &mut Value,
    repeated: DuplicateFields<'_>,
    fields: FieldValidation,
) -> Result<Vec<String>, StatusError> {
    schema.normalise(object);
    let Findings {
        mismatches,
        unknown,
        ..
    } = schema.check(object);
    let told = check_allowed(
        name,
        repeated.messages_with_unknown(&unknown),
        repeated,
        fields,
    )?;
    if let Some(mismatch) = mismatches.first() {
        return Err(unreadable(name, &wrong_type(name, mismatch)));
    }
    if !unknown.is_empty() {
        schema.prune(object);
    }
    Ok(told)
}

/// Decodes an object of a kind from a definition, whose schema does not describe the metadata, which all kinds share.
fn decode_defined(
    name: TypeName<'_>,
    schema: &Structural,
    object: &mut Value,
    repeated: DuplicateFields<'_>,
    fields: FieldValidation,
) -> Result<Vec<String>, StatusError> {
    let mut unknown = schema.prune(object);
    if let Some(metadata) = object.get_mut("metadata") {
        metadata_schema().normalise(metadata);
        let found = metadata_schema().check(metadata);
        let inside = |path: &str| {
            if path.is_empty() {
                "metadata".to_owned()
            } else {
                format!("metadata.{path}")
            }
        };
        unknown.extend(found.unknown.iter().map(|path| inside(path)));
        if let Some(TypeMismatch {
            path,
            found,
            expected,
        }) = found.mismatches.into_iter().next()
        {
            let mismatch = TypeMismatch {
                path: inside(&path),
                found,
                expected,
            };
            return Err(unreadable(name, &wrong_type(name, &mismatch)));
        }
        metadata_schema().prune(metadata);
    }
    // Unknown fields are reported after repeated ones.
    let unknown = unknown
        .iter()
        .map(|path| format!("unknown field \"{path}\""));
    let told = repeated
        .messages()
        .into_iter()
        .chain(unknown)
        .take(MAX_FIELD_ERRORS)
        .collect();
    let told = check_allowed(name, told, repeated, fields)?;
    schema.fill_defaults(object)?;
    Ok(told)
}

/// Returns warnings about unknown and repeated fields, or an error if they are not allowed.
fn check_allowed(
    name: TypeName<'_>,
    told: Vec<String>,
    repeated: DuplicateFields<'_>,
    fields: FieldValidation,
) -> Result<Vec<String>, StatusError> {
    if fields == FieldValidation::Strict && !told.is_empty() {
        return Err(unreadable(
            name,
            &format!("strict decoding error: {}", repeated.into_refusal(&told)),
        ));
    }
    Ok(told)
}

/// Checks `apiVersion` and `kind`; fills them in if they are absent.
fn take_kind(
    name: TypeName<'_>,
    takes_version: impl Fn(&str) -> bool,
    is_defined: bool,
    object: &mut Value,
) -> Result<(), StatusError> {
    if !object.is_object() {
        return Err(body::unrecognized_body(name.kind, body::NOT_AN_OBJECT, b""));
    }
    let expected = name.api_version();
    let map = as_map(object);
    default_to(map, "apiVersion", expected.as_str());
    default_to(map, "kind", name.kind);
    let (version, found) = (
        text_or_empty(object, "/apiVersion"),
        text_or_empty(object, "/kind"),
    );
    let other_version = || {
        StatusError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        ))
    };
    match (takes_version(version), found == name.kind) {
        (true, true) => Ok(()),
        (false, _) if is_defined => Err(other_version()),
        (true, false) if is_defined => {
            let cause = Cause::invalid("kind", &found.into(), &format!("must be {}", name.kind));
            let object_name = text_or_empty(object, "/metadata/name");
            Err(StatusError::invalid(
                name.group,
                name.kind,
                object_name,
                vec![cause],
            ))
        }
        _ if !is_registered(version, found) => {
            let why = format!("no kind \"{found}\" is registered for version \"{version}\"");
            Err(unreadable_as(found, version, name, &why))
        }
        (false, true) => Err(other_version()),
        (_, false) => {
            let from = version.rsplit('/').next().unwrap_or_default();
            let to = format!("{}.{}", name.package(), name.kind);
            let why = format!("converting ({from}.{found}) to ({to}): unknown conversion");
            Err(unreadable_as(found, version, name, &why))
        }
    }
}

/// Returns the paths of unknown fields in an object's metadata.
pub fn unknown_metadata(object: &Value) -> Vec<String> {
    let found = object
        .get("metadata")
        .map(|metadata| metadata_schema().check(metadata).unknown);
    found
        .into_iter()
        .flatten()
        .map(|path| format!("metadata.{path}"))
        .collect()
}

fn unreadable(name: TypeName<'_>, why: &str) -> StatusError {
    unreadable_as(name.kind, name.version, name, why)
}

/// Returns 400 for a body of the kind `found`.
fn unreadable_as(found: &str, api_version: &str, name: TypeName<'_>, why: &str) -> StatusError {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    StatusError::bad_request(format!(
        "{found} in version \"{version}\" cannot be handled as a {}: {why}",
        name.kind
    ))
}

fn wrong_type(name: TypeName<'_>, mismatch: &TypeMismatch) -> String {
    let TypeMismatch {
        path,
        found,
        expected,
    } = mismatch;
    let owner = if path.starts_with("metadata.") {
        "ObjectMeta"
    } else {
        name.kind
    };
    format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {expected}")
}
