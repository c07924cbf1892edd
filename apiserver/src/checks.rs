//! Checks objects against schemas and rules of definitions, and validates definitions and policies: work whose duration their author
//! controls, so it runs on blocking threads, a few jobs at a time, with a deadline.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    admission, blocking, definitions,
    schema_validation::{DeadlineExceeded, Outcome, SchemaValidator},
};
use kubeapi::{
    cause::Cause,
    registry::{Builtin, Kind, SchemaSource},
    status::StatusError,
};

/// Smaller objects (in bytes) of kinds without rules are checked on the calling thread.
const INLINE_CHECK_MAX_BYTES: usize = 4 * 1024;

/// Refuses `new`, which replaces `old`, for `causes` and all further faults. Returns the object and warnings.
pub(crate) async fn check(
    kind: &Arc<Kind>,
    name: &str,
    mut causes: Vec<Cause>,
    old: Option<&Value>,
    new: Value,
) -> Result<(Value, Vec<String>), StatusError> {
    let is_program = kind.builtin.is_some_and(is_program);
    if kind.defined.is_none() && !is_program {
        accept(kind, name, causes)?;
        return Ok((new, Vec::new()));
    }
    let (new, checked) = if is_light(kind, &new) {
        let checked = run(kind, old, &new);
        (new, checked)
    } else {
        let (kind, old) = (Arc::clone(kind), old.cloned());
        blocking::run(move || {
            let checked = run(&kind, old.as_ref(), &new);
            (new, checked)
        })
        .await?
    };
    let Outcome {
        causes: found,
        warnings,
    } = checked.map_err(|DeadlineExceeded| {
        StatusError::timeout("validation of the object against its schema takes too long")
    })?;
    causes.extend(found);
    accept(kind, name, causes)?;
    Ok((new, warnings))
}

/// Returns 422 for causes, if there are any.
fn accept(kind: &Kind, name: &str, causes: Vec<Cause>) -> Result<(), StatusError> {
    // the API server checks events of both groups as those of the core group
    let group = if kind.is(Builtin::NewEvent) {
        ""
    } else {
        &kind.group
    };
    if causes.is_empty() {
        Ok(())
    } else {
        Err(StatusError::invalid(group, &kind.kind, name, causes))
    }
}

/// Compiles the schema of a defined kind, unless it is compiled.
pub(crate) async fn compile(kind: &Arc<Kind>) -> Result<(), StatusError> {
    if kind.defined.is_none() || kind.compile_cache().get().is_some() {
        return Ok(());
    }
    let kind = Arc::clone(kind);
    blocking::run(move || {
        kind.schema();
        validator(&kind);
    })
    .await
}

/// Reports whether objects of the kind contain expressions and patterns, which are compiled when they are written.
fn is_program(kind: Builtin) -> bool {
    matches!(
        kind,
        Builtin::CustomResourceDefinition
            | Builtin::ValidatingAdmissionPolicy
            | Builtin::ValidatingAdmissionPolicyBinding
            | Builtin::MutatingAdmissionPolicy
            | Builtin::ValidatingWebhookConfiguration
            | Builtin::MutatingWebhookConfiguration
    )
}

/// Returns the compiled validation of a kind from a definition.
fn validator(kind: &Kind) -> Option<&SchemaValidator> {
    let SchemaSource::Definition(document) = &kind.source else {
        return None;
    };
    let compiled = kind
        .compile_cache()
        .get_or_init(|| Box::new(SchemaValidator::new(document)));
    compiled.downcast_ref()
}

fn is_light(kind: &Kind, object: &Value) -> bool {
    kind.compile_cache().get().is_some()
        && validator(kind).is_some_and(|validator| {
            !validator.has_rules() && is_smaller(object, &mut { INLINE_CHECK_MAX_BYTES })
        })
}

/// Reports whether `value` takes at most `left` bytes.
fn is_smaller(value: &Value, left: &mut usize) -> bool {
    let own = 4 + value.as_str().map_or(0, str::len);
    let Some(rest) = left.checked_sub(own) else {
        return false;
    };
    *left = rest;
    match value {
        Value::Array(list) => list.iter().all(|value| is_smaller(value, left)),
        Value::Object(map) => map.iter().all(|(name, value)| {
            *left = left.saturating_sub(name.len());
            is_smaller(value, left)
        }),
        _ => true,
    }
}

fn run(kind: &Kind, old: Option<&Value>, new: &Value) -> Result<Outcome, DeadlineExceeded> {
    Ok(match kind.builtin {
        Some(Builtin::CustomResourceDefinition) => Outcome {
            causes: definitions::rules::check(new, old),
            warnings: definitions::rules::format_warnings(new, old),
        },
        Some(builtin) if is_program(builtin) => Outcome {
            causes: admission::check_rules(builtin, new),
            warnings: Vec::new(),
        },
        _ => return of_schema(kind, old, new),
    })
}

fn of_schema(kind: &Kind, old: Option<&Value>, new: &Value) -> Result<Outcome, DeadlineExceeded> {
    validator(kind).map_or_else(
        || Ok(Outcome::default()),
        |validator| validator.check_all(new, old),
    )
}

#[cfg(test)]
mod tests {
    use kubeapi::Registry;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn violations_of_a_definition_are_refused_in_the_servers_words() {
        let definition = serde_json::from_value(json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
                        "size": {"type": "integer", "minimum": 1}, "color": {"type": "string", "enum": ["red", "green"]}}}}}}}],
            },
        }))
        .unwrap();
        let registry = Registry::builtin().with_crds(&[definition]);
        let kind = registry.find("example.com", "v1", "widgets").unwrap();
        let cases = [
            (
                json!({"size": "large"}),
                "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
            ),
            (
                json!({"color": "blue"}),
                "[spec.size: Required value, spec.color: Unsupported value: \"blue\": supported values: \"red\", \"green\"]",
            ),
            (
                json!({"size": 0}),
                "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            ),
        ];
        for (spec, expected) in cases {
            let object = json!({"metadata": {"name": "w"}, "spec": spec});
            let refused = check(kind, "w", Vec::new(), None, object).await;
            let body = refused.map(drop).unwrap_err().body();
            assert_eq!(body["code"], 422);
            let expected = format!("Widget.example.com \"w\" is invalid: {expected}");
            assert_eq!(body["message"], expected);
        }
    }
}
