//! Writes the value of an expression as JSON. Values may share their parts, so each copy costs a part of the budget.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map as JsonMap, Number, Value as Json};

use super::{
    budget::Budget,
    error::EvalError,
    value::{MapKey, Val},
};

/// Returns the value as JSON.
///
/// # Errors
/// The budget is spent, or the value has no form in JSON.
pub(crate) fn to_json(value: &Val<'_>, budget: &mut Budget) -> Result<Json, EvalError> {
    budget.spend(1)?;
    Ok(match value {
        Val::Null => Json::Null,
        Val::Bool(value) => Json::Bool(*value),
        Val::Int(value) => (*value).into(),
        Val::Uint(value) => (*value).into(),
        Val::Double(value) => match Number::from_f64(*value) {
            Some(number) => Json::Number(number),
            None => return EvalError::fail(format!("{value} is no number of JSON")),
        },
        Val::String(text) => {
            budget.spend_bytes(text.len())?;
            Json::String((**text).to_owned())
        }
        Val::Bytes(bytes) => {
            budget.spend_bytes(bytes.len())?;
            Json::String(STANDARD.encode(bytes))
        }
        Val::Timestamp(time) => Json::String(time.to_string()),
        Val::List(list) => {
            let items = list.iter().map(|item| to_json(&item, budget));
            Json::Array(items.collect::<Result<_, _>>()?)
        }
        Val::Map(map) => {
            let mut object = JsonMap::new();
            for (key, value) in map.entries() {
                let Some(MapKey::String(key)) = MapKey::of(&key) else {
                    let what = format!("map key is of type {}, not string", key.type_name());
                    return EvalError::fail(what);
                };
                budget.spend_bytes(key.len())?;
                object.insert((*key).to_owned(), to_json(&value, budget)?);
            }
            Json::Object(object)
        }
        other => {
            return EvalError::fail(format!(
                "a value of type {} cannot be written to an object",
                other.type_name()
            ));
        }
    })
}
