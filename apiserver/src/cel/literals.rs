//! Checks of what can be known of an expression before it is evaluated: literals of several types, constants that cannot be converted,
//! patterns, and texts that are formatted. They run after the types are known.

use std::collections::HashMap;

use super::{
    budget::{Budget, MAX_OBJECT_COST},
    check::{Checked, Fault},
    decl::Decl,
    error::EvalError,
    library::{self, context::Context, format},
    parse::{CallExpr, Expr, ExprKind, Literal},
    regexes::{self, Patterns},
    value::Val,
};

/// Functions that convert values, which are evaluated when an expression is stored if their argument is constant.
const CONVERSIONS: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "string",
    "timestamp",
    "type",
    "uint",
];

/// What is wrong with the literals of an expression.
#[derive(Default)]
pub(super) struct LiteralFaults {
    /// Faults with their places.
    pub(super) faults: Vec<Fault>,
    /// What makes it impossible to plan the evaluation.
    pub(super) plan: Option<String>,
}

/// Checks the literals of an expression.
pub(super) fn check(expr: &Expr, checked: &Checked) -> LiteralFaults {
    let mut walk = Walk {
        decls: &checked.decls,
        found: LiteralFaults::default(),
    };
    walk.expr(expr, false);
    walk.found
}

struct Walk<'a> {
    decls: &'a HashMap<u32, Decl>,
    found: LiteralFaults,
}

impl<'a> Walk<'a> {
    /// Checks an expression and what is in it. `is_formatted`: lists and maps in it may have items of several types.
    fn expr(&mut self, expr: &'a Expr, is_formatted: bool) -> Option<Val<'a>> {
        match &expr.kind {
            ExprKind::Literal(literal) => return Some(Val::of_literal(literal)),
            ExprKind::Select(select) => drop(self.expr(&select.operand, is_formatted)),
            ExprKind::List(list) => {
                if !is_formatted {
                    let optional = |index: &usize| list.optional_indices.contains(index);
                    let items = list.elements.iter().enumerate();
                    self.same_types(items.map(|(index, item)| (item.id, optional(&index))), true);
                }
                list.elements
                    .iter()
                    .for_each(|item| drop(self.expr(item, is_formatted)));
            }
            ExprKind::Map(map) => {
                let entries = || map.entries.iter();
                if !is_formatted {
                    self.same_types(entries().map(|entry| (entry.key.id, false)), false);
                    self.same_types(
                        entries().map(|entry| (entry.value.id, entry.optional)),
                        false,
                    );
                }
                for entry in entries() {
                    self.expr(&entry.key, is_formatted);
                    self.expr(&entry.value, is_formatted);
                }
            }
            ExprKind::Call(call) => return self.call(expr, call, is_formatted),
            ExprKind::Comprehension(comprehension) => {
                let parts = [
                    &comprehension.iter_range,
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ];
                parts
                    .into_iter()
                    .for_each(|part| drop(self.expr(part, is_formatted)));
            }
            ExprKind::Struct(message) => message
                .fields
                .iter()
                .for_each(|field| drop(self.expr(&field.value, is_formatted))),
            ExprKind::Ident(_) => {}
        }
        None
    }

    fn call(&mut self, expr: &'a Expr, call: &'a CallExpr, is_formatted: bool) -> Option<Val<'a>> {
        let is_formatted = is_formatted || call.func_name == "format";
        if let Some(target) = &call.target {
            self.expr(target, is_formatted);
        }
        let values: Vec<_> = call
            .args
            .iter()
            .map(|arg| self.expr(arg, is_formatted))
            .collect();
        let name = call.func_name.as_str();
        if let (
            Some(Expr {
                id,
                kind: ExprKind::Literal(literal),
            }),
            "matches" | "duration" | "timestamp",
        ) = (call.args.first(), name)
            && self.is_invalid(name, literal)
        {
            self.found
                .faults
                .push((*id, format!("invalid {name} argument")));
        }
        if name == "format" {
            self.check_format(expr.id, call);
        }
        if matches!(name, "matches" | "find" | "findAll") {
            let position = usize::from(call.target.is_none());
            if let Some(Literal::String(pattern)) = call.args.get(position).and_then(literal)
                && let Err(why) = regexes::compile(pattern)
            {
                self.found.plan.get_or_insert(why);
            }
        }
        match (
            call.target.is_none() && CONVERSIONS.contains(&name),
            values.into_iter().next().flatten(),
        ) {
            (true, Some(value)) if call.args.len() == 1 => self.check_conversion(name, value),
            _ => None,
        }
    }

