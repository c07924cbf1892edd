//! The type `quantity`: amounts of resources.

use super::context::{Context, no_overload};
use crate::cel::{
    error::{EvalError, Evaluated},
    value::{Val, order},
};
use kubeapi::object::quantity::Quantity;

/// Calls a function of quantities.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], _: &mut Context<'_>) -> Option<Evaluated<'a>> {
    let (own, rest) = match (name, args) {
        ("isQuantity", [Val::String(text)]) => {
            return Some(Ok(Val::Bool(Quantity::parse(text).is_some())));
        }
        ("quantity", [Val::String(text)]) => {
            let parsed = Quantity::parse(text).map(Val::Quantity);
            return Some(parsed.ok_or_else(|| EvalError::Failed(fault(text).to_owned())));
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
            None => EvalError::fail("cannot convert value to integer"),
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

/// Returns what is wrong with a text that is no quantity.
fn fault(text: &str) -> &'static str {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let suffix = unsigned.trim_start_matches(|char: char| char.is_ascii_digit() || char == '.');
    let number = unsigned.len() - suffix.len();
    let exponent = suffix.trim_start_matches(|char| "eEinumkKMGTP".contains(char));
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if number == 0 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    } else {
        "unable to parse quantity's suffix"
    }
}
