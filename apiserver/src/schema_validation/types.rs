//! The CEL types of a schema's values.

use kubeapi::schema::structural_schema::is_type_meta;
use serde_json::Value;

use crate::cel::Decl;

/// Returns the CEL type of a schema; `None` where it is unknown, so that expressions cannot use the value. `is_object`: it is a whole
/// object, whose type and name are visible too.
pub(super) fn decl(schema: &Value, is_object: bool) -> Option<Decl> {
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
    if flag("x-kubernetes-int-or-string") {
        return Some(Decl::Dyn);
    }
    let format = schema
        .get("format")
        .and_then(Value::as_str)
        .unwrap_or_default();
    Some(match schema.get("type").and_then(Value::as_str)? {
        "array" => Decl::list(decl(
            schema.get("items")?,
            flag_in(schema.get("items")?, EMBEDDED),
        )?),
        "object" => {
            if let Some(values) = schema
                .get("additionalProperties")
                .filter(|values| values.is_object())
            {
                return Some(Decl::map(
                    Decl::String,
                    decl(values, flag_in(values, EMBEDDED))?,
                ));
            }
            object(schema, is_object || flag(EMBEDDED))
        }
        "string" => match format {
            "byte" => Decl::Bytes,
            "date" | "date-time" | "datetime" => Decl::Timestamp,
            "duration" => Decl::Duration,
            _ => Decl::String,
        },
        "integer" => Decl::Int,
        "number" => Decl::Double,
        "boolean" => Decl::Bool,
        _ => return None,
    })
}

const EMBEDDED: &str = "x-kubernetes-embedded-resource";

fn flag_in(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn object(schema: &Value, is_object: bool) -> Decl {
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let known = properties.filter_map(|(name, field)| {
        let is_own = !(is_object && is_type_meta(name));
        let decl = decl(field, false).filter(|_| is_own)?;
        Some((name.as_str(), decl))
    });
    let meta = [
        ("apiVersion", Decl::String),
        ("kind", Decl::String),
        (
            "metadata",
            Decl::object([("name", Decl::String), ("generateName", Decl::String)]),
        ),
    ];
    let meta = meta.into_iter().filter(|_| is_object);
    Decl::object(known.chain(meta))
}
