//! Validates the versions of a definition, with their schemas, columns and subresources. Pure.
//!
//! What is the same in all versions is checked once, at the path that it has in the API server's own form of a definition:
//! `spec.validation` in place of `spec.versions[0].schema`.

use serde_json::Value;

use super::{keywords, ratchets::Ratchets, selectable_rules};
use kubeapi::{
    cause::Cause,
    object::{items, names::dns_1035_label, text, text_or_empty},
    table,
};

const FIELD: &str = "spec.versions";

/// The parts of versions: their names there, and those that they have where all versions share them.
const SCHEMA: (&str, &str) = ("schema", "validation");
const SUBRESOURCES: (&str, &str) = ("subresources", "subresources");
const COLUMNS: (&str, &str) = ("additionalPrinterColumns", "additionalPrinterColumns");
const SELECTABLE: (&str, &str) = ("selectableFields", "selectableFields");

/// Returns what is invalid in the list of versions, and in parts that differ between them.
pub(super) fn check(definition: &Value, ratchets: &Ratchets) -> Vec<Cause> {
    let versions = items(definition, "/spec/versions");
    let mut causes = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        if version
            .pointer("/schema/openAPIV3Schema")
            .is_none_or(Value::is_null)
        {
            causes.push(Cause::required(
                format!("{FIELD}[{index}].schema.openAPIV3Schema"),
                "",
            ));
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let name = text_or_empty(version, "/name");
        let faults = dns_1035_label(name);
        if !faults.is_empty() {
            causes.push(Cause::invalid(
                format!("{FIELD}[{index}].name"),
                &name.into(),
                &faults.join(","),
            ));
        }
        let path = format!("{FIELD}[{index}]");
        causes.extend(deprecation(version, &path));
        let part = |part: (&'static str, &str)| {
            version
                .get(part.0)
                .filter(|_| !is_shared(versions, part.0))
                .map(|value| (value, part.0))
        };
        let at = |name: &str| format!("{path}.{name}");
        if let Some((schema, name)) = part(SCHEMA) {
            causes.extend(schema_faults(
                schema,
                &at(name),
                has_status(version),
                ratchets,
            ));
        }
        causes.extend(
            part(SUBRESOURCES)
                .into_iter()
                .flat_map(|(value, name)| scale(value, &at(name))),
        );
        causes.extend(
            part(COLUMNS)
                .into_iter()
                .flat_map(|(value, name)| columns(value, &at(name))),
        );
        causes.extend(part(SELECTABLE).into_iter().flat_map(|(value, name)| {
            selectable_rules::check(value, version.pointer("/schema/openAPIV3Schema"), &at(name))
        }));
    }
    let names: Vec<_> = versions
        .iter()
        .map(|version| text_or_empty(version, "/name"))
        .collect();
    let written: Value = if versions.is_empty() {
        Value::Null
    } else {
        versions.to_vec().into()
    };
    if names
        .iter()
        .enumerate()
        .any(|(index, name)| names.iter().take(index).any(|before| before == name))
    {
        causes.push(Cause::invalid(
            FIELD,
            &written,
            "must contain unique version names",
        ));
    }
    let is_storage = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    if versions.iter().filter(is_storage).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid(FIELD, &written, why));
    }
    if let Some(first) = names.first() {
        let faults = dns_1035_label(first);
        if !first.is_empty() && !faults.is_empty() {
            causes.push(Cause::invalid(
                "spec.version",
                &(*first).into(),
                &faults.join(","),
            ));
        }
    }
    causes
}

/// Returns what is invalid in parts that all versions share.
pub(super) fn check_parts(definition: &Value, ratchets: &Ratchets) -> Vec<Cause> {
    let versions = items(definition, "/spec/versions");
    let shared = |part: (&str, &str)| {
        let value = versions
            .first()?
            .get(part.0)
            .filter(|_| is_shared(versions, part.0))?;
        Some((value, format!("spec.{}", part.1)))
    };
    let mut causes = Vec::new();
    if let Some((schema, path)) = shared(SCHEMA) {
        causes.extend(schema_faults(
            schema,
            &path,
            versions.iter().any(has_status),
            ratchets,
        ));
    }
    causes.extend(
        shared(SUBRESOURCES)
            .into_iter()
            .flat_map(|(value, path)| scale(value, &path)),
    );
    causes.extend(
        shared(COLUMNS)
            .into_iter()
            .flat_map(|(value, path)| columns(value, &path)),
    );
    causes.extend(shared(SELECTABLE).into_iter().flat_map(|(value, path)| {
        let schema = versions
            .first()
            .and_then(|version| version.pointer("/schema/openAPIV3Schema"));
        selectable_rules::check(value, schema, &path)
    }));
    causes
}

fn is_shared(versions: &[Value], part: &str) -> bool {
    versions.windows(2).all(|pair| match pair {
        [one, two] => one.get(part) == two.get(part),
        _ => true,
    })
}

fn has_status(version: &Value) -> bool {
    version
        .pointer("/subresources/status")
        .is_some_and(|status| !status.is_null())
}

