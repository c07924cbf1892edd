//! Access to the items of lists, paid for in advance.

use super::context::Context;
use crate::cel::{
    error::EvalError,
    value::{List, Val},
};

/// Pays for the items and returns them.
pub(super) fn items<'a>(
    list: &List<'a>,
    context: &mut Context<'_>,
) -> Result<Vec<Val<'a>>, EvalError> {
    context.budget.spend_on(&Val::List(list.clone()))?;
    Ok(list.iter().collect())
}

/// Reports whether the list contains a value.
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

/// Pays for a comparison and reports whether two values are equal.
pub(super) fn are_equal<'a>(
    one: &Val<'a>,
    two: &Val<'a>,
    context: &mut Context<'_>,
) -> Result<bool, EvalError> {
    context.budget.spend_on_comparison(one, two)?;
    Ok(one.equals(two))
}
