//! Evaluates a policy on a request; pure except for `authorizer`.

use super::compile::{Programs, Validation};
use crate::{
    admission::{conditions, variables::ExpressionInput},
    cel::{Activation, Budget, MAX_OBJECT_COST, Val},
};

/// The longest message that an expression may make, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// The longest annotation, in bytes.
const LONGEST_ANNOTATION: usize = 10 * 1024;

/// Why a request is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Denial {
    pub(super) message: String,
    /// The reason; empty for `Invalid`.
    pub(super) reason: String,
    /// Whether this is an evaluation error rather than a denial.
    pub(super) is_fault: bool,
}

impl Denial {
    pub(super) fn fault(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            reason: String::new(),
            is_fault: true,
        }
    }
}

/// The result of evaluating a policy.
#[derive(Debug, Default)]
pub(super) struct PolicyOutcome {
    pub(super) denials: Vec<Denial>,
    /// Audit annotations: keys with their values.
    pub(super) annotations: Vec<(String, String)>,
    /// Errors of audit annotations.
    pub(super) annotation_faults: Vec<Denial>,
}

/// Evaluates the validations of a policy on a request.
pub(super) fn judge(programs: &Programs, input: &ExpressionInput) -> PolicyOutcome {
    let mut judgement = PolicyOutcome::default();
    match conditions::hold(&programs.conditions, input) {
        Ok(true) => {}
        Ok(false) => return judgement,
        Err(why) => {
            judgement.denials.push(Denial::fault(why));
            return judgement;
        }
    }
    let mut activation = input.activation();
    for (name, program) in &programs.variables {
        activation.compose(name, program);
    }
    let mut budget = Budget::new(MAX_OBJECT_COST);
    for validation in &programs.validations {
        if budget.is_spent() {
            let why = "validation failed due to running out of cost budget, no further validation rules will be run";
            judgement.denials.push(Denial::fault(why));
            break;
        }
        judgement
            .denials
            .extend(denial(validation, &activation, &mut budget));
    }
    let mut budget = Budget::new(MAX_OBJECT_COST);
    for (key, program) in &programs.annotations {
        match program.evaluate(&activation, &mut budget) {
            Ok(Val::String(text)) if text.trim().is_empty() => {}
            Ok(Val::String(text)) => {
                let text = text.trim();
                let end = (0..=text.len().min(LONGEST_ANNOTATION))
                    .rev()
                    .find(|end| text.is_char_boundary(*end));
                let text = text.get(..end.unwrap_or_default()).unwrap_or_default();
                judgement.annotations.push((key.clone(), text.to_owned()));
            }
            Ok(Val::Null) => {}
            Ok(other) => {
                let why = format!(
                    "valueExpression of {key:?} resulted in unsupported return type: {}. Return type must be either string or null.",
                    other.type_name()
                );
                judgement.annotation_faults.push(Denial::fault(why));
            }
            Err(error) => judgement
                .annotation_faults
                .push(Denial::fault(error.to_string())),
        }
    }
    judgement
}

fn denial<'a>(
    validation: &'a Validation,
    activation: &Activation<'a>,
    budget: &mut Budget,
) -> Option<Denial> {
    match validation.program.evaluate(activation, budget) {
        Ok(Val::Bool(true)) => None,
        Ok(_) => {
            let made =
                validation
                    .message_expression
                    .as_ref()
                    .and_then(|expression| match expression.evaluate(activation, budget) {
                        Ok(Val::String(text)) => Some(text.trim().to_owned()),
                        _ => None,
                    });
            let fits = |message: &String| {
                !message.is_empty() && message.len() <= LONGEST_MESSAGE && !message.contains('\n')
            };
            let message = made
                .filter(fits)
                .or_else(|| Some(validation.message.clone()).filter(|message| !message.is_empty()))
                .unwrap_or_else(|| format!("failed expression: {}", validation.expression));
            Some(Denial {
                message,
                reason: validation.reason.clone(),
                is_fault: false,
            })
        }
        Err(error) => Some(Denial::fault(format!(
            "expression '{}' resulted in error: {error}",
            validation.expression
        ))),
    }
}
