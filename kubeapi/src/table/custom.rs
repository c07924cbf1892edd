//! Rows of kinds from definitions: the name, then the columns of the definition.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    age,
    cells::name,
    json_path,
    printer::{NAME, definition},
};
use crate::registry::PrinterColumn;

pub(super) fn definitions(columns: &[PrinterColumn]) -> Value {
    let own = columns.iter().map(|column| {
        let path = &column.json_path;
        let description = match column.description.as_str() {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            text => text.to_owned(),
        };
        json!({
            "name": column.name, "type": column.type_, "format": column.format,
            "description": description, "priority": column.priority,
        })
    });
    std::iter::once(definition(&NAME)).chain(own).collect()
}

pub(super) fn cells(columns: &[PrinterColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let own = columns.iter().map(|column| cell(column, object, now));
    std::iter::once(name(object)).chain(own).collect()
}

/// Returns a cell, which is empty if the value is absent or not of the column's type; kubectl prints `<none>`.
fn cell(column: &PrinterColumn, object: &Value, now: Timestamp) -> Value {
    let Some(value) = json_path::first(&column.json_path, object).filter(|value| !value.is_null())
    else {
        return Value::Null;
    };
    match (column.type_.as_str(), value) {
        ("date", Value::String(_)) => age::since(Some(value), now).into(),
        ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("number", Value::Number(_)) => value.clone(),
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(number)) => {
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the column says that it is whole"
            )]
            let whole = number
                .as_i64()
                .or_else(|| number.as_f64().map(|number| number as i64));
            whole.into()
        }
        _ => Value::Null,
    }
}
