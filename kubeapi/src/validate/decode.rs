//! Reading a body as an object of its kind.

use std::sync::OnceLock;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    schemars::{Schema as JsonSchema, SchemaGenerator},
};
use serde_json::Value;

use super::FieldValidation;
use crate::{
    object::{as_map, default_to, text_or_empty},
    registry::Kind,
    schema::{Findings, Mismatch, Refusal, Rule, Schema},
    status::{Cause, StatusError},
};

/// Reads `object` as one of `kind` and brings it into the shape in which it is stored; the texts are warnings.
///
/// # Errors
/// 400 for another kind or version, for values of the wrong type and, under `Strict`, for unknown fields; 422 for what the
/// schema of a definition does not allow.
pub(crate) fn decode(
    kind: &Kind,
    object: &mut Value,
    fields: FieldValidation,
) -> Result<Vec<String>, StatusError> {
    take_kind(kind, object)?;
    let schema = kind.schema();
    schema.normalise(object);
    let mut findings = match kind.builtin {
        Some(_) => schema.check(object),
        None => custom(schema, object),
    };
    let unknown: Vec<_> =
        findings.unknown.drain(..).map(|path| format!("unknown field \"{path}\"")).collect();
    if fields == FieldValidation::Strict && !unknown.is_empty() {
        return Err(unreadable(kind, &format!("strict decoding error: {}", unknown.join(", "))));
    }
    match kind.builtin {
        Some(_) => {
            if let Some(mismatch) = findings.mismatches.first() {
                return Err(unreadable(kind, &wrong_type(kind, mismatch)));
            }
        }
        None => refuse(kind, object, findings)?,
    }
    if !unknown.is_empty() {
        schema.prune(object);
        if kind.builtin.is_none() {
            metadata_schema().prune(&mut object["metadata"]);
        }
    }
    Ok(if fields == FieldValidation::Warn { unknown } else { Vec::new() })
}

/// Holds `apiVersion` and `kind` against what the path says; absent ones are filled in.
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

/// The definition's schema says nothing about the metadata, which is that of all kinds.
fn custom(schema: &Schema, object: &mut Value) -> Findings {
    schema.fill_defaults(object);
    let mut findings = schema.check(object);
    if let Some(metadata) = object.get_mut("metadata") {
        metadata_schema().normalise(metadata);
        let of_metadata = metadata_schema().check(metadata);
        let inside =
            |path: &str| if path.is_empty() { "metadata".to_owned() } else { format!("metadata.{path}") };
        findings.unknown.extend(of_metadata.unknown.iter().map(|path| inside(path)));
        let mismatches = of_metadata.mismatches.into_iter();
        findings
            .mismatches
            .extend(mismatches.map(|mismatch| Mismatch { path: inside(&mismatch.path), ..mismatch }));
    }
    findings
}

fn metadata_schema() -> &'static Schema {
    fn generate(generator: &mut SchemaGenerator) -> JsonSchema {
        generator.subschema_for::<ObjectMeta>()
    }
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::published(generate))
}

fn unreadable(kind: &Kind, why: &str) -> StatusError {
    StatusError::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: {why}",
        kind.kind, kind.version, kind.kind
    ))
}

fn wrong_type(kind: &Kind, mismatch: &Mismatch) -> String {
    let Mismatch { path, found, expected } = mismatch;
    format!("json: cannot unmarshal {found} into Go struct field {}.{path} of type {expected}", kind.kind)
}

/// All that stands against an object by its definition.
fn refuse(kind: &Kind, object: &Value, findings: Findings) -> Result<(), StatusError> {
    let metadata =
        |mismatch: &&Mismatch| mismatch.path == "metadata" || mismatch.path.starts_with("metadata.");
    if let Some(mismatch) = findings.mismatches.iter().find(metadata) {
        return Err(unreadable(kind, &wrong_type(kind, mismatch)));
    }
    let mismatches = findings.mismatches.iter().map(|Mismatch { path, found, expected }| {
        let (found, expected) = (schema_type(found), schema_type(expected));
        let why = format!("{path} in body must be of type {expected}: {found:?}");
        Cause::invalid(path.as_str(), &found.into(), &why)
    });
    let missing = findings.missing.iter().map(|path| Cause::required(path.as_str(), ""));
    let refused = findings.refused.iter().map(refusal);
    let causes: Vec<_> = mismatches.chain(missing).chain(refused).collect();
    if causes.is_empty() {
        return Ok(());
    }
    Err(StatusError::invalid(&kind.group, &kind.kind, text_or_empty(object, "/metadata/name"), causes))
}

/// A type as schemas name it, from what a finding says of it.
fn schema_type(text: &str) -> &str {
    match text.split(' ').next().unwrap_or(text) {
        "bool" => "boolean",
        "int32" | "int64" => "integer",
        "RFC" | "base64" | "quantity" => "string",
        other => other,
    }
}

fn refusal(Refusal { path, value, rule }: &Refusal) -> Cause {
    match rule {
        Rule::Enum(allowed) => {
            let allowed: Vec<_> = allowed.iter().map(|value| value.as_str().unwrap_or_default()).collect();
            Cause::unsupported(path.as_str(), value, &allowed)
        }
        Rule::Minimum(minimum) => {
            let why = format!("{path} in body should be greater than or equal to {minimum}");
            Cause::invalid(path.as_str(), value, &why)
        }
        Rule::Maximum(maximum) => {
            let why = format!("{path} in body should be less than or equal to {maximum}");
            Cause::invalid(path.as_str(), value, &why)
        }
    }
}
