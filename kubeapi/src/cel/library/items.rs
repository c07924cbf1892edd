//! Looking through lists, which is paid for before.

use super::context::Context;
use crate::cel::{
    error::EvalError,
    value::{List, Val},
};

/// The items, paid for.
pub(super) fn items<'a>(list: &List<'a>, context: &mut Context<'_>) -> Result<Vec<Val<'a>>, EvalError> {
    context.budget.spend_on(&Val::List(list.clone()))?;
    Ok(list.iter().collect())
}

/// Whether a value is in the list.
pub(super) fn is_in<'a>(
    list: &List<'a>,
    wanted: &Val<'a>,
    context: &mut Context<'_>,
) -> Result<bool, EvalError> {
    for item in list.iter() {
        if are_equal(&item, wanted, context)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether two values are equal, which is paid for before.
pub(super) fn are_equal<'a>(
    one: &Val<'a>,
    two: &Val<'a>,
    context: &mut Context<'_>,
) -> Result<bool, EvalError> {
    context.budget.spend_on_comparison(one, two)?;
    Ok(one.equals(two))
}
