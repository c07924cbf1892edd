//! Evaluates the mutations of a policy on an object; pure except for `authorizer`.

use serde_json::{Value, json};

use super::compile::{Mutation, MutationKind, MutationPrograms};
use crate::{
    admission::{conditions, variables::ExpressionInput},
    applied::undeclared_fields,
    cel::{Budget, MAX_OBJECT_COST, to_json},
};
use kubeapi::{patch, registry::Kind, verbs::write::target};

/// Reports whether the conditions of a policy hold.
///
/// # Errors
/// Why they cannot be evaluated.
pub(super) fn hold(programs: &MutationPrograms, input: &ExpressionInput) -> Result<bool, String> {
    conditions::hold(&programs.conditions, input)
}

/// Returns the object of `input` after the mutations, and why some of them failed.
pub(super) fn mutate(
    programs: &MutationPrograms,
    mut input: ExpressionInput,
    kind: &Kind,
) -> (Value, Vec<String>) {
    let mut faults = Vec::new();
    for mutation in &programs.mutations {
        match apply(programs, mutation, &input, kind) {
            Ok(object) => input.object = object.into(),
            Err(why) => faults.push(why),
        }
    }
    ((*input.object).clone(), faults)
}

fn apply(
    programs: &MutationPrograms,
    mutation: &Mutation,
    input: &ExpressionInput,
    kind: &Kind,
) -> Result<Value, String> {
    let mut budget = Budget::new(MAX_OBJECT_COST);
    let mut activation = input.activation();
    for (name, program) in &programs.variables {
        activation.compose(name, program);
    }
    let evaluated = mutation
        .program
        .evaluate(&activation, &mut budget)
        .and_then(|value| to_json(&value, &mut budget));
    let value = evaluated.map_err(|error| error.to_string())?;
    if let Some(why) = mutation.program.misplaced_messages() {
        return Err(format!("type mismatch: {why}"));
    }
    match mutation.kind {
        MutationKind::ApplyConfiguration => apply_configuration(&input.object, value, kind),
        MutationKind::JsonPatch => match patch::json(&input.object, &operations(value)) {
            Ok(object) => Ok(object),
            // a failed test means that nothing is to be done
            Err(error) if error.is_failed_test() => Ok((*input.object).clone()),
            Err(error) => Err(format!("JSON Patch: {}", error.reason())),
        },
    }
}

/// Returns the operations as they are in a patch: empty texts are absent.
fn operations(mut value: Value) -> Value {
    for operation in value.as_array_mut().into_iter().flatten() {
        if let Some(operation) = operation.as_object_mut() {
            operation.retain(|name, value| name != "from" || value != "");
        }
    }
    value
}

fn apply_configuration(object: &Value, mut fields: Value, kind: &Kind) -> Result<Value, String> {
    let failed = |why: String| format!("error applying patch: {why}");
    let Some(map) = fields.as_object_mut() else {
        return Err("invalid return type: the expression returns no object".to_owned());
    };
    map.insert("apiVersion".into(), json!(kind.api_version()));
    map.insert("kind".into(), json!(kind.kind));
    if let Some(why) = undeclared_fields(kind, &fields) {
        return Err(failed(format!(
            "failed to convert patch object to typed object: {why}"
        )));
    }
    patch::merge_configuration(&target(kind), object, &fields).map_err(failed)
}
