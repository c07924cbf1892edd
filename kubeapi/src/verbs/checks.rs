//! Holding objects against the schemas and rules that others wrote, and definitions and policies against what such may say: work that takes
//! as long as its author likes, so it is done beside the workers, a few at a time, with a deadline.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    admission, blocking,
    cause::Cause,
    definitions,
    registry::{Builtin, Kind, KindSchema},
    status::StatusError,
    structural_schema::{Late, Outcome},
};

/// What is smaller than this many bytes, and is held against no rules, is checked where it is.
const SMALL: usize = 4 * 1024;

/// Refuses with all `causes` and what else stands against `new`, in place of `old`. Answers the object, and what its author should
/// know.
pub(super) async fn check(
    kind: &Arc<Kind>,
    name: &str,
    mut causes: Vec<Cause>,
    (old, new): (Option<&Value>, Value),
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
    let Outcome { causes: found, warnings } = checked
        .map_err(|Late| StatusError::timeout("the object takes too long to be held against its schema"))?;
    causes.extend(found);
    accept(kind, name, causes)?;
    Ok((new, warnings))
}

/// 422 for causes, if there are any.
fn accept(kind: &Kind, name: &str, causes: Vec<Cause>) -> Result<(), StatusError> {
    if causes.is_empty() { Ok(()) } else { Err(StatusError::invalid(&kind.group, &kind.kind, name, causes)) }
}

/// Compiles the schema of a kind from a definition, if nobody has yet.
pub(crate) async fn compile(kind: &Arc<Kind>) -> Result<(), StatusError> {
    if kind.defined.is_none() || kind.is_compiled() {
        return Ok(());
    }
    let kind = Arc::clone(kind);
    blocking::run(move || {
        kind.schema();
    })
    .await
}

/// Whether objects of the kind hold expressions and patterns of their author's, which are read where they are written.
fn is_program(kind: Builtin) -> bool {
    matches!(
        kind,
        Builtin::CustomResourceDefinition
            | Builtin::ValidatingAdmissionPolicy
            | Builtin::ValidatingAdmissionPolicyBinding
            | Builtin::ValidatingWebhookConfiguration
            | Builtin::MutatingWebhookConfiguration
    )
}

fn is_light(kind: &Kind, object: &Value) -> bool {
    if !kind.is_compiled() {
        return false;
    }
    match kind.schema() {
        KindSchema::Defined(schema) => !schema.has_rules() && is_smaller(object, &mut { SMALL }),
        KindSchema::Published(_) => false,
    }
}

/// Whether `value` takes no more than `left` bytes.
fn is_smaller(value: &Value, left: &mut usize) -> bool {
    let own = 4 + value.as_str().map_or(0, str::len);
    let Some(rest) = left.checked_sub(own) else { return false };
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

fn run(kind: &Kind, old: Option<&Value>, new: &Value) -> Result<Outcome, Late> {
    let causes = match kind.builtin {
        Some(Builtin::CustomResourceDefinition) => definitions::rules::check(new),
        Some(builtin) if is_program(builtin) => admission::check_rules(builtin, new),
        _ => return of_schema(kind, old, new),
    };
    Ok(Outcome { causes, warnings: Vec::new() })
}

fn of_schema(kind: &Kind, old: Option<&Value>, new: &Value) -> Result<Outcome, Late> {
    match kind.schema() {
        KindSchema::Defined(schema) => schema.check_all(new, old),
        KindSchema::Published(_) => Ok(Outcome::default()),
    }
}
