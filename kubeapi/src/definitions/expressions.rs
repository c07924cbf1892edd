//! Validates the `x-kubernetes-validations` in a definition's schema: what could not be evaluated later is refused. Pure.

use serde_json::Value;

use crate::{
    cause::Cause,
    structural_schema::{RuleFault, check_rules},
};

/// The longest message, in bytes.
const LONGEST_MESSAGE: usize = 2048;

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Checks the rules of the schema at `path`; `uncorrelatable` is the path of an enclosing list whose items cannot be correlated with
/// old ones.
pub(super) fn check(schema: &Value, path: &str, is_root: bool, uncorrelatable: Option<&str>) -> Vec<Cause> {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    let checked = rules.enumerate().flat_map(|(index, rule)| {
        let path = format!("{path}.x-kubernetes-validations[{index}]");
        let mut causes = texts(rule, &path);
        if !text(rule, "rule").trim().is_empty() {
            let faults = check_rules(schema, rule, is_root, uncorrelatable);
            causes.extend(faults.into_iter().map(|RuleFault { part, why }| {
                Cause::invalid_written(format!("{path}.{part}"), &written(rule), &why)
            }));
        }
        causes
    });
    checked.collect()
}

fn texts(rule: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let at = |part: &str| format!("{path}.{part}");
    let (source, message) = (text(rule, "rule"), text(rule, "message"));
    if source.trim().is_empty() {
        causes.push(Cause::required(at("rule"), "rule is not specified"));
    }
    if rule.get("message").is_some() && message.trim().is_empty() {
        let why = "message must be non-empty if specified";
        causes.push(Cause::invalid(at("message"), &message.into(), why));
    } else if message.trim().contains('\n') {
        causes.push(Cause::invalid(at("message"), &message.into(), "message must not contain line breaks"));
    } else if message.len() > LONGEST_MESSAGE {
        causes.push(Cause::too_long(at("message"), LONGEST_MESSAGE));
    }
    if source.trim().contains('\n') && message.trim().is_empty() {
        causes.push(Cause::required(at("message"), "message must be specified if rule contains line breaks"));
    }
    if rule.get("messageExpression").is_some() && text(rule, "messageExpression").trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        causes.push(Cause::required(at("messageExpression"), why));
    }
    if let Some(reason) = rule.get("reason").filter(|reason| !REASONS.iter().any(|known| *reason == known)) {
        causes.push(Cause::unsupported(at("reason"), reason, &REASONS));
    }
    if rule.get("fieldPath").is_some() && text(rule, "fieldPath").trim().is_empty() {
        let why = "fieldPath must be non-empty if specified";
        causes.push(Cause::invalid(at("fieldPath"), &text(rule, "fieldPath").into(), why));
    }
    causes
}

fn text<'a>(rule: &'a Value, name: &str) -> &'a str {
    rule.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Formats a rule as Go does.
fn written(rule: &Value) -> String {
    let pointer = |name: &str, type_: &str| match rule.get(name) {
        Some(value) => format!("(*{type_})({value})"),
        None => format!("(*{type_})(nil)"),
    };
    format!(
        "apiextensions.ValidationRule{{Rule:{:?}, Message:{:?}, MessageExpression:{:?}, Reason:{}, FieldPath:{:?}, OptionalOldSelf:{}}}",
        text(rule, "rule"),
        text(rule, "message"),
        text(rule, "messageExpression"),
        pointer("reason", "apiextensions.FieldValueErrorReason"),
        text(rule, "fieldPath"),
        pointer("optionalOldSelf", "bool"),
    )
}
