//! The type `quantity`: amounts of resources.

use std::cmp::Ordering;

use super::context::{Context, no_overload};
use crate::{
    cel::{
        error::{EvalError, Evaluated},
        value::Val,
    },
    quantity::Quantity,
};

/// Calls a function of quantities.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], _: &mut Context<'_>) -> Option<Evaluated<'a>> {
    let (own, rest) = match (name, args) {
        ("isQuantity", [Val::String(text)]) => return Some(Ok(Val::Bool(Quantity::parse(text).is_some()))),
        ("quantity", [Val::String(text)]) => {
            let why =
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
            return Some(
                Quantity::parse(text).map(Val::Quantity).ok_or_else(|| EvalError::Failed(why.into())),
            );
        }
        (_, [Val::Quantity(own), rest @ ..]) => (*own, rest),
        _ => return None,
    };
    let number = |other: &Val<'a>| match other {
        Val::Quantity(other) => Some(*other),
        Val::Int(number) => Some(Quantity::whole(*number)),
        _ => None,
    };
    Some(match (name, rest) {
        ("isInteger", []) => Ok(Val::Bool(own.as_whole().is_some())),
        ("asInteger", []) => match own.as_whole() {
            Some(number) => Ok(Val::Int(number)),
            None => EvalError::failed("cannot convert value to integer"),
        },
        ("asApproximateFloat", []) => Ok(Val::Double(own.ratio(Quantity::ONE))),
        ("sign", []) => Ok(Val::Int(order(own.cmp(&Quantity::ZERO)))),
        ("compareTo", [Val::Quantity(other)]) => Ok(Val::Int(order(own.cmp(other)))),
        ("isLessThan", [Val::Quantity(other)]) => Ok(Val::Bool(own < *other)),
        ("isGreaterThan", [Val::Quantity(other)]) => Ok(Val::Bool(own > *other)),
        ("add", [other]) => {
            number(other).map_or_else(no_overload, |other| Ok(Val::Quantity(own.plus(other))))
        }
        ("sub", [other]) => {
            number(other).map_or_else(no_overload, |other| Ok(Val::Quantity(own.minus(other))))
        }
        _ => return None,
    })
}

fn order(order: Ordering) -> i64 {
    match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}
