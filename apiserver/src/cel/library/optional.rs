//! Functions of optional values.

use super::{context::Context, items::items};
use crate::cel::{
    error::{EvalError, Evaluated},
    value::{List, Val},
};

/// Calls a function of optional values.
pub(super) fn call<'a>(
    name: &str,
    args: &[Val<'a>],
    context: &mut Context<'_>,
) -> Option<Evaluated<'a>> {
    Some(match (name, args) {
        ("optional.of", [value]) => Ok(Val::optional(Some(value.clone()))),
        ("first" | "last", [Val::List(list)]) => {
            let index = if name == "first" {
                Some(0)
            } else {
                list.len().checked_sub(1)
            };
            Ok(Val::optional(index.and_then(|index| list.get(index))))
        }
        ("optional.unwrap" | "unwrapOpt", [Val::List(list)]) => unwrap_optionals(list, context),
        ("optional.none", []) => Ok(Val::Optional(None)),
        ("optional.ofNonZeroValue", [value]) => Ok(Val::optional(
            Some(value).filter(|value| !is_zero(value)).cloned(),
        )),
        ("hasValue", [Val::Optional(value)]) => Ok(Val::Bool(value.is_some())),
        ("value", [Val::Optional(value)]) => match value {
            Some(value) => Ok(value.part().clone()),
            None => EvalError::fail("optional.none() dereference"),
        },
        ("or", [first @ Val::Optional(value), second]) => Ok(if value.is_some() {
            first.clone()
        } else {
            second.clone()
        }),
        ("orValue", [Val::Optional(value), other]) => Ok(value
            .as_ref()
            .map_or_else(|| other.clone(), |value| value.part().clone())),
        _ => return None,
    })
}

/// Returns the values of those that have one.
fn unwrap_optionals<'a>(list: &List<'a>, context: &mut Context<'_>) -> Evaluated<'a> {
    let mut values = Vec::new();
    for item in items(list, context)? {
        match item {
            Val::Optional(value) => values.extend(value.map(|value| value.part().clone())),
            other => {
                return EvalError::fail(format!(
                    "value of type {} is not optional",
                    other.type_name()
                ));
            }
        }
    }
    Ok(Val::list(values))
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
