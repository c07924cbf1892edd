//! `x-kubernetes-validations`: rules in CEL, compiled with the schema.

use std::sync::OnceLock;

use serde_json::Value;

use super::types;
use crate::cel::{Decl, Program};
use kubeapi::cause::Cause;
use kubeapi::object::value_path::field_step;

/// The key of the rules in a schema.
const RULES: &str = "x-kubernetes-validations";

/// A rule of a node.
#[derive(Debug)]
pub(super) struct Validation {
    rule: Box<str>,
    message: Box<str>,
    reason: Box<str>,
    /// The path that errors name, below the node: `spec.size`.
    field: Box<str>,
    pub(super) is_optional: bool,
    /// The type of the node, as the schema names it.
    type_: Box<str>,
    /// The CEL type of the node.
    pub(super) decl: Decl,
    /// The reason, as in the definition.
    source: Value,
    /// The compiled expressions. They are compiled on first use.
    programs: OnceLock<Programs>,
}

/// The expressions of a rule.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) rule: Result<Program, String>,
    pub(super) message: Option<Program>,
}

/// An error in a rule of a definition.
#[derive(Debug)]
pub(crate) struct RuleFault {
    /// The field of the rule: `rule` or `messageExpression`.
    pub(crate) part: &'static str,
    /// The value that is reported; the whole rule where there is none.
    pub(crate) value: Option<Value>,
    pub(crate) why: String,
}

/// Reports whether the schema or one within has rules.
pub(super) fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key(RULES) || map.values().any(has_rules),
        Value::Array(list) => list.iter().any(has_rules),
        _ => false,
    }
}

/// Reads the rules of a schema.
pub(super) fn validations(schema: &Value, is_root: bool) -> Vec<Validation> {
    let rules = schema.get(RULES).and_then(Value::as_array);
    let Some(rules) = rules else {
        return Vec::new();
    };
    let decl = types::decl(schema, is_root).unwrap_or(Decl::Dyn);
    let validation = |rule: &Value| {
        let text = |name: &str| {
            rule.get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .trim()
        };
        if text("rule").is_empty() {
            return None;
        }
        Some(Validation {
            rule: text("rule").into(),
            message: text("message").into(),
            reason: text("reason").into(),
            field: valid_field_path(text("fieldPath"), schema, true)
                .map(|found| found.0)
                .unwrap_or_default()
                .into(),
            is_optional: is_optional(rule),
            type_: schema
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .into(),
            decl: decl.clone(),
            source: rule.clone(),
            programs: OnceLock::new(),
        })
    };
    rules.iter().filter_map(validation).collect()
}

