//! Validates the `x-kubernetes-validations` in a definition's schema: what could not be evaluated later is refused. Pure.

use serde_json::{Value, json};

use crate::schema_validation::{RuleFault, check_rules, valid_field_path};
use kubeapi::cause::Cause;

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

fn rules<'a>(schema: &'a Value, path: &str) -> impl Iterator<Item = (String, &'a Value)> + use<'a> {
    let path = path.to_owned();
    let rules = schema
        .get("x-kubernetes-validations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    rules
        .enumerate()
        .map(move |(index, rule)| (format!("{path}.x-kubernetes-validations[{index}]"), rule))
}

/// Compiles the rules of the schema at `path`; `uncorrelatable` is the path of an enclosing list whose items cannot be correlated with
/// old ones.
pub(super) fn check(
    schema: &Value,
    path: &str,
    is_root: bool,
    uncorrelatable: Option<&str>,
) -> Vec<Cause> {
    let faults = rules(schema, path).flat_map(|(path, rule)| {
        let faults = check_rules(schema, rule, is_root, uncorrelatable).into_iter();
        faults.map(move |RuleFault { part, value, why }| {
            let value = value.unwrap_or_else(|| display_rule(rule));
            Cause::invalid(format!("{path}.{part}"), &value, &why)
        })
    });
    faults.collect()
}

/// Checks the texts of the rules of the schema at `path`, without compiling them.
pub(super) fn texts(schema: &Value, path: &str) -> Vec<Cause> {
    rules(schema, path)
        .flat_map(|(path, rule)| texts_of(schema, rule, &path))
        .collect()
}

fn texts_of(schema: &Value, rule: &Value, path: &str) -> Vec<Cause> {
    const NON_EMPTY: &str = "must be non-empty if specified";
    const NO_BREAKS: &str = "must not contain line breaks";
    let mut causes = Vec::new();
    let at = |part: &str| format!("{path}.{part}");
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    let (source, message) = (text(rule, "rule").trim(), text(rule, "message"));
    if source.is_empty() {
        causes.push(Cause::required(at("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        causes.push(Cause::invalid(at("message"), &message.into(), NON_EMPTY));
    } else if has_breaks(message.trim()) {
        causes.push(Cause::invalid(at("message"), &message.into(), NO_BREAKS));
    } else if has_breaks(source) && message.trim().is_empty() {
        causes.push(Cause::required(
            at("message"),
            "message must be specified if rule contains line breaks",
        ));
    }
    let expression = text(rule, "messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        causes.push(Cause::required(at("messageExpression"), why));
    }
    if let Some(reason) = rule
        .get("reason")
        .filter(|reason| !REASONS.iter().any(|known| *reason == known))
    {
        causes.push(Cause::unsupported(at("reason"), reason, &REASONS));
    }
    let field = text(rule, "fieldPath");
    let mut refuse = |why: &str| causes.push(Cause::invalid(at("fieldPath"), &field.into(), why));
    if !field.is_empty() && field.trim().is_empty() {
        refuse(NON_EMPTY);
    }
    if has_breaks(field) {
        refuse(NO_BREAKS);
    }
    if !field.is_empty() && valid_field_path(field, schema, true).is_err() {
        refuse("must be a valid path");
    }
    causes
}

fn text<'a>(rule: &'a Value, name: &str) -> &'a str {
    rule.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a rule in the API server's own form.
fn display_rule(rule: &Value) -> Value {
    let optional = |name: &str| rule.get(name).cloned().unwrap_or_default();
    json!({
        "Rule": text(rule, "rule"),
        "Message": text(rule, "message"),
        "MessageExpression": text(rule, "messageExpression"),
        "Reason": optional("reason"),
        "FieldPath": text(rule, "fieldPath"),
        "OptionalOldSelf": optional("optionalOldSelf"),
    })
}
