//! Checks an object against its schema, with the API server's texts, which clients show.

use clock::Instant;
use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use serde_json::{Map, Value};

use super::{
    evaluate::Outcome,
    lists,
    node::{Bound, Node, SchemaValidator, Type, ValueConstraints},
};
use crate::string_formats;
use kubeapi::cause::Cause;
use kubeapi::object::value_path::{field_step, within};

/// The most causes that are reported for one object.
const MAX_CAUSES: usize = 500;

/// How long the check of an object may take; what takes time are the patterns.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The check did not end in time.
#[derive(Debug)]
pub(crate) struct DeadlineExceeded;

/// The causes found until now.
struct Causes {
    found: Vec<Cause>,
    deadline: Instant,
    is_past_deadline: bool,
}

impl Causes {
    fn until(deadline: Instant) -> Self {
        Self {
            found: Vec::new(),
            deadline,
            is_past_deadline: false,
        }
    }

    /// Reports whether the check can stop.
    fn is_over(&mut self) -> bool {
        self.is_past_deadline |= Instant::now() >= self.deadline;
        self.is_past_deadline || self.found.len() >= MAX_CAUSES
    }
}

impl Deref for Causes {
    type Target = Vec<Cause>;

    fn deref(&self) -> &Vec<Cause> {
        &self.found
    }
}

impl DerefMut for Causes {
    fn deref_mut(&mut self) -> &mut Vec<Cause> {
        &mut self.found
    }
}

impl SchemaValidator {
    /// Checks `object` against its schema without rules.
    pub(crate) fn check(&self, object: &Value) -> Result<Vec<Cause>, DeadlineExceeded> {
        let mut causes = Causes::until(Instant::now() + CHECK_TIMEOUT);
        self.root.check(object, &mut String::new(), &mut causes);
        if causes.is_past_deadline {
            return Err(DeadlineExceeded);
        }
        causes.truncate(MAX_CAUSES);
        Ok(causes.found)
    }

    /// Checks `object`, which replaces `old`, against its schema and rules.
    pub(crate) fn check_all(
        &self,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Outcome, DeadlineExceeded> {
        let mut causes = self.check(object)?;
        if !self.has_rules() {
            return Ok(Outcome {
                causes,
                warnings: Vec::new(),
            });
        }
        if causes.iter().any(Cause::is_blocking) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            causes.push(Cause::invalid("<nil>", &Value::Null, why));
            return Ok(Outcome {
                causes,
                warnings: Vec::new(),
            });
        }
        let outcome = self.check_rules(object, old);
        causes.extend(outcome.causes);
        causes.truncate(MAX_CAUSES);
        Ok(Outcome {
            causes,
            warnings: outcome.warnings,
        })
    }
}

impl Node {
    fn check(&self, value: &Value, path: &mut String, causes: &mut Causes) {
        if causes.is_over() || (value.is_null() && self.nullable) {
            return;
        }
        let expected = match self.type_ {
            Some(type_) => type_.refuses(value),
            None => self.text_format().filter(|_| is_no_text(value)),
        };
        if let Some(expected) = expected {
            let found = type_name(value);
            let why = format!(
                "{} in body must be of type {expected}: {found:?}",
                display_path(path)
            );
            return causes.push(Cause::type_invalid(display_path(path), found, &why));
        }
        self.check_composition(value, path, causes);
        self.rules.check(value, path, causes);
        match value {
            Value::Object(map) => self.check_fields(map, path, causes),
            Value::Array(list) => {
                causes.extend(lists::duplicates(&self.list, list, path));
                let Some(items) = &self.items else { return };
                for (index, value) in list.iter().enumerate() {
                    within(path, &format!("[{index}]"), |path| {
                        items.check(value, path, causes)
                    });
                }
            }
            _ => {}
        }
    }

