//! Functions of optional values.

use super::context::Context;
use crate::cel::{
    error::{EvalError, Evaluated},
    value::Val,
};

/// Calls a function of optional values.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], _: &mut Context<'_>) -> Option<Evaluated<'a>> {
    Some(match (name, args) {
        ("optional.of", [value]) => Ok(Val::optional(Some(value.clone()))),
        ("optional.none", []) => Ok(Val::Optional(None)),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(Val::optional(Some(value).filter(|value| !is_zero(value)).cloned()))
        }
        ("hasValue", [Val::Optional(value)]) => Ok(Val::Bool(value.is_some())),
        ("value", [Val::Optional(value)]) => match value {
            Some(value) => Ok(value.part().clone()),
            None => EvalError::failed("optional.none() dereference"),
        },
        ("or", [first @ Val::Optional(value), second]) => {
            Ok(if value.is_some() { first.clone() } else { second.clone() })
        }
        ("orValue", [Val::Optional(value), other]) => {
            Ok(value.as_ref().map_or_else(|| other.clone(), |value| value.part().clone()))
        }
        _ => return None,
    })
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Optional(None) => true,
        Val::Bool(value) => !value,
        Val::Int(number) => *number == 0,
        Val::Uint(number) => *number == 0,
        Val::Double(number) => *number == 0.0,
        Val::String(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::List(list) => list.len() == 0,
        Val::Map(map) => map.len() == 0,
        Val::Duration(span) => span.is_zero(),
        _ => false,
    }
}
