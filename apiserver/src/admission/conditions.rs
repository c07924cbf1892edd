//! `matchConditions`: expressions that must all be true for a policy or webhook to apply.

use serde_json::Value;

use super::variables::ExpressionInput;
use crate::cel::{Budget, Decl, Program, Val};
use kubeapi::{
    cause::Cause,
    object::{items, text_or_empty},
};

/// The most that the conditions may cost together.
const COST: u64 = 2_500_000;

/// The most conditions of a policy or webhook, as in Kubernetes.
const MAX_CONDITIONS: usize = 64;

/// A condition: its name, and the expression.
#[derive(Debug)]
pub(super) struct Condition {
    name: String,
    program: Program,
}

/// Compiles the conditions of a policy or webhook at `path`.
pub(super) fn compile(
    spec: &Value,
    path: &str,
    variables: &[(&str, Decl)],
) -> (Vec<Condition>, Vec<Cause>) {
    let (mut conditions, mut causes) = (Vec::new(), Vec::new());
    let all = items(spec, "/matchConditions");
    if all.len() > MAX_CONDITIONS {
        let field = format!("{path}matchConditions");
        causes.push(Cause::too_many(
            field,
            all.len() as u64,
            MAX_CONDITIONS as u64,
        ));
        return (conditions, causes);
    }
    for (index, condition) in all.iter().enumerate() {
        let field = format!("{path}matchConditions[{index}].expression");
        let (name, source) = (
            text_or_empty(condition, "/name"),
            text_or_empty(condition, "/expression"),
        );
        match compile_expression(source, variables, &[Decl::Bool], "must evaluate to bool") {
            Ok(program) => conditions.push(Condition {
                name: name.to_owned(),
                program,
            }),
            Err(None) => causes.push(Cause::required(field, "")),
            Err(Some(why)) => causes.push(Cause::invalid(field, &source.into(), &why)),
        }
    }
    (conditions, causes)
}

/// An expression that must be of one of these types (none: of any).
///
/// # Errors
/// What is wrong with it; `None` where there is none.
pub(super) fn compile_expression(
    source: &str,
    variables: &[(&str, Decl)],
    wanted: &[Decl],
    otherwise: &str,
) -> Result<Program, Option<String>> {
    if source.trim().is_empty() {
        return Err(None);
    }
    let program = Program::compile(source, variables).map_err(|why| Some(why.of_rule()))?;
    if wanted.is_empty() || program.decl().is_dyn() || wanted.contains(program.decl()) {
        return Ok(program);
    }
    Err(Some(otherwise.to_owned()))
}

/// Reports whether all conditions are true.
///
/// # Errors
/// Returns the errors of conditions, where none is false.
pub(super) fn hold(conditions: &[Condition], input: &ExpressionInput) -> Result<bool, String> {
    if conditions.is_empty() {
        return Ok(true);
    }
    let (activation, mut budget) = (input.activation(), Budget::new(COST));
    let mut faults = Vec::new();
    for condition in conditions {
        match condition.program.evaluate(&activation, &mut budget) {
            Ok(Val::Bool(true)) => {}
            Ok(Val::Bool(false)) => return Ok(false),
            Ok(_) => faults.push(format!("matchCondition {:?} is no bool", condition.name)),
            Err(error) => faults.push(format!(
                "match condition {:?} fails to evaluate: {error}",
                condition.name
            )),
        }
    }
    if faults.is_empty() {
        Ok(true)
    } else {
        Err(faults.join(", "))
    }
}
