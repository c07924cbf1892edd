//! Parses expressions. The parser is that of the crate `cel`; macros that it lacks are defined here: comprehensions with two variables,
//! and `cel.bind`.

use std::sync::LazyLock;

use cel::{
    Env, IdedExpr,
    common::ast::{
        CallExpr, ComprehensionExpr, Expr, ListExpr, LiteralValue, MapExpr, SourceInfo, operators,
    },
    parser::{Macro, MacroExprHelper, ParseError},
};

/// The longest expression, in bytes.
pub(crate) const MAX_EXPRESSION_BYTES: usize = 16 * 1024;

/// The internal function that inserts an entry into a map; only macros emit it.
pub(super) const INSERT: &str = "@insert";

/// The internal function that inserts the entry of a one-entry map; only macros emit it.
pub(super) const INSERT_ALL: &str = "@insert_all";

/// The accumulator variable of a comprehension.
const RESULT: &str = "@result";

/// The most operators and brackets of an expression, which bounds its nesting and so the recursion over its tree.
const MAX_OPERATORS: usize = 600;

/// The most relational operator characters of an expression: a chain of them is a tree of that depth.
const MAX_RELATIONS: usize = 1200;

/// Checks that an expression is short and shallow enough to be parsed.
///
/// # Errors
/// Fails where it is not.
pub(super) fn admit(source: &str) -> Result<(), String> {
    if source.len() > MAX_EXPRESSION_BYTES {
        return Err(format!("the expression is longer than {MAX_EXPRESSION_BYTES} bytes"));
    }
    let count = |of: &[u8]| source.bytes().filter(|byte| of.contains(byte)).count();
    let relations = count(b"=<>") + source.matches("in").count();
    if count(b"+-*/%!?([{.") > MAX_OPERATORS || relations > MAX_RELATIONS {
        return Err("the expression has too many operators or brackets".to_owned());
    }
    Ok(())
}

/// A tree, and where its parts are written, of an expression that was [admitted](admit).
pub(super) fn parse(source: &str) -> Result<(IdedExpr, SourceInfo), String> {
    ENV.parser()
        .parse_with_source_info(source)
        .map_err(|errors| errors.errors.iter().map(|error| error.to_string()).collect::<Vec<_>>().join("\n"))
}

static ENV: LazyLock<Env> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    let macros = [
        Macro::receiver("all", 3, |helper, target, args| {
            let start = boolean(helper, true);
            fold(helper, target, args, start, |helper, accumulated, [predicate]| {
                call(helper, operators::LOGICAL_AND, vec![accumulated, predicate])
            })
        }),
        Macro::receiver("exists", 3, |helper, target, args| {
            let start = boolean(helper, false);
            fold(helper, target, args, start, |helper, accumulated, [predicate]| {
                call(helper, operators::LOGICAL_OR, vec![accumulated, predicate])
            })
        }),
        exists_one("existsOne"),
        exists_one("exists_one"),
        Macro::receiver("transformList", 3, |helper, target, args| {
            let start = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
            fold(helper, target, args, start, |helper, accumulated, [value]| {
                let item = helper.next_expr(Expr::List(ListExpr::new(vec![value])));
                call(helper, operators::ADD, vec![accumulated, item])
            })
        }),
        Macro::receiver("transformList", 4, |helper, target, args| {
            let start = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
            fold(helper, target, args, start, |helper, accumulated, [filter, value]| {
                let item = helper.next_expr(Expr::List(ListExpr::new(vec![value])));
                let added = call(helper, operators::ADD, vec![accumulated.clone(), item]);
                call(helper, operators::CONDITIONAL, vec![filter, added, accumulated])
            })
        }),
        transform_map("transformMap", 3),
        transform_map("transformMap", 4),
        transform_map("transformMapEntry", 3),
        transform_map("transformMapEntry", 4),
        Macro::receiver("bind", 3, |helper, target, args| {
            if !target.as_ref().is_some_and(|target| target.expr == Expr::Ident("cel".into())) {
                return Ok(None);
            }
            let (Some(result), Some(value), Some(name)) = (args.pop(), args.pop(), args.pop()) else {
                return Ok(None);
            };
            let accu_var = variable(helper, name)?;
            let iter_range = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
            let loop_cond = boolean(helper, false);
            let loop_step = helper.next_expr(Expr::Ident(accu_var.clone()));
            let bound = ComprehensionExpr {
                iter_range,
                iter_var: "#unused".into(),
                iter_var2: None,
                accu_var,
                accu_init: value,
                loop_cond,
                loop_step,
                result,
            };
            Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(bound)))))
        }),
    ];
    for one in macros {
        if let Err(error) = env.add_macro(one) {
            tracing::error!(%error, "a macro of CEL stands twice");
        }
    }
    env
});

