//! `x-kubernetes-validations`: rules in CEL, compiled with the schema and held against objects, with the real server's texts.

use std::sync::OnceLock;

use serde_json::Value;

use super::{Node, Structural, shape::field_step, types};
use crate::{
    cel::{Activation, Budget, Decl, EvalError, PER_OBJECT, Program, Val},
    status::Cause,
};

/// The key of the rules in a schema.
const RULES: &str = "x-kubernetes-validations";

/// The longest message that an expression may make, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// A rule of a node.
#[derive(Debug)]
pub(super) struct Validation {
    rule: Box<str>,
    message: Box<str>,
    reason: Box<str>,
    /// Where a fault is told, below the node: `spec.size`.
    field: Box<str>,
    is_optional: bool,
    /// The type of the node, as the schema names it.
    type_: Box<str>,
    /// The same, as expressions see it.
    decl: Decl,
    /// As the definition has it.
    source: Value,
    /// Compiled when first needed, which it never is where objects are taken as they come.
    programs: OnceLock<Programs>,
}

/// The expressions of a rule.
#[derive(Debug)]
struct Programs {
    rule: Result<Program, String>,
    message: Option<Program>,
}

/// What is wrong with a rule as it stands in a definition.
#[derive(Debug)]
pub(crate) struct RuleFault {
    /// Which part of the rule: `rule`, `messageExpression`.
    pub(crate) part: &'static str,
    pub(crate) why: String,
}

/// What comes of the rules.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) causes: Vec<Cause>,
    /// What stands against values that did not change.
    pub(crate) warnings: Vec<String>,
}

/// Whether the schema or one within has rules.
pub(super) fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key(RULES) || map.values().any(has_rules),
        Value::Array(list) => list.iter().any(has_rules),
        _ => false,
    }
}

/// The rules of a schema, compiled.
pub(super) fn validations(schema: &Value, is_root: bool) -> Vec<Validation> {
    let rules = schema.get(RULES).and_then(Value::as_array);
    let Some(rules) = rules else { return Vec::new() };
    let decl = types::decl(schema, is_root).unwrap_or(Decl::Dyn);
    let validation = |rule: &Value| {
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default().trim();
        if text("rule").is_empty() {
            return None;
        }
        Some(Validation {
            rule: text("rule").into(),
            message: text("message").into(),
            reason: text("reason").into(),
            field: field_path(text("fieldPath"), schema).unwrap_or_default().into(),
            is_optional: is_optional(rule),
            type_: schema.get("type").and_then(Value::as_str).unwrap_or_default().into(),
            decl: decl.clone(),
            source: rule.clone(),
            programs: OnceLock::new(),
        })
    };
    rules.iter().filter_map(validation).collect()
}

fn is_optional(rule: &Value) -> bool {
    rule.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false)
}

fn variables(rule: &Value, decl: &Decl) -> [(&'static str, Decl); 2] {
    let old = if is_optional(rule) { Decl::optional(decl.clone()) } else { decl.clone() };
    [("self", decl.clone()), ("oldSelf", old)]
}

fn compiled(rule: &Value, decl: &Decl) -> Result<Program, String> {
    let source = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
    let program = Program::compile(source, &variables(rule, decl))
        .map_err(|why| format!("compilation failed: {why}"))?;
    match program.decl() {
        Decl::Bool | Decl::Dyn | Decl::Free => Ok(program),
        _ => Err("cel expression must evaluate to a bool".to_owned()),
    }
}

/// What stands against the expressions of one rule of `schema`. `uncorrelatable`: the list in which no item can be told to be
/// the same as an old one.
pub(crate) fn check_rules(
    schema: &Value,
    rule: &Value,
    is_root: bool,
    uncorrelatable: Option<&str>,
) -> Vec<RuleFault> {
    let mut faults = Vec::new();
    let mut fault = |part, why: String| faults.push(RuleFault { part, why });
    let Some(decl) = types::decl(schema, is_root) else {
        let type_ = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        let why = format!("rule declared on schema that does not support validation rules type: '{type_}'");
        fault("rule", why);
        return faults;
    };
    match compiled(rule, &decl) {
        Err(why) => fault("rule", why),
        Ok(program) if program.uses("oldSelf") => {
            if let Some(path) = uncorrelatable {
                let why = "oldSelf cannot be used on the uncorrelatable portion of the schema within";
                fault("rule", format!("{why} {path}"));
            }
        }
        Ok(_) if is_optional(rule) => {
            let why = "may not be set to true if oldSelf is not used in rule";
            fault("optionalOldSelf", why.to_owned());
        }
        Ok(_) => {}
    }
    let source = rule.get("messageExpression").and_then(Value::as_str).unwrap_or_default();
    if !source.trim().is_empty() {
        match Program::compile(source, &variables(rule, &decl)) {
            Err(why) => fault("messageExpression", format!("messageExpression compilation failed: {why}")),
            Ok(program) if !matches!(program.decl(), Decl::String | Decl::Dyn | Decl::Free) => {
                fault("messageExpression", "messageExpression must evaluate to a string".to_owned());
            }
            Ok(_) => {}
        }
    }
    let path = rule.get("fieldPath").and_then(Value::as_str).unwrap_or_default();
    if let Err(why) = field_path(path.trim(), schema) {
        fault("fieldPath", format!("fieldPath must be a valid path: {why}"));
    }
    faults
}

/// `.spec.names['a.b']` as faults are told at: `spec.names[a.b]`.
fn field_path(path: &str, schema: &Value) -> Result<String, String> {
    let (mut rest, mut at, mut told) = (path, schema, String::new());
    while !rest.is_empty() {
        let name;
        if let Some(tail) = rest.strip_prefix("['") {
            let end = tail.find("']").ok_or("unexpected end of JSON path")?;
            name = tail.get(..end).unwrap_or_default();
            rest = tail.get(end + 2..).unwrap_or_default();
        } else if let Some(tail) = rest.strip_prefix('.') {
            let end = tail.find(['.', '[']).unwrap_or(tail.len());
            (name, rest) = tail.split_at(end);
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        }
        if let Some(field) = at.get("properties").and_then(|properties| properties.get(name)) {
            told.push_str(&field_step(&told, name));
            at = field;
        } else if let Some(values) = at.get("additionalProperties").filter(|values| values.is_object()) {
            told.push_str(&format!("[{name}]"));
            at = values;
        } else {
            return Err("does not refer to a valid field".to_owned());
        }
    }
    Ok(told)
}

impl Structural {
    /// Whether it has rules at all.
    pub(crate) fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Holds `object` against the rules; `old` is what it takes the place of.
    pub(crate) fn check_rules(&self, object: &Value, old: Option<&Value>) -> Outcome {
        let mut walk = Walk { budget: Budget::new(PER_OBJECT), outcome: Outcome::default() };
        if self.has_rules {
            let place = Place { old, is_same: old == Some(object) };
            // what ends the walk has been told
            let _ended = walk.node(&self.root, object, place, &mut String::new());
        }
        walk.outcome
    }
}

/// What is known of the old object at a value.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The value as it was; `None` where none can be told to be the same one.
    old: Option<&'a Value>,
    /// Whether it, or the nearest value around it of which that can be told, is as it was.
    is_same: bool,
}

