//! Functions that make lists from lists: `slice`, `flatten`, `sort`, `reverse`, `distinct`, and `lists.range`.

use super::{
    context::Context,
    items::{are_equal, items},
};
use crate::cel::{
    error::{EvalError, Evaluated},
    parse::SORT_BY,
    value::{List, Val},
};

/// Calls a function that makes a list.
pub(super) fn call<'a>(
    name: &str,
    args: &[Val<'a>],
    context: &mut Context<'_>,
) -> Option<Evaluated<'a>> {
    let made = match (name, args) {
        ("slice", [Val::List(list), Val::Int(start), Val::Int(end)]) => {
            slice(list, *start, *end, context)
        }
        ("flatten", [Val::List(list)]) => flatten(list, 1, context),
        ("flatten", [Val::List(list), Val::Int(depth)]) => match usize::try_from(*depth) {
            Ok(depth) => flatten(list, depth, context),
            Err(_) => EvalError::fail("level must be non-negative"),
        },
        ("sort", [Val::List(list)]) => sort(list, list, context),
        (SORT_BY, [Val::List(list), Val::List(keys)]) => sort(list, keys, context),
        ("reverse", [Val::List(list)]) => {
            items(list, context).map(|items| items.into_iter().rev().collect())
        }
        ("distinct", [Val::List(list)]) => distinct(list, context),
        ("lists.range", [Val::Int(count)]) => {
            let count = (*count).max(0);
            context
                .budget
                .spend(count.unsigned_abs())
                .map(|()| (0..count).map(Val::Int).collect())
        }
        _ => return None,
    };
    Some(made.map(Val::list))
}

fn slice<'a>(
    list: &List<'a>,
    start: i64,
    end: i64,
    context: &mut Context<'_>,
) -> Result<Vec<Val<'a>>, EvalError> {
    let failed = |why: &str| EvalError::fail(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return failed("negative indexes not supported");
    };
    if from > to {
        return failed("start index must be less than or equal to end index");
    }
    if to > list.len() {
        return failed(&format!("list is length {}", list.len()));
    }
    context.budget.spend((to - from) as u64)?;
    Ok((from..to).filter_map(|index| list.get(index)).collect())
}

/// The items of the list and of lists in it, down to a depth.
fn flatten<'a>(
    list: &List<'a>,
    depth: usize,
    context: &mut Context<'_>,
) -> Result<Vec<Val<'a>>, EvalError> {
    let mut made = Vec::new();
    for item in list.iter() {
        context.budget.spend(1)?;
        match item {
            Val::List(inner) if depth > 0 => made.extend(flatten(&inner, depth - 1, context)?),
            item => made.push(item),
        }
    }
    Ok(made)
}

fn sort<'a>(
    list: &List<'a>,
    keys: &List<'a>,
    context: &mut Context<'_>,
) -> Result<Vec<Val<'a>>, EvalError> {
    if list.len() != keys.len() {
        let why =
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list";
        return EvalError::fail(format!(
            "{why}, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        ));
    }
    pay_for_pairs(keys, context)?;
    let mut pairs: Vec<_> = items(keys, context)?
        .into_iter()
        .zip(items(list, context)?)
        .collect();
    let Some((first, _)) = pairs.first() else {
        return Ok(Vec::new());
    };
    if first.compare(first).is_none() {
        return EvalError::fail("list elements must be comparable");
    }
    if pairs
        .iter()
        .any(|(key, _)| key.type_name() != first.type_name())
    {
        return EvalError::fail("list elements must have the same type");
    }
    pairs.sort_by(|(one, _), (two, _)| one.compare(two).unwrap_or(std::cmp::Ordering::Equal));
    Ok(pairs.into_iter().map(|(_, item)| item).collect())
}

fn distinct<'a>(list: &List<'a>, context: &mut Context<'_>) -> Result<Vec<Val<'a>>, EvalError> {
    pay_for_pairs(list, context)?;
    let mut made: Vec<Val<'a>> = Vec::new();
    for item in items(list, context)? {
        let mut is_known = false;
        for known in &made {
            if are_equal(known, &item, context)? {
                is_known = true;
                break;
            }
        }
        if !is_known {
            made.push(item);
        }
    }
    Ok(made)
}

/// Pays for comparing each item with each other one, as cel-go counts it.
fn pay_for_pairs(list: &List<'_>, context: &mut Context<'_>) -> Result<(), EvalError> {
    let count = list.len() as u64;
    context
        .budget
        .spend(count.saturating_mul(count).saturating_mul(2))
}