fn exists_one(name: &str) -> Macro {
    Macro::receiver(name, 3, |helper, target, args| {
        let start = number(helper, 0);
        let folded = fold(helper, target, args, start, |helper, accumulated, [predicate]| {
            let one = number(helper, 1);
            let more = call(helper, operators::ADD, vec![accumulated.clone(), one]);
            call(helper, operators::CONDITIONAL, vec![predicate, more, accumulated])
        })?;
        let Some(mut folded) = folded else { return Ok(None) };
        if let Expr::Comprehension(comprehension) = &mut folded.expr {
            let (count, one) = (result(helper), number(helper, 1));
            comprehension.result = call(helper, operators::EQUALS, vec![count, one]);
        }
        Ok(Some(folded))
    })
}

fn transform_map(name: &'static str, arguments: usize) -> Macro {
    Macro::receiver(name, arguments, move |helper, target, args| {
        // without a filter, everything is taken
        if args.len() == 3 {
            let all = boolean(helper, true);
            args.insert(2, all);
        }
        let key = args.first().cloned();
        let start = helper.next_expr(Expr::Map(MapExpr::default()));
        fold(helper, target, args, start, move |helper, accumulated, [filter, value]| {
            let added = match key {
                Some(key) if name == "transformMap" => {
                    call(helper, INSERT, vec![accumulated.clone(), key, value])
                }
                _ => call(helper, INSERT_ALL, vec![accumulated.clone(), value]),
            };
            call(helper, operators::CONDITIONAL, vec![filter, added, accumulated])
        })
    })
}

/// `range.name(first, second, parts…)` as a comprehension that begins with `start` and goes on by `step`.
fn fold<const PARTS: usize>(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
    accu_init: IdedExpr,
    step: impl FnOnce(&mut MacroExprHelper<'_>, IdedExpr, [IdedExpr; PARTS]) -> IdedExpr,
) -> Result<Option<IdedExpr>, ParseError> {
    let mut args = std::mem::take(args);
    if args.len() != PARTS + 2 {
        return Err(helper.new_error(0, "invalid number of arguments to a macro"));
    }
    let parts = args.split_off(2);
    let (Some(second), Some(first), Some(iter_range)) = (args.pop(), args.pop(), target.take()) else {
        return Err(helper.new_error(0, "a macro without target"));
    };
    let (iter_var, second) = (variable(helper, first)?, variable(helper, second)?);
    let Ok(parts) = <[IdedExpr; PARTS]>::try_from(parts) else {
        return Err(helper.new_error(0, "invalid number of arguments to a macro"));
    };
    let accumulated = result(helper);
    let loop_step = step(helper, accumulated, parts);
    let (loop_cond, result) = (boolean(helper, true), result(helper));
    let folded = ComprehensionExpr {
        iter_range,
        iter_var,
        iter_var2: Some(second),
        accu_var: RESULT.into(),
        accu_init,
        loop_cond,
        loop_step,
        result,
    };
    Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(folded)))))
}

fn variable(helper: &MacroExprHelper<'_>, expr: IdedExpr) -> Result<String, ParseError> {
    match expr.expr {
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
    helper.next_expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}
