//! Evaluates the rules of a schema (`x-kubernetes-validations`) on an object, with the API server's texts.

use serde_json::Value;

use super::{
    node::{Node, SchemaValidator},
    rules::Validation,
};
use crate::cel::{Activation, Budget, EvalError, MAX_OBJECT_COST, Val};
use kubeapi::cause::Cause;
use kubeapi::object::value_path::field_step;

/// The longest message that an expression may make, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// The cause where the cost limit is reached and the remaining rules are not evaluated.
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The result of the rules.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) causes: Vec<Cause>,
    /// Violations by values that did not change.
    pub(crate) warnings: Vec<String>,
}

impl SchemaValidator {
    /// Reports whether the schema has rules.
    pub(crate) fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Evaluates the rules on `object`, which replaces `old`.
    pub(crate) fn check_rules(&self, object: &Value, old: Option<&Value>) -> Outcome {
        let mut walk = Evaluation {
            budget: Budget::new(MAX_OBJECT_COST),
            outcome: Outcome::default(),
        };
        if self.has_rules {
            let place = OldValue {
                old,
                is_same: old == Some(object),
            };
            // what ends the walk has been told
            let _ended = walk.node(&self.root, object, place, &mut String::new());
        }
        walk.outcome
    }
}

/// The old object's counterpart of a value.
#[derive(Clone, Copy)]
struct OldValue<'a> {
    /// The old value; `None` where no old value can be correlated.
    old: Option<&'a Value>,
    /// Whether the value, or the nearest enclosing one that can be correlated, is unchanged.
    is_same: bool,
}

struct Evaluation {
    budget: Budget,
    outcome: Outcome,
}

/// The evaluation has been stopped.
struct Ended;

impl Evaluation {
    fn node<'a>(
        &mut self,
        node: &'a Node,
        value: &'a Value,
        place: OldValue<'a>,
        path: &mut String,
    ) -> Result<(), Ended> {
        if value.is_null() || !node.has_rules_within {
            return Ok(());
        }
        for validation in &node.validations {
            self.validation(validation, value, place, path)?;
        }
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    let Some(field) = node.field(name) else {
                        continue;
                    };
                    let step = if node.fields.contains_key(name.as_str()) {
                        field_step(path, name)
                    } else {
                        format!("[{name}]")
                    };
                    let old = node.old_field(place.old, name);
                    self.step(field, value, place.of(old, value), path, &step)?;
                }
            }
            Value::Array(list) => {
                let Some(items) = &node.items else {
                    return Ok(());
                };
                let old_items = node.old_items(place.old);
                for (index, value) in list.iter().enumerate() {
                    let old = node.key(value).and_then(|key| old_items.get(&key).copied());
                    self.step(
                        items,
                        value,
                        place.of(old, value),
                        path,
                        &format!("[{index}]"),
                    )?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn step<'a>(
        &mut self,
        node: &'a Node,
        value: &'a Value,
        place: OldValue<'a>,
        path: &mut String,
        step: &str,
    ) -> Result<(), Ended> {
        let length = path.len();
        path.push_str(step);
        let walked = self.node(node, value, place, path);
        path.truncate(length);
        walked
    }

    fn validation<'a>(
        &mut self,
        validation: &'a Validation,
        value: &'a Value,
        place: OldValue<'a>,
        path: &str,
    ) -> Result<(), Ended> {
        let program = match &validation.programs().rule {
            Ok(program) => program,
            Err(why) => {
                self.push_cause(validation.invalid(path, &format!("rule compile error: {why}")));
                return Ok(());
            }
        };
        let is_transition = program.uses("oldSelf");
        if is_transition && place.old.is_none() && !validation.is_optional {
            return Ok(());
        }
        let mut activation = Activation::default();
        activation.set("self", Val::read(value, &validation.decl));
        let old = place.old.map(|old| Val::read(old, &validation.decl));
        if validation.is_optional {
            activation.set("oldSelf", Val::optional(old));
        } else if let Some(old) = old {
            activation.set("oldSelf", old);
        }
        if self.budget.is_spent() {
            self.push_cause(validation.invalid(path, OUT_OF_BUDGET));
            return Err(Ended);
        }
        let error = match program.evaluate(&activation, &mut self.budget) {
            Ok(Val::Bool(true)) => return Ok(()),
            Ok(_) => {
                return self.refuse(
                    validation,
                    &activation,
                    path,
                    place.is_same && !is_transition,
                );
            }
            Err(error) => error,
        };
        let rule = validation.display_name();
        match &error {
            EvalError::Cost if self.budget.is_spent() => {
                self.push_cause(validation.invalid(path, OUT_OF_BUDGET))
            }
            EvalError::Cost | EvalError::Timeout => {
                let why = format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
                );
                self.push_cause(validation.invalid(path, &why));
            }
            EvalError::Failed(why) if why.starts_with("no such overload") => {
                let why = format!(
                    "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
                );
                self.push_cause(validation.invalid(path, &why));
            }
            error @ (EvalError::Failed(_) | EvalError::Deep) => {
                self.push_cause(
                    validation.invalid(path, &format!("{error} evaluating rule: {rule}")),
                );
            }
        }
        if error.is_final() { Err(Ended) } else { Ok(()) }
    }

    fn push_cause(&mut self, cause: Cause) {
        self.outcome.causes.push(cause);
    }

    /// Adds a violation; with `is_same` the value is unchanged, and the violation is only a warning.
    fn refuse<'a>(
        &mut self,
        validation: &'a Validation,
        activation: &Activation<'a>,
        path: &str,
        is_same: bool,
    ) -> Result<(), Ended> {
        let mut ended = Ok(());
        let mut message = None;
        if let Some(expression) = &validation.programs().message {
            match expression.evaluate(activation, &mut self.budget) {
                Ok(Val::String(text)) => {
                    let text = text.trim();
                    let fits =
                        !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
                    message = fits.then(|| text.to_owned());
                }
                Ok(_) | Err(EvalError::Failed(_) | EvalError::Deep) => {}
                Err(EvalError::Cost | EvalError::Timeout) => {
                    message = Some(
                        "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
                            .to_owned(),
                    );
                    ended = Err(Ended);
                }
            }
        }
        let message = message.unwrap_or_else(|| validation.message());
        let cause = validation.cause(path, &message);
        if is_same {
            self.outcome.warnings.push(cause.to_string());
        } else {
            self.push_cause(cause);
        }
        ended
    }
}

impl<'a> OldValue<'a> {
    /// Of a value within.
    fn of(self, old: Option<&'a Value>, value: &Value) -> Self {
        Self {
            old,
            is_same: self.is_same || old == Some(value),
        }
    }
}