struct Walk {
    budget: Budget,
    outcome: Outcome,
}

/// Nothing more is to be evaluated.
struct Ended;

impl Walk {
    fn node<'a>(
        &mut self,
        node: &'a Node,
        value: &'a Value,
        place: Place<'a>,
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
                    let Some(field) = node.field(name) else { continue };
                    let step = if node.fields.contains_key(name.as_str()) {
                        field_step(path, name)
                    } else {
                        format!("[{name}]")
                    };
                    let old = node.old_field(place.old, name);
                    self.step(field, value, place.of(old, value), (path, &step))?;
                }
            }
            Value::Array(list) => {
                let Some(items) = &node.items else { return Ok(()) };
                let old_items = node.old_items(place.old);
                for (index, value) in list.iter().enumerate() {
                    let old = node.key(value).and_then(|key| old_items.get(&key).copied());
                    self.step(items, value, place.of(old, value), (path, &format!("[{index}]")))?;
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
        place: Place<'a>,
        (path, step): (&mut String, &str),
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
        place: Place<'a>,
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
            Ok(_) => return self.refuse(validation, &activation, (path, place.is_same && !is_transition)),
            Err(error) => error,
        };
        let rule = validation.shown();
        match &error {
            EvalError::Cost if self.budget.is_spent() => {
                self.push_cause(validation.invalid(path, OUT_OF_BUDGET))
            }
            EvalError::Cost | EvalError::Late => {
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
                self.push_cause(validation.invalid(path, &format!("{error} evaluating rule: {rule}")));
            }
        }
        if error.is_final() { Err(Ended) } else { Ok(()) }
    }

    fn push_cause(&mut self, cause: Cause) {
        self.outcome.causes.push(cause);
    }

    /// `is_same`: what did not change is not refused, only told.
    fn refuse<'a>(
        &mut self,
        validation: &'a Validation,
        activation: &Activation<'a>,
        (path, is_same): (&str, bool),
    ) -> Result<(), Ended> {
        let mut ended = Ok(());
        let mut message = None;
        if let Some(expression) = &validation.programs().message {
            match expression.evaluate(activation, &mut self.budget) {
                Ok(Val::String(text)) => {
                    let text = text.trim();
                    let fits = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
                    message = fits.then(|| text.to_owned());
                }
                Ok(_) | Err(EvalError::Failed(_) | EvalError::Deep) => {}
                Err(EvalError::Cost | EvalError::Late) => {
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

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

impl<'a> Place<'a> {
    /// Of a value within.
    fn of(self, old: Option<&'a Value>, value: &Value) -> Self {
        Self { old, is_same: self.is_same || old == Some(value) }
    }
}

impl Validation {
    fn programs(&self) -> &Programs {
        self.programs.get_or_init(|| {
            let message = self.source.get("messageExpression").and_then(Value::as_str).unwrap_or_default();
            let message = Some(message).filter(|source| !source.trim().is_empty());
            let variables = variables(&self.source, &self.decl);
            Programs {
                rule: compiled(&self.source, &self.decl),
                message: message.and_then(|source| Program::compile(source, &variables).ok()),
            }
        })
    }

    fn invalid(&self, path: &str, why: &str) -> Cause {
        Cause::invalid(if path.is_empty() { "<nil>" } else { path }, &self.type_.as_ref().into(), why)
    }

    /// How the rule is named in texts about it.
    fn shown(&self) -> &str {
        if self.message.is_empty() { &self.rule } else { &self.message }
    }

    fn message(&self) -> String {
        if self.message.is_empty() { format!("failed rule: {}", self.rule) } else { self.message.to_string() }
    }

    fn cause(&self, path: &str, message: &str) -> Cause {
        let field = match (path, self.field.as_ref()) {
            ("", "") => "<nil>".to_owned(),
            (path, "") => path.to_owned(),
            ("", field) => field.to_owned(),
            (path, field) => format!("{path}.{field}"),
        };
        match self.reason.as_ref() {
            "FieldValueForbidden" => Cause::forbidden(field, message),
            "FieldValueRequired" => Cause::required(field, message),
            "FieldValueDuplicate" => Cause::duplicate(field, &self.type_),
            _ => Cause::invalid(field, &self.type_.as_ref().into(), message),
        }
    }
}