    fn check_fields(&self, map: &Map<String, Value>, path: &mut String, causes: &mut Causes) {
        for name in self
            .rules
            .required
            .iter()
            .filter(|name| !map.contains_key(name.as_ref()))
        {
            causes.push(Cause::required(
                format!("{path}{}", field_step(path, name)),
                "",
            ));
        }
        if self.embedded {
            for name in ["apiVersion", "kind"] {
                if map
                    .get(name)
                    .and_then(Value::as_str)
                    .is_none_or(str::is_empty)
                {
                    let why = "must not be empty";
                    causes.push(Cause::required(
                        format!("{path}{}", field_step(path, name)),
                        why,
                    ));
                }
            }
        }
        for (name, value) in map {
            if let Some(node) = self.field(name) {
                within(path, &field_step(path, name), |path| {
                    node.check(value, path, causes)
                });
            }
        }
    }

    /// Checks `allOf`, `anyOf`, `oneOf` and `not`. The causes of the closest alternative are reported as well.
    fn check_composition(&self, value: &Value, path: &mut String, causes: &mut Causes) {
        let ValueConstraints {
            all_of,
            any_of,
            one_of,
            not,
            ..
        } = &self.rules;
        let (deadline, mut is_past_deadline) = (causes.deadline, false);
        let mut causes_of = |node: &Self| {
            let mut causes = Causes::until(deadline);
            node.check(value, path, &mut causes);
            is_past_deadline |= causes.is_past_deadline;
            causes.found
        };
        let mut found = Vec::new();
        let any: Vec<_> = any_of.iter().map(&mut causes_of).collect();
        if !any.is_empty() && !any.iter().any(Vec::is_empty) {
            found.push("must validate at least one schema (anyOf)".to_owned());
            causes.extend(nearest(any));
        }
        let one: Vec<_> = one_of.iter().map(&mut causes_of).collect();
        let fitting = one.iter().filter(|causes| causes.is_empty()).count();
        if !one.is_empty() && fitting != 1 {
            let how_many = match fitting {
                0 => "Found none valid".to_owned(),
                fitting => format!("Found {fitting} valid alternatives"),
            };
            found.push(format!(
                "must validate one and only one schema (oneOf). {how_many}"
            ));
            if fitting == 0 {
                causes.extend(nearest(one));
            }
        }
        let all: Vec<_> = all_of.iter().map(&mut causes_of).collect();
        if all.iter().any(|causes| !causes.is_empty()) {
            let none = if all.iter().any(Vec::is_empty) {
                ""
            } else {
                ". None validated"
            };
            found.push(format!("must validate all the schemas (allOf){none}"));
            causes.extend(all.into_iter().flatten());
        }
        if not.as_ref().is_some_and(|not| causes_of(not).is_empty()) {
            found.push("must not validate the schema (not)".to_owned());
        }
        causes.is_past_deadline |= is_past_deadline;
        // these stand at no field, as in the real server
        causes.extend(found.into_iter().map(|why| {
            let why = format!("{path:?} {why}");
            Cause::invalid("<nil>", &"".into(), &why)
        }));
    }
}

/// Reports whether a format of text refuses the value, whatever it is. Go ignores the format of a list.
fn is_no_text(value: &Value) -> bool {
    matches!(value, Value::Number(_) | Value::Object(_) | Value::Bool(_))
}

/// Reports whether both are the same value; numbers are, if they are equal.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || one.is_number() && other.is_number() && one.as_f64() == other.as_f64()
}

/// Reports whether a number is a multiple. As in Go, the step of an integer is cut to an integer.
fn is_multiple(value: &Value, number: f64, step: f64) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "it is cut")]
    let whole_step = step as i64;
    match value.as_i64() {
        Some(number) => number.checked_rem(whole_step) == Some(0),
        None => (number / step).fract() == 0.0,
    }
}

/// Returns the causes of the alternative with the fewest.
fn nearest(alternatives: Vec<Vec<Cause>>) -> Vec<Cause> {
    alternatives
        .into_iter()
        .min_by_key(Vec::len)
        .unwrap_or_default()
}

