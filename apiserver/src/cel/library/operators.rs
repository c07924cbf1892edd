//! Operators: arithmetic, comparisons, indexing and `in`.

use std::cmp::Ordering;

use jiff::SignedDuration;

use super::{
    context::{Context, no_overload},
    items::is_in,
};
use crate::cel::{
    error::{EvalError, Evaluated},
    moment::Moment,
    value::{Map, MapKey, Val},
};

/// Evaluates an operator.
pub(super) fn call<'a>(
    name: &str,
    args: &[Val<'a>],
    context: &mut Context<'_>,
) -> Option<Evaluated<'a>> {
    Some(match (name, args) {
        ("!_", [Val::Bool(value)]) => Ok(Val::Bool(!value)),
        ("-_", [Val::Int(value)]) => whole(value.checked_neg()),
        ("-_", [Val::Double(value)]) => Ok(Val::Double(-value)),
        ("_==_" | "_!=_", [one, two]) => {
            if let Err(error) = context.budget.spend_on_comparison(one, two) {
                return Some(Err(error));
            }
            Ok(Val::Bool(one.equals(two) == (name == "_==_")))
        }
        ("_<_" | "_<=_" | "_>_" | "_>=_", [one, two]) => {
            // the texts have been paid for, and nothing else that is long has an order
            if let Err(error) = context.budget.spend(1) {
                return Some(Err(error));
            }
            let is_nan = |value: &Val<'_>| matches!(value, Val::Double(number) if number.is_nan());
            let Some(order) = one.compare(two) else {
                let has_nan = is_nan(one) || is_nan(two);
                return Some(if has_nan {
                    EvalError::fail("NaN values cannot be ordered")
                } else {
                    no_overload()
                });
            };
            Ok(Val::Bool(match name {
                "_<_" => order == Ordering::Less,
                "_<=_" => order != Ordering::Greater,
                "_>_" => order == Ordering::Greater,
                _ => order != Ordering::Less,
            }))
        }
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [one, two]) => arithmetic(name, one, two, context),
        ("@in", [wanted, container]) => contains(wanted, container, context),
        ("_[_]", [container, index]) => element_at(container, index),
        ("_[?_]", [container, index]) => Ok(optional_index(container, index)),
        ("@insert", [Val::Map(map), key, value]) => {
            insert(map, vec![(key.clone(), value.clone())], context)
        }
        ("@insert_all", [Val::Map(map), Val::Map(added)]) => insert(map, added.entries(), context),
        _ => return None,
    })
}

fn whole<'a>(value: Option<i64>) -> Evaluated<'a> {
    value.map_or_else(
        || EvalError::fail("integer overflow"),
        |value| Ok(Val::Int(value)),
    )
}

fn natural<'a>(value: Option<u64>) -> Evaluated<'a> {
    value.map_or_else(
        || EvalError::fail("unsigned integer overflow"),
        |value| Ok(Val::Uint(value)),
    )
}

fn arithmetic<'a>(
    name: &str,
    one: &Val<'a>,
    two: &Val<'a>,
    context: &mut Context<'_>,
) -> Evaluated<'a> {
    match (name, one, two) {
        ("_/_", Val::Int(_), Val::Int(0)) | ("_/_", Val::Uint(_), Val::Uint(0)) => {
            EvalError::fail("division by zero")
        }
        ("_%_", Val::Int(_), Val::Int(0)) | ("_%_", Val::Uint(_), Val::Uint(0)) => {
            EvalError::fail("modulus by zero")
        }
        (name, Val::Int(one), Val::Int(two)) => whole(match name {
            "_+_" => one.checked_add(*two),
            "_-_" => one.checked_sub(*two),
            "_*_" => one.checked_mul(*two),
            "_/_" => one.checked_div(*two),
            _ => one.checked_rem(*two),
        }),
        (name, Val::Uint(one), Val::Uint(two)) => natural(match name {
            "_+_" => one.checked_add(*two),
            "_-_" => one.checked_sub(*two),
            "_*_" => one.checked_mul(*two),
            "_/_" => one.checked_div(*two),
            _ => one.checked_rem(*two),
        }),
        ("_+_", Val::Double(one), Val::Double(two)) => Ok(Val::Double(one + two)),
        ("_-_", Val::Double(one), Val::Double(two)) => Ok(Val::Double(one - two)),
        ("_*_", Val::Double(one), Val::Double(two)) => Ok(Val::Double(one * two)),
        ("_/_", Val::Double(one), Val::Double(two)) => Ok(Val::Double(one / two)),
        ("_+_", Val::String(one), Val::String(two)) => {
            Ok(Val::text(format!("{}{}", &**one, &**two)))
        }
        ("_+_", Val::Bytes(one), Val::Bytes(two)) => {
            Ok(Val::Bytes(one.iter().chain(two.iter()).copied().collect()))
        }
        ("_+_", Val::List(one), Val::List(two)) => {
            context.budget.spend((one.len() + two.len()) as u64)?;
            Ok(Val::list(one.iter().chain(two.iter()).collect()))
        }
        ("_+_", Val::Timestamp(time), Val::Duration(span))
        | ("_+_", Val::Duration(span), Val::Timestamp(time)) => timestamp(time.plus(*span)),
        ("_-_", Val::Timestamp(time), Val::Duration(span)) => timestamp(time.minus(*span)),
        ("_-_", Val::Timestamp(one), Val::Timestamp(two)) => span(Some(one.since(*two))),
        ("_+_", Val::Duration(one), Val::Duration(two)) => span(one.checked_add(*two)),
        ("_-_", Val::Duration(one), Val::Duration(two)) => span(one.checked_sub(*two)),
        _ => no_overload(),
    }
}

