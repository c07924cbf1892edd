//! Merges the user's document into the default document, as Go's decoder does: mappings are merged, lists replaced, `null`
//! changes nothing, numbers and booleans are accepted where text is expected. Every key and type is checked.

use serde_json::{Map, Value};

use super::{
    duration,
    report::{Report, WarningKind},
};

/// The key that matches any key in a shape.
const ANY: &str = "*";

/// What is known about one position in the document.
#[derive(Clone, Copy)]
pub(super) struct SchemaNode<'a> {
    /// A value of the right type; `null` accepts any.
    pub(super) shape: &'a Value,
    /// The same without unused keys; `None` if all of it is unused.
    pub(super) used: Option<&'a Value>,
}

impl<'a> SchemaNode<'a> {
    fn child(self, key: &str) -> Option<Self> {
        let shape = self.shape.get(key).or_else(|| self.shape.get(ANY))?;
        Some(Self {
            shape,
            used: self
                .used
                .and_then(|used| used.get(key).or_else(|| used.get(ANY))),
        })
    }

    fn element(self) -> Option<Self> {
        Some(Self {
            shape: self.shape.get(0)?,
            used: self.used.and_then(|used| used.get(0)),
        })
    }
}

/// Merges `user` into `base`. A wrong value leaves `base` unchanged, so that the search for errors continues.
pub(super) fn overlay(
    base: &mut Value,
    known: SchemaNode<'_>,
    user: Value,
    path: &str,
    report: &mut Report,
) {
    match (known.shape, user) {
        (_, Value::Null) => {}
        (Value::Null, user) => *base = user,
        (Value::Object(_), Value::Object(entries)) => {
            overlay_entries(base, known, entries, path, report)
        }
        (Value::Array(_), Value::Array(elements)) => {
            *base = Value::Array(overlay_elements(known, elements, path, report));
        }
        (shape, user) => match fit(shape, user) {
            Ok(user) => *base = user,
            Err(message) => report.error(path, message),
        },
    }
}

fn overlay_entries(
    base: &mut Value,
    known: SchemaNode<'_>,
    entries: Map<String, Value>,
    path: &str,
    report: &mut Report,
) {
    if !base.is_object() {
        *base = Value::Object(Map::new());
    }
    for (written, user) in entries {
        let place = join(path, &written);
        let Some(key) = resolve(known.shape, written, &place, report) else {
            continue;
        };
        let Some(below) = known.child(&key) else {
            continue;
        };
        let Some(slot) = base
            .as_object_mut()
            .map(|base| base.entry(key).or_insert(Value::Null))
        else {
            continue;
        };
        let before = slot.clone();
        overlay(slot, below, user, &place, report);
        // reported once, at the highest position that is not used at all
        if below.used.is_none() && known.used.is_some() && *slot != before {
            report.warn(WarningKind::NotUsed { path: place });
        }
        if slot.is_null() {
            *slot = before;
        }
    }
}

fn overlay_elements(
    known: SchemaNode<'_>,
    elements: Vec<Value>,
    path: &str,
    report: &mut Report,
) -> Vec<Value> {
    let Some(below) = known.element() else {
        return elements;
    };
    let mut list = Vec::with_capacity(elements.len());
    for (index, user) in elements.into_iter().enumerate() {
        let place = format!("{path}[{index}]");
        let mut element = Value::Null;
        overlay(&mut element, below, user, &place, report);
        list.push(element);
    }
    // wrong elements were reported, and null elements mean nothing
    list.retain(|element| !element.is_null());
    list
}

/// Returns the known spelling of a key. Go ignores case, so EdgeCore reads `edgehub` as `edgeHub`.
fn resolve(shape: &Value, written: String, place: &str, report: &mut Report) -> Option<String> {
    let shape = shape.as_object()?;
    if shape.contains_key(&written) || shape.contains_key(ANY) {
        return Some(written);
    }
    if let Some(right) = shape.keys().find(|key| key.eq_ignore_ascii_case(&written)) {
        report.warn(WarningKind::Case {
            path: place.to_owned(),
            right: right.clone(),
        });
        return Some(right.clone());
    }
    report.warn(WarningKind::UnknownKey {
        path: place.to_owned(),
        near: wire::nearest(&written, shape.keys().map(String::as_str)),
    });
    None
}

/// Reports whether a number was given for a duration: EdgeCore, too, requires a unit.
fn lacks_unit(shape: &Value, user: &Value) -> bool {
    let is_duration = |text: &str| text != "0" && duration::parse(text).is_some();
    let number = match user {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    shape.as_str().is_some_and(is_duration)
        && number.parse::<f64>().is_ok()
        && duration::parse(&number).is_none()
}

/// Converts the value to the shape's type.
fn fit(shape: &Value, user: Value) -> Result<Value, String> {
    if lacks_unit(shape, &user) {
        return Err(format!(
            "is {user}, but must be a duration such as 10s, 1m30s or 500ms"
        ));
    }
    let wanted = match (shape, &user) {
        (Value::String(_), Value::String(_)) | (Value::Bool(_), Value::Bool(_)) => return Ok(user),
        (Value::String(_), Value::Bool(value)) => return Ok(Value::String(value.to_string())),
        (Value::String(_), Value::Number(number)) if !number.is_f64() => {
            return Ok(Value::String(number.to_string()));
        }
        (Value::Number(shape), Value::Number(number)) if shape.is_f64() || number.is_i64() => {
            return Ok(user);
        }
        (Value::String(_), Value::Number(_)) => "text; put the number in quotes",
        (Value::String(_), _) => "text",
        (Value::Bool(_), Value::String(_)) => "true or false, without quotes",
        (Value::Bool(_), _) => "true or false",
        // a value that looks like a time is no token
        (Value::Number(_), Value::String(text))
            if duration::parse(text).is_some() && !is_number(text) =>
        {
            let seconds = duration::parse(text).unwrap_or_default().as_secs();
            return Err(format!(
                "is {text:?}, but must be a whole number, which counts seconds: {seconds}"
            ));
        }
        (Value::Number(_), Value::String(text)) if is_number(text) => "a number, without quotes",
        (Value::Number(_), Value::String(_)) => "a whole number",
        (Value::Number(_), _) => "a whole number",
        (Value::Array(_), _) => "a list (lines that begin with '- ')",
        (Value::Object(_), _) => "a mapping (indented 'key: value' lines)",
        (Value::Null, _) => return Ok(user),
    };
    Err(format!(
        "is {}, but must be {wanted}",
        describe_value(&user)
    ))
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

/// Describes a value. Text is not repeated: it may be the token.
fn describe_value(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(_) => "text".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "a mapping".into(),
    }
}

/// Returns the path of a key below `path`.
pub(super) fn join(path: &str, key: &str) -> String {
    let plain = key
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}
