//! The macros that kube-apiserver has: those of the language, comprehensions with two variables, and `sortBy`.

use cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, Expr, ListExpr, LiteralValue, MapExpr, operators},
    parser::{Macro, MacroExprHelper, ParseError},
};

/// The internal function that inserts an entry into a map; only macros emit it.
pub(super) const INSERT: &str = "@insert";

/// The internal function that inserts the entry of a one-entry map; only macros emit it.
pub(super) const INSERT_ALL: &str = "@insert_all";

/// The internal function that sorts a list by the values of another one; only macros emit it.
pub(super) const SORT_BY: &str = "@sortByAssociatedKeys";

/// The accumulator variable of a comprehension.
const RESULT: &str = "@result";

/// What a macro expands to; `None` leaves the call as it is.
type Expansion = Result<Option<IdedExpr>, ParseError>;

/// Returns all macros. `existsOne` is there with two variables only, `exists_one` with one as well.
pub(super) fn all() -> Vec<Macro> {
    let mut macros = vec![
        Macro::global(operators::HAS, 1, has),
        Macro::receiver(operators::EXISTS_ONE, 2, |helper, target, args| {
            exists_one(helper, target, args, 1)
        }),
        Macro::receiver(operators::EXISTS_ONE, 3, |helper, target, args| {
            exists_one(helper, target, args, 2)
        }),
        Macro::receiver("existsOne", 3, |helper, target, args| {
            exists_one(helper, target, args, 2)
        }),
        Macro::receiver("map", 2, |helper, target, args| {
            list_of(helper, target, args, 1)
        }),
        Macro::receiver("map", 3, |helper, target, args| {
            list_of(helper, target, args, 1)
        }),
        Macro::receiver("filter", 2, |helper, target, args| {
            let item = args.first().cloned();
            args.extend(item);
            list_of(helper, target, args, 1)
        }),
        Macro::receiver("transformList", 3, |helper, target, args| {
            list_of(helper, target, args, 2)
        }),
        Macro::receiver("transformList", 4, |helper, target, args| {
            list_of(helper, target, args, 2)
        }),
        transform_map("transformMap", 3),
        transform_map("transformMap", 4),
        transform_map("transformMapEntry", 3),
        transform_map("transformMapEntry", 4),
        Macro::receiver("sortBy", 2, sort_by),
    ];
    for variables in [1, 2] {
        macros.push(Macro::receiver(
            operators::ALL,
            variables + 1,
            move |helper, target, args| quantified(helper, target, args, (variables, true)),
        ));
        macros.push(Macro::receiver(
            operators::EXISTS,
            variables + 1,
            move |helper, target, args| quantified(helper, target, args, (variables, false)),
        ));
    }
    macros
}

fn has(
    helper: &mut MacroExprHelper<'_>,
    _: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> Expansion {
    let Some(field) = args.pop() else {
        return Ok(None);
    };
    match field.expr {
        Expr::Select(mut select) => {
            select.test = true;
            Ok(Some(helper.next_expr(Expr::Select(select))))
        }
        _ => Err(helper.new_error(field.id, "invalid argument to has() macro")),
    }
}

/// `all` and `exists`: whether each or any item fits.
fn quantified(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
    (variables, is_all): (usize, bool),
) -> Expansion {
    let start = boolean(helper, is_all);
    let operator = if is_all {
        operators::LOGICAL_AND
    } else {
        operators::LOGICAL_OR
    };
    let folded = fold(
        helper,
        target,
        args,
        (variables, start),
        |helper, accumulated, parts| {
            call(
                helper,
                operator,
                std::iter::once(accumulated).chain(parts).collect(),
            )
        },
    )?;
    let mut undecided = result(helper);
    if !is_all {
        undecided = call(helper, operators::LOGICAL_NOT, vec![undecided]);
    }
    let goes_on = call(helper, operators::NOT_STRICTLY_FALSE, vec![undecided]);
    Ok(changed(folded, |comprehension| {
        comprehension.loop_cond = goes_on
    }))
}

fn exists_one(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
    variables: usize,
) -> Expansion {
    let start = number(helper, 0);
    let folded = fold(
        helper,
        target,
        args,
        (variables, start),
        |helper, accumulated, parts| {
            let one = number(helper, 1);
            let more = call(helper, operators::ADD, vec![accumulated.clone(), one]);
            call(
                helper,
                operators::CONDITIONAL,
                parts.into_iter().chain([more, accumulated]).collect(),
            )
        },
    )?;
    let (count, one) = (result(helper), number(helper, 1));
    let is_one = call(helper, operators::EQUALS, vec![count, one]);
    Ok(changed(folded, |comprehension| {
        comprehension.result = is_one
    }))
}

/// `map` and `transformList`: after the variables a filter, which may be left out, and the new item.
fn list_of(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
    variables: usize,
) -> Expansion {
    let start = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
    fold(
        helper,
        target,
        args,
        (variables, start),
        |helper, accumulated, mut parts| {
            let item =
                helper.next_expr(Expr::List(ListExpr::new(parts.pop().into_iter().collect())));
            let added = call(helper, operators::ADD, vec![accumulated.clone(), item]);
            filtered(helper, parts.pop(), added, accumulated)
        },
    )
}

fn transform_map(name: &'static str, arguments: usize) -> Macro {
    Macro::receiver(name, arguments, move |helper, target, args| {
        let key = args.first().cloned().filter(|_| name == "transformMap");
        let start = helper.next_expr(Expr::Map(MapExpr::default()));
        fold(
            helper,
            target,
            args,
            (2, start),
            move |helper, accumulated, mut parts| {
                let value = parts.pop();
                let name = if key.is_some() { INSERT } else { INSERT_ALL };
                let added = std::iter::once(accumulated.clone())
                    .chain(key)
                    .chain(value)
                    .collect();
                let added = call(helper, name, added);
                filtered(helper, parts.pop(), added, accumulated)
            },
        )
    })
}

/// A step that does nothing where the filter is false.
fn filtered(
    helper: &mut MacroExprHelper<'_>,
    filter: Option<IdedExpr>,
    step: IdedExpr,
    accumulated: IdedExpr,
) -> IdedExpr {
    match filter {
        Some(filter) => call(
            helper,
            operators::CONDITIONAL,
            vec![filter, step, accumulated],
        ),
        None => step,
    }
}

/// `list.sortBy(item, key)`: the list is bound to a variable, and sorted by the list of its keys.
fn sort_by(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> Expansion {
    const INPUT: &str = "@__sortBy_input__";
    let (Some(key), Some(name), Some(list)) = (args.pop(), args.pop(), target.take()) else {
        return Ok(None);
    };
    let is_list = matches!(
        list.expr,
        Expr::List(_) | Expr::Select(_) | Expr::Ident(_) | Expr::Comprehension(_) | Expr::Call(_)
    );
    if !is_list {
        let why = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(helper.new_error(list.id, why));
    }
    let iter_var = variable(helper, name)?;
    let input = |helper: &mut MacroExprHelper<'_>| helper.next_expr(Expr::Ident(INPUT.into()));
    let item = helper.next_expr(Expr::List(ListExpr::new(vec![key])));
    let accumulated = result(helper);
    let keys = ComprehensionExpr {
        iter_range: input(helper),
        iter_var,
        iter_var2: None,
        accu_var: RESULT.into(),
        accu_init: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        loop_cond: boolean(helper, true),
        loop_step: call(helper, operators::ADD, vec![accumulated, item]),
        result: result(helper),
    };
    let keys = helper.next_expr(Expr::Comprehension(Box::new(keys)));
    let target = Some(Box::new(input(helper)));
    let sorted = helper.next_expr(Expr::Call(CallExpr {
        func_name: SORT_BY.into(),
        target,
        args: vec![keys],
    }));
    let bound = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "#unused".into(),
        iter_var2: None,
        accu_var: INPUT.into(),
        accu_init: list,
        loop_cond: boolean(helper, false),
        loop_step: input(helper),
        result: sorted,
    };
    Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(bound)))))
}