impl ValueConstraints {
    fn check(&self, value: &Value, path: &str, causes: &mut Causes) {
        let is_allowed = |value| self.allowed.iter().any(|allowed| is_same(allowed, value));
        if !self.allowed.is_empty() && !is_allowed(value) {
            let allowed: Vec<_> = self.allowed.iter().map(text_of).collect();
            let allowed: Vec<_> = allowed.iter().map(String::as_str).collect();
            causes.push(Cause::unsupported(display_path(path), value, &allowed));
        }
        match value {
            Value::Number(number) => {
                self.check_number(number.as_f64().unwrap_or_default(), value, path, causes)
            }
            Value::String(text) => self.check_text(text, value, path, causes),
            Value::Array(list) => {
                let count = list.len() as u64;
                if let Some(least) = self.min_items.filter(|least| count < *least) {
                    let why = format!("{path} in body should have at least {least} items");
                    causes.push(Cause::invalid(path, value, &why));
                }
                if let Some(most) = self.max_items.filter(|most| count > *most) {
                    causes.push(Cause::too_many(path, count, most));
                }
            }
            Value::Object(map) => {
                let count = map.len() as u64;
                if let Some(least) = self.min_properties.filter(|least| count < *least) {
                    let why = format!(
                        "{} in body should have at least {least} properties",
                        display_path(path)
                    );
                    causes.push(Cause::invalid(display_path(path), value, &why));
                }
                if let Some(most) = self.max_properties.filter(|most| count > *most) {
                    causes.push(Cause::too_many(display_path(path), count, most));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_number(&self, number: f64, value: &Value, path: &str, causes: &mut Causes) {
        let mut refuse = |why: String| {
            causes.push(Cause::invalid(
                path,
                value,
                &format!("{path} in body should be {why}"),
            ));
        };
        if let Some(Bound { at, exclusive }) = self.minimum {
            match exclusive {
                true if number <= at => refuse(format!("greater than {at}")),
                false if number < at => refuse(format!("greater than or equal to {at}")),
                _ => {}
            }
        }
        if let Some(Bound { at, exclusive }) = self.maximum {
            match exclusive {
                true if number >= at => refuse(format!("less than {at}")),
                false if number > at => refuse(format!("less than or equal to {at}")),
                _ => {}
            }
        }
        if let Some(step) = self
            .multiple_of
            .filter(|step| !is_multiple(value, number, *step))
        {
            refuse(format!("a multiple of {step}"));
        }
        let fits_32_bits = || {
            value
                .as_i64()
                .is_none_or(|number| i32::try_from(number).is_ok())
        };
        if self.format.as_deref() == Some("int32") && !fits_32_bits() {
            let why = format!("{path} in body must be of type int32: \"{value}\"");
            causes.push(Cause::type_invalid(path, &value.to_string(), &why));
        }
    }

    fn check_text(&self, text: &str, value: &Value, path: &str, causes: &mut Causes) {
        let length = text.chars().count() as u64;
        if let Some(most) = self.max_length.filter(|most| length > *most) {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            causes.push(Cause::too_long(path, most));
        }
        if let Some(least) = self.min_length.filter(|least| length < *least) {
            let why = format!("{path} in body should be at least {least} chars long");
            causes.push(Cause::invalid(path, value, &why));
        }
        if let Some(pattern) = self
            .pattern
            .as_ref()
            .filter(|pattern| !pattern.is_match(text))
        {
            let why = format!("{path} in body should match '{pattern}'");
            causes.push(Cause::invalid(path, value, &why));
        }
        if let Some(format) = self
            .format
            .as_deref()
            .filter(|format| !string_formats::fits(format, text))
        {
            let why = format!("{path} in body must be of type {format}: {value}");
            causes.push(Cause::type_invalid(path, text, &why));
        }
    }
}

impl Type {
    /// Returns the expected type where `value` has another one.
    fn refuses(self, value: &Value) -> Option<&'static str> {
        let is_whole = || {
            value.as_i64().is_some()
                || value.as_u64().is_some()
                || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        };
        let (fits, expected) = match self {
            Self::Object => (value.is_object(), "object"),
            Self::Array => (value.is_array(), "array"),
            Self::String => (value.is_string(), "string"),
            Self::Integer => (is_whole(), "integer"),
            Self::Number => (value.is_number(), "number"),
            Self::Boolean => (value.is_boolean(), "boolean"),
            Self::IntOrString => (value.is_string() || is_whole(), "integer,string"),
        };
        (!fits).then_some(expected)
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The object as a whole has no path.
fn display_path(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}

fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