fn is_optional(rule: &Value) -> bool {
    rule.get("optionalOldSelf")
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

fn variables(rule: &Value, decl: &Decl) -> [(&'static str, Decl); 2] {
    let old = if is_optional(rule) {
        Decl::optional(decl.clone())
    } else {
        decl.clone()
    };
    [("self", decl.clone()), ("oldSelf", old)]
}

fn compile(rule: &Value, decl: &Decl) -> Result<Program, String> {
    let source = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
    let program = Program::compile(source, &variables(rule, decl)).map_err(|why| why.of_rule())?;
    match program.decl() {
        Decl::Bool | Decl::Dyn | Decl::Free => Ok(program),
        _ => Err("cel expression must evaluate to a bool".to_owned()),
    }
}

/// Checks the expressions of one rule of `schema`. `uncorrelatable`: the path of a list whose items cannot be correlated with old ones.
pub(crate) fn check_rules(
    schema: &Value,
    rule: &Value,
    is_root: bool,
    uncorrelatable: Option<&str>,
) -> Vec<RuleFault> {
    let mut faults = Vec::new();
    let mut fault = |part, value: Option<&Value>, why: String| {
        faults.push(RuleFault {
            part,
            value: value.cloned(),
            why,
        });
    };
    let Some(decl) = types::decl(schema, is_root) else {
        let type_ = schema
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let why = format!(
            "rule declared on schema that does not support validation rules type: '{type_}'"
        );
        fault("rule", None, why);
        return faults;
    };
    match compile(rule, &decl) {
        Err(why) => fault("rule", None, why),
        Ok(program) if program.uses("oldSelf") => {
            if let Some(path) = uncorrelatable {
                let why =
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within";
                fault("rule", rule.get("rule"), format!("{why} {path}"));
            }
        }
        Ok(_) if rule.get("optionalOldSelf").is_some_and(Value::is_boolean) => {
            let why = "may not be set if oldSelf is not used in rule";
            fault(
                "optionalOldSelf",
                rule.get("optionalOldSelf"),
                why.to_owned(),
            );
        }
        Ok(_) => {}
    }
    let source = rule
        .get("messageExpression")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !source.trim().is_empty() {
        match Program::compile(source, &variables(rule, &decl)) {
            Err(why) => fault(
                "messageExpression",
                None,
                format!("messageExpression {why}"),
            ),
            Ok(program) if !matches!(program.decl(), Decl::String | Decl::Dyn | Decl::Free) => {
                fault(
                    "messageExpression",
                    None,
                    "messageExpression must evaluate to a string".to_owned(),
                );
            }
            Ok(_) => {}
        }
    }
    faults
}

/// Follows a path such as `.spec.names['a.b']` in a schema. Returns it as errors name it (`spec.names[a.b]`), and the schema there.
///
/// # Errors
/// Returns why the path leads nowhere.
pub(crate) fn valid_field_path<'a>(
    path: &str,
    schema: &'a Value,
    allows_brackets: bool,
) -> Result<(String, &'a Value), String> {
    const END: &str = "unexpected end of JSON path";
    let (mut rest, mut at, mut told) = (path, schema, String::new());
    while !rest.is_empty() {
        let name;
        if let Some(tail) = rest.strip_prefix('[') {
            if !allows_brackets {
                return Err("array notation is not allowed".to_owned());
            }
            let Some(tail) = tail.strip_prefix('\'') else {
                let token = tail.split(['.', '[', ']']).next().unwrap_or_default();
                return Err(if tail.is_empty() {
                    END.to_owned()
                } else {
                    format!("expected single quoted string but got {token}")
                });
            };
            let end = tail.find("']").ok_or(END)?;
            name = tail.get(..end).unwrap_or_default();
            rest = tail.get(end + 2..).unwrap_or_default();
        } else if let Some(tail) = rest.strip_prefix('.') {
            if tail.is_empty() {
                return Err(END.to_owned());
            }
            let end = tail.find(['.', '[', ']']).unwrap_or(tail.len());
            (name, rest) = tail.split_at(end);
        } else {
            let token = rest
                .split(['.', '[', ']'])
                .next()
                .filter(|token| !token.is_empty())
                .unwrap_or("]");
            return Err(format!("expected [ or . but got: {token}"));
        }
        if let Some(fields) = at.get("properties").filter(|fields| fields.is_object()) {
            at = fields.get(name).ok_or("does not refer to a valid field")?;
            told.push_str(&field_step(&told, name));
        } else if let Some(values) = at
            .get("additionalProperties")
            .filter(|values| values.is_object())
        {
            told.push_str(&format!("[{name}]"));
            at = values;
        } else {
            return Err("does not refer to a valid field".to_owned());
        }
    }
    Ok((told, at))
}

impl Validation {
    /// Returns the compiled expressions.
    pub(super) fn programs(&self) -> &Programs {
        self.programs.get_or_init(|| {
            let message = self
                .source
                .get("messageExpression")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let message = Some(message).filter(|source| !source.trim().is_empty());
            let variables = variables(&self.source, &self.decl);
            Programs {
                rule: compile(&self.source, &self.decl),
                message: message.and_then(|source| Program::compile(source, &variables).ok()),
            }
        })
    }

    /// Returns the cause that the value at `path` is invalid.
    pub(super) fn invalid(&self, path: &str, why: &str) -> Cause {
        Cause::invalid(
            if path.is_empty() { "<nil>" } else { path },
            &self.type_.as_ref().into(),
            why,
        )
    }

    /// Returns how messages name the rule.
    pub(super) fn display_name(&self) -> &str {
        if self.message.is_empty() {
            &self.rule
        } else {
            &self.message
        }
    }

    /// Returns the message for an object that violates the rule.
    pub(super) fn message(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.rule)
        } else {
            self.message.to_string()
        }
    }

    /// Returns the cause for the value at `path`, with the reason of the rule.
    pub(super) fn cause(&self, path: &str, message: &str) -> Cause {
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
