//! Evaluates tables of what may not change in an update.

use serde_json::{Map, Value};

use crate::cause::Cause;

const IMMUTABLE: &str = "field is immutable";

/// One row: a path of fields, separated by dots, and what may not happen to it.
#[derive(Debug)]
pub struct Change {
    at: &'static str,
    kept: Kept,
}

/// The change that is not allowed for a field.
#[derive(Debug)]
pub enum Kept {
    /// It changes.
    Same,
    /// It changes; messages call it otherwise.
    Renamed(&'static str),
    /// It changes; the text says so.
    Invalid(&'static str),
    /// It changes; the text says that this is forbidden.
    Locked(&'static str),
    /// It changes once it is set; the text says that this is forbidden.
    OnceSet(&'static str),
    /// A rule between fields: old, new.
    Check(fn(&Value, &Value, &mut Vec<Cause>)),
}

/// Makes a row.
pub const fn change(at: &'static str, kept: Kept) -> Change {
    Change { at, kept }
}

/// Adds the faults of the change from `old` to `new`.
pub fn check(rows: &[Change], old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    for Change { at, kept } in rows {
        let pointer = if at.is_empty() {
            String::new()
        } else {
            format!("/{}", at.replace('.', "/"))
        };
        let (before, after) = (
            old.pointer(&pointer).unwrap_or(&Value::Null),
            new.pointer(&pointer).unwrap_or(&Value::Null),
        );
        if let Kept::Check(check) = kept {
            check(before, after, causes);
            continue;
        }
        if same(before, after) {
            continue;
        }
        causes.extend(match kept {
            Kept::Same => Some(Cause::invalid(*at, after, IMMUTABLE)),
            Kept::Renamed(name) => Some(Cause::invalid(*name, after, IMMUTABLE)),
            Kept::Invalid(why) => Some(Cause::invalid(*at, after, why)),
            Kept::Locked(why) => Some(Cause::forbidden(*at, why)),
            Kept::OnceSet(why) => (!is_nothing(before)).then(|| Cause::forbidden(*at, why)),
            Kept::Check(_) => None,
        });
    }
}

/// Reports whether two values mean the same: an empty list or map is like none, as in Go.
pub fn same(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => of_maps(before, after),
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len()
                && before
                    .iter()
                    .zip(after)
                    .all(|(before, after)| same(before, after))
        }
        _ => before == after || is_nothing(before) && is_nothing(after),
    }
}

fn of_maps(before: &Map<String, Value>, after: &Map<String, Value>) -> bool {
    let none = Value::Null;
    let has_all = |these: &Map<String, Value>, those: &Map<String, Value>| {
        these
            .iter()
            .all(|(key, value)| same(value, those.get(key).unwrap_or(&none)))
    };
    has_all(before, after)
        && after
            .iter()
            .all(|(key, value)| before.contains_key(key) || is_nothing(value))
}

/// Whether the value is like an absent one.
pub fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
    }
}
