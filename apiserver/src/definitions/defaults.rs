//! Validates the defaults in a schema: an object that takes one must be valid. Pure.

use serde_json::Value;

use crate::schema_validation::{DeadlineExceeded, SchemaValidator};
use kubeapi::cause::Cause;
use kubeapi::schema::structural_schema::Structural;

/// Returns what is invalid in the defaults of the schema at `path` and of those within it.
pub(super) fn check(schema: &Value, path: &str, must_be_pruned: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(schema, path, must_be_pruned, &mut causes);
    causes
}

/// Reports whether the default of a schema has fields that the schema does not know.
pub(super) fn has_unknown_fields(schema: &Value) -> bool {
    of(schema).is_some_and(|default| is_unpruned(schema, default))
}

fn of(schema: &Value) -> Option<&Value> {
    schema.get("default").filter(|default| !default.is_null())
}

fn is_unpruned(schema: &Value, default: &Value) -> bool {
    !Structural::new(schema)
        .prune_part(&mut default.clone())
        .is_empty()
}

fn walk(schema: &Value, path: &str, must_be_pruned: bool, causes: &mut Vec<Cause>) {
    if let Some(default) = of(schema) {
        let field = format!("{path}.default");
        if must_be_pruned && is_unpruned(schema, default) {
            causes.push(Cause::invalid(
                field.as_str(),
                default,
                "must not have unknown fields",
            ));
        }
        match SchemaValidator::new(schema).check_all(default, None) {
            Ok(found) => causes.extend(found.causes.into_iter().map(|cause| cause.at(&field))),
            Err(DeadlineExceeded) => {
                causes.push(Cause::invalid(
                    field,
                    default,
                    "takes too long to be checked",
                ));
            }
        }
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        walk(items, &format!("{path}.items"), must_be_pruned, causes);
    }
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        walk(
            property,
            &format!("{path}.properties[{name}]"),
            must_be_pruned,
            causes,
        );
    }
}