/// Fields of a root schema that kinds with a status may have.
const ROOT_FIELDS: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

const ROOT_FIELDS_AS_WRITTEN: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";

fn schema_faults(
    validation: &Value,
    path: &str,
    has_status: bool,
    ratchets: &Ratchets,
) -> Vec<Cause> {
    let Some(schema) = validation
        .get("openAPIV3Schema")
        .filter(|schema| schema.is_object())
    else {
        return Vec::new();
    };
    let path = format!("{path}.openAPIV3Schema");
    let mut causes = Vec::new();
    let is_set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    if has_status {
        let fields = schema
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, value)| is_set(value));
        let mut other = fields.filter(|(name, _)| !ROOT_FIELDS.contains(&name.as_str()));
        match text(schema, "/type") {
            Some(type_) if type_ != "object" && !type_.is_empty() => {
                let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
                causes.push(Cause::invalid(format!("{path}.type"), &type_.into(), why));
            }
            _ if other.next().is_some() => {
                let why = format!(
                    "only {ROOT_FIELDS_AS_WRITTEN} fields are allowed at the root of the schema if the status subresource is enabled"
                );
                causes.push(Cause::invalid(path.as_str(), schema, &why));
            }
            _ => {}
        }
    }
    if schema.get("nullable") == Some(&Value::Bool(true)) {
        causes.push(Cause::forbidden(
            format!("{path}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    causes.extend(keywords::check(schema, &path, ratchets));
    causes
}

fn deprecation(version: &Value, path: &str) -> Vec<Cause> {
    let Some(warning) = text(version, "/deprecationWarning") else {
        return Vec::new();
    };
    let is_deprecated = version.get("deprecated") == Some(&Value::Bool(true));
    let mut faults = Vec::new();
    if !is_deprecated {
        faults.push("can only be set for deprecated versions".to_owned());
    } else {
        if warning.len() > 256 {
            faults.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            faults.push("must not be an empty string".to_owned());
        }
        let is_unprintable =
            |char: char| char.is_control() || (char.is_whitespace() && char != ' ');
        if let Some((index, _)) = warning
            .char_indices()
            .find(|(_, char)| is_unprintable(*char))
        {
            faults.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {index}"
            ));
        }
    }
    let field = format!("{path}.deprecationWarning");
    faults
        .iter()
        .map(|fault| Cause::invalid(field.as_str(), &warning.into(), fault))
        .collect()
}

/// Checks a path that begins with a dot.
fn simple_path(path: &str, field: &str) -> Option<Cause> {
    let why = "must be a simple json path starting with .";
    (!path.starts_with('.')).then(|| Cause::invalid(field, &path.into(), why))
}

fn columns(columns: &Value, path: &str) -> Vec<Cause> {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    let mut causes = Vec::new();
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let field = |name: &str| format!("{path}[{index}].{name}");
        let text = |name: &str| text_or_empty(column, &format!("/{name}"));
        if text("name").is_empty() {
            causes.push(Cause::required(field("name"), ""));
        }
        let why = format!("must be one of {}", TYPES.join(","));
        match text("type") {
            "" => causes.push(Cause::required(field("type"), &why)),
            type_ if !TYPES.contains(&type_) => {
                causes.push(Cause::invalid(field("type"), &type_.into(), &why));
            }
            _ => {}
        }
        if !text("format").is_empty() && !FORMATS.contains(&text("format")) {
            let why = format!("must be one of {}", FORMATS.join(","));
            causes.push(Cause::invalid(
                field("format"),
                &text("format").into(),
                &why,
            ));
        }
        let (json_path, field) = (text("jsonPath"), field("JSONPath"));
        if json_path.is_empty() {
            causes.push(Cause::required(field, ""));
        } else if let Some(cause) = simple_path(json_path, &field) {
            causes.push(cause);
        } else if !table::is_json_path(json_path) {
            let why = "must be a JSONPath of fields, indexes and filters, as in .spec.size";
            causes.push(Cause::invalid(field, &json_path.into(), why));
        }
    }
    causes
}

fn scale(subresources: &Value, path: &str) -> Vec<Cause> {
    let Some(scale) = subresources.get("scale").filter(|scale| scale.is_object()) else {
        return Vec::new();
    };
    let fields: [(&str, &[&str], &str, bool); 3] = [
        ("specReplicasPath", &[".spec."], ".spec", true),
        ("statusReplicasPath", &[".status."], ".status", true),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "either .spec or .status",
            false,
        ),
    ];
    let mut causes = Vec::new();
    for (name, roots, where_, is_required) in fields {
        let field = format!("{path}.scale.{name}");
        let found = text_or_empty(scale, &format!("/{name}"));
        if found.is_empty() {
            causes.extend(is_required.then(|| Cause::required(field, "")));
        } else if let Some(cause) = simple_path(found, &field) {
            causes.push(cause);
        } else if !roots.iter().any(|root| found.starts_with(root)) || found.contains('[') {
            let why = format!("should be a json path under {where_}");
            causes.push(Cause::invalid(field, &found.into(), &why));
        }
    }
    causes
}
