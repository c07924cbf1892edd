//! Validates the fields of objects by which lists can be selected. Pure.

use serde_json::Value;

use crate::schema_validation::valid_field_path;
use kubeapi::{cause::Cause, object::text_or_empty};

/// The most fields of a version.
const MAX_FIELDS: usize = 8;

/// Returns what is invalid in the selectable fields of a version.
pub(super) fn check(fields: &Value, schema: Option<&Value>, path: &str) -> Vec<Cause> {
    let Some(schema) = schema.filter(|schema| schema.is_object()) else {
        let why = "may only be set when validations.schema is included";
        return vec![Cause::invalid(path, &"".into(), why)];
    };
    let mut causes = Vec::new();
    let mut seen = Vec::new();
    for (index, field) in fields.as_array().into_iter().flatten().enumerate() {
        let place = format!("{path}[{index}].jsonPath");
        let json_path = text_or_empty(field, "/jsonPath");
        if json_path.is_empty() {
            causes.push(Cause::required(place, ""));
            continue;
        }
        let refuse = |why: &str| Cause::invalid(place.as_str(), &json_path.into(), why);
        let (name, found) = match valid_field_path(json_path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                causes.push(refuse(&format!("is an invalid path: {why}")));
                continue;
            }
        };
        if name.split('.').next() == Some("metadata") {
            causes.push(refuse("must not point to fields in metadata"));
        }
        if !matches!(
            text_or_empty(found, "/type"),
            "string" | "boolean" | "integer"
        ) {
            causes.push(refuse(
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            ));
        }
        if seen.contains(&name) {
            causes.push(Cause::duplicate(place, json_path));
        } else {
            seen.push(name);
        }
    }
    if seen.len() > MAX_FIELDS {
        causes.push(Cause::too_many(path, seen.len() as u64, MAX_FIELDS as u64));
    }
    causes
}