    fn is_invalid(&self, name: &str, literal: &'a Literal) -> bool {
        match literal {
            Literal::String(pattern) if name == "matches" => regexes::compile(pattern).is_err(),
            literal if name != "matches" => convert(name, Val::of_literal(literal)).is_err(),
            _ => false,
        }
    }

    fn check_conversion(&mut self, name: &str, value: Val<'a>) -> Option<Val<'a>> {
        match convert(name, value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.found.plan.get_or_insert(error.to_string());
                None
            }
        }
    }

    /// Checks that parts of a literal have one type; `is_once`: only the first that differs is a fault.
    fn same_types(&mut self, parts: impl Iterator<Item = (u32, bool)>, is_once: bool) {
        let mut first: Option<Decl> = None;
        for (id, is_optional) in parts {
            let decl = match self.decls.get(&id) {
                Some(Decl::Optional(inner)) if is_optional => (**inner).clone(),
                Some(decl) => decl.clone(),
                None => continue,
            };
            let Some(expected) = &first else {
                first = Some(decl);
                continue;
            };
            if !expected.is_same(&decl) {
                self.found
                    .faults
                    .push((id, format!("expected type '{expected}' but found '{decl}'")));
                if is_once {
                    return;
                }
            }
        }
    }

    /// Checks the clauses of a constant text that is formatted with a list of arguments.
    fn check_format(&mut self, id: u32, call: &'a CallExpr) {
        let Some(Literal::String(template)) = call.target.as_deref().and_then(literal) else {
            return;
        };
        let [
            Expr {
                kind: ExprKind::List(list),
                ..
            },
        ] = call.args.as_slice()
        else {
            return;
        };
        let mut requested = 0;
        let mut place = id;
        let written = format::walk(template, list.elements.len(), |index, clause, _| {
            requested += 1;
            let Some(arg) = list.elements.get(index) else {
                return Ok(String::new());
            };
            match self.unfit(clause, arg) {
                None => Ok(String::new()),
                Some((id, why)) => {
                    place = id;
                    Err(why)
                }
            }
        });
        match written {
            Err(why) => self.found.faults.push((place, why)),
            Ok(_) if list.elements.len() > requested => {
                let count = list.elements.len();
                let why = format!(
                    "too many arguments supplied to string.format (expected {requested}, got {count})"
                );
                self.found.faults.push((id, why));
            }
            Ok(_) => {}
        }
    }

    /// Returns the part of an argument whose type a clause does not take, and why.
    fn unfit(&self, clause: char, arg: &Expr) -> Option<Fault> {
        let decl = self.decls.get(&arg.id)?;
        if !decl.is_dyn() && !format::takes(clause, decl) {
            return Some((arg.id, format::refusal(clause, decl.runtime_name())));
        }
        match &arg.kind {
            ExprKind::List(list) if clause == 's' => {
                list.elements.iter().find_map(|item| self.unfit('s', item))
            }
            ExprKind::Map(map) if clause == 's' => map.entries.iter().find_map(|entry| {
                self.unfit('s', &entry.key)
                    .or_else(|| self.unfit('s', &entry.value))
            }),
            _ => None,
        }
    }
}

fn literal(expr: &Expr) -> Option<&Literal> {
    if let ExprKind::Literal(literal) = &expr.kind {
        Some(literal)
    } else {
        None
    }
}

fn convert<'a>(name: &str, value: Val<'a>) -> Result<Val<'a>, EvalError> {
    let (mut budget, mut patterns) = (Budget::new(MAX_OBJECT_COST), Patterns::default());
    library::call(
        name,
        &[value],
        &mut Context {
            budget: &mut budget,
            patterns: &mut patterns,
        },
    )
}