fn timestamp<'a>(time: Result<Moment, &'static str>) -> Evaluated<'a> {
    time.map_or_else(EvalError::fail, |time| Ok(Val::Timestamp(time)))
}

fn span<'a>(span: Option<SignedDuration>) -> Evaluated<'a> {
    // as long as can be counted in nanoseconds
    let span = span.filter(|span| i64::try_from(span.as_nanos()).is_ok());
    span.map_or_else(
        || EvalError::fail("duration overflow"),
        |span| Ok(Val::Duration(span)),
    )
}

fn contains<'a>(wanted: &Val<'a>, container: &Val<'a>, context: &mut Context<'_>) -> Evaluated<'a> {
    match container {
        Val::List(list) => is_in(list, wanted, context).map(Val::Bool),
        Val::Map(map) => Ok(Val::Bool(map.get(wanted).is_some())),
        _ => no_overload(),
    }
}

/// Returns the list index that a number stands for, if it is one.
fn position(index: &Val<'_>) -> Option<usize> {
    match MapKey::of(index)? {
        MapKey::Number(number) => usize::try_from(number).ok(),
        _ => None,
    }
}

fn element_at<'a>(container: &Val<'a>, index: &Val<'a>) -> Evaluated<'a> {
    match container {
        Val::List(list) => match position(index).and_then(|position| list.get(position)) {
            Some(item) => Ok(item),
            None => EvalError::fail(format!("index out of bounds: {}", format_key(index))),
        },
        Val::Map(map) => match map.get(index) {
            Some(value) => Ok(value),
            None => EvalError::fail(format!("no such key: {}", format_key(index))),
        },
        Val::Optional(_) => Ok(optional_index(container, index)),
        _ => no_overload(),
    }
}

fn format_key(key: &Val<'_>) -> String {
    match key {
        Val::String(text) => text.to_string(),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => number.to_string(),
        Val::Bool(value) => value.to_string(),
        other => other.type_name().to_owned(),
    }
}

fn optional_index<'a>(container: &Val<'a>, index: &Val<'a>) -> Val<'a> {
    match container {
        Val::List(list) => Val::optional(position(index).and_then(|position| list.get(position))),
        Val::Map(map) => Val::optional(map.get(index)),
        Val::Optional(Some(inner)) => optional_index(inner.part(), index),
        _ => Val::Optional(None),
    }
}

fn insert<'a>(
    map: &Map<'a>,
    added: Vec<(Val<'a>, Val<'a>)>,
    context: &mut Context<'_>,
) -> Evaluated<'a> {
    context.budget.spend((map.len() + added.len()) as u64)?;
    let mut result = std::collections::BTreeMap::new();
    for (key, value) in map.entries().into_iter().chain(added) {
        let Some(key) = MapKey::of(&key) else {
            return EvalError::fail("unsupported key type");
        };
        if result.insert(key, value).is_some() {
            return EvalError::fail("insert failed: key already exists");
        }
    }
    Ok(Val::map(result))
}
