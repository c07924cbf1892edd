//! Functions of lists, maps and sets.

use std::cmp::Ordering;

use super::{
    context::{Context, no_overload},
    items::{are_equal, is_in, items},
    operators,
};
use crate::cel::{
    error::{EvalError, Evaluated},
    value::{List, Val},
};

/// Calls a function of lists.
pub(super) fn call<'a>(
    name: &str,
    args: &[Val<'a>],
    context: &mut Context<'_>,
) -> Option<Evaluated<'a>> {
    Some(match (name, args) {
        ("size", [Val::List(list)]) => Ok(Val::size(list.len())),
        ("size", [Val::Map(map)]) => Ok(Val::size(map.len())),
        ("isSorted", [Val::List(list)]) => is_sorted(list, context),
        ("sum", [Val::List(list)]) => sum(list, context),
        ("min", [Val::List(list)]) => extreme(list, Ordering::Less, name, context),
        ("max", [Val::List(list)]) => extreme(list, Ordering::Greater, name, context),
        ("indexOf", [Val::List(list), wanted]) => index(list, wanted, false, context),
        ("lastIndexOf", [Val::List(list), wanted]) => index(list, wanted, true, context),
        ("sets.contains", [Val::List(all), Val::List(some)]) => {
            contains(all, some, context).map(Val::Bool)
        }
        ("sets.equivalent", [Val::List(one), Val::List(two)]) => {
            let both = contains(one, two, context)
                .and_then(|contains_one| Ok(contains_one && contains(two, one, context)?));
            both.map(Val::Bool)
        }
        ("sets.intersects", [Val::List(one), Val::List(two)]) => {
            intersects(one, two, context).map(Val::Bool)
        }
        _ => return None,
    })
}

fn is_sorted<'a>(list: &List<'a>, context: &mut Context<'_>) -> Evaluated<'a> {
    for pair in items(list, context)?.windows(2) {
        if let [one, two] = pair {
            match one.compare(two) {
                Some(Ordering::Greater) => return Ok(Val::Bool(false)),
                Some(_) => {}
                None => return no_overload(),
            }
        }
    }
    Ok(Val::Bool(true))
}

fn sum<'a>(list: &List<'a>, context: &mut Context<'_>) -> Evaluated<'a> {
    let mut items = items(list, context)?.into_iter();
    // of what an empty list is one of nobody knows
    let Some(first) = items.next() else {
        return Ok(Val::Int(0));
    };
    if !matches!(
        first,
        Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Duration(_)
    ) {
        return no_overload();
    }
    items.try_fold(first, |sum, item| {
        operators::call("_+_", &[sum, item], context).unwrap_or_else(no_overload)
    })
}

fn extreme<'a>(
    list: &List<'a>,
    wanted: Ordering,
    name: &str,
    context: &mut Context<'_>,
) -> Evaluated<'a> {
    let mut items = items(list, context)?.into_iter();
    let Some(mut best) = items.next() else {
        return EvalError::fail(format!("{name} called on empty list"));
    };
    for item in items {
        match item.compare(&best) {
            Some(order) if order == wanted => best = item,
            Some(_) => {}
            None => return no_overload(),
        }
    }
    Ok(best)
}

fn index<'a>(
    list: &List<'a>,
    wanted: &Val<'a>,
    last: bool,
    context: &mut Context<'_>,
) -> Evaluated<'a> {
    let mut forwards = 0..list.len();
    let mut next = || {
        if last {
            forwards.next_back()
        } else {
            forwards.next()
        }
    };
    while let Some((index, item)) = next().and_then(|index| Some((index, list.get(index)?))) {
        if are_equal(&item, wanted, context)? {
            return Ok(Val::size(index));
        }
    }
    Ok(Val::Int(-1))
}

/// Reports whether `all` contains each item of `some`.
fn contains<'a>(
    all: &List<'a>,
    some: &List<'a>,
    context: &mut Context<'_>,
) -> Result<bool, EvalError> {
    for wanted in some.iter() {
        if !is_in(all, &wanted, context)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(
    one: &List<'a>,
    two: &List<'a>,
    context: &mut Context<'_>,
) -> Result<bool, EvalError> {
    for wanted in one.iter() {
        if is_in(two, &wanted, context)? {
            return Ok(true);
        }
    }
    Ok(false)
}