/// `range.name(first, second, parts…)` as a comprehension that begins with `start` and goes on by `step`.
fn fold(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
    (variables, accu_init): (usize, IdedExpr),
    step: impl FnOnce(&mut MacroExprHelper<'_>, IdedExpr, Vec<IdedExpr>) -> IdedExpr,
) -> Expansion {
    let mut names = std::mem::take(args);
    let parts = names.split_off(variables.min(names.len()));
    let mut names = names.into_iter();
    let (Some(iter_range), Some(first)) = (target.take(), names.next()) else {
        return Err(helper.new_error(0, "a macro without target"));
    };
    let iter_var = variable(helper, first)?;
    let iter_var2 = names.next().map(|second| {
        let at = second.id;
        let second = variable(helper, second)?;
        if second == iter_var {
            return Err(helper.new_error(at, format!("duplicate variable name: {second}")));
        }
        Ok(second)
    });
    let iter_var2 = iter_var2.transpose()?;
    let accumulated = result(helper);
    let loop_step = step(helper, accumulated, parts);
    let (loop_cond, result) = (boolean(helper, true), result(helper));
    let folded = ComprehensionExpr {
        iter_range,
        iter_var,
        iter_var2,
        accu_var: RESULT.into(),
        accu_init,
        loop_cond,
        loop_step,
        result,
    };
    Ok(Some(
        helper.next_expr(Expr::Comprehension(Box::new(folded))),
    ))
}

fn changed(
    folded: Option<IdedExpr>,
    change: impl FnOnce(&mut ComprehensionExpr),
) -> Option<IdedExpr> {
    folded.map(|mut folded| {
        if let Expr::Comprehension(comprehension) = &mut folded.expr {
            change(comprehension);
        }
        folded
    })
}

fn variable(helper: &MacroExprHelper<'_>, expr: IdedExpr) -> Result<String, ParseError> {
    match expr.expr {
        Expr::Ident(name) if matches!(name.as_str(), RESULT | "__result__") => Err(helper
            .new_error(
                expr.id,
                "iteration variable overwrites accumulator variable",
            )),
        Expr::Ident(name) => Ok(name),
        _ => Err(helper.new_error(expr.id, "argument must be a simple name")),
    }
}

fn result(helper: &mut MacroExprHelper<'_>) -> IdedExpr {
    helper.next_expr(Expr::Ident(RESULT.into()))
}

fn boolean(helper: &mut MacroExprHelper<'_>, value: bool) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Boolean(value.into())))
}

fn number(helper: &mut MacroExprHelper<'_>, value: i64) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Int(value.into())))
}

fn call(helper: &mut MacroExprHelper<'_>, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr {
        func_name: name.to_owned(),
        target: None,
        args,
    }))
}
