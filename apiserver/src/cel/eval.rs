//! Evaluates a checked expression; every step costs a part of the budget.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use super::{
    budget::Budget,
    check::{VARIABLES, qualified_name, type_named},
    error::{EvalError, Evaluated},
    library::{self, context::Context},
    parse::{
        CallExpr, ComprehensionExpr, Expr, ExprKind, INSERT, INSERT_ALL, Literal, MapEntry,
        SelectExpr, StructExpr, operators,
    },
    program::Program,
    regexes::Patterns,
    value::{List, Map, MapKey, Text, Val},
    with_depth,
};

/// The values of the variables.
#[derive(Debug, Default)]
pub(crate) struct Activation<'a> {
    variables: Vec<(&'a str, Val<'a>)>,
    /// The expressions of `variables`, evaluated on first use.
    composed: BTreeMap<&'a str, &'a Program>,
    known: RefCell<BTreeMap<&'a str, Evaluated<'a>>>,
}

impl<'a> Activation<'a> {
    pub(crate) fn set(&mut self, name: &'a str, value: Val<'a>) {
        self.variables.push((name, value));
    }

    /// Sets the expression of `variables.<name>`.
    pub(crate) fn compose(&mut self, name: &'a str, program: &'a Program) {
        self.composed.insert(name, program);
    }

    fn get(&self, name: &str) -> Option<&Val<'a>> {
        self.variables
            .iter()
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    }
}

impl Program {
    /// Evaluates the program.
    ///
    /// # Errors
    /// Returns cel-go's message for a failure, or that the budget is spent.
    pub(crate) fn evaluate<'a>(
        &'a self,
        activation: &Activation<'a>,
        budget: &mut Budget,
    ) -> Result<Val<'a>, EvalError> {
        budget.begin();
        evaluate(self, activation, budget)
    }
}

fn evaluate<'a>(
    program: &'a Program,
    activation: &Activation<'a>,
    budget: &mut Budget,
) -> Evaluated<'a> {
    let mut evaluator = Evaluator {
        activation,
        budget,
        patterns: Patterns::default(),
        scopes: Vec::new(),
    };
    evaluator.expr(&program.expr)
}

struct Evaluator<'a, 'b> {
    activation: &'b Activation<'a>,
    budget: &'b mut Budget,
    patterns: Patterns,
    /// The variables of comprehensions, the innermost last. That which accumulates may hold an error for a while.
    scopes: Vec<(&'a str, Evaluated<'a>)>,
}

impl<'a> Evaluator<'a, '_> {
    fn expr(&mut self, expr: &'a Expr) -> Evaluated<'a> {
        self.budget.spend(1)?;
        self.budget.descend()?;
        let value = self.value(expr);
        self.budget.ascend();
        let value = value?;
        if let ExprKind::Select(_) | ExprKind::Call(_) = &expr.kind {
            self.charge_decoding(&value)?;
        }
        if value.depth() > with_depth::MAX_DEPTH {
            return EvalError::fail("the value nests too deeply");
        }
        Ok(value)
    }

    /// Pays for bytes, which are decoded at each access.
    fn charge_decoding(&mut self, value: &Val<'a>) -> Result<(), EvalError> {
        match value {
            Val::Bytes(bytes) => self.budget.spend_bytes(bytes.len()),
            Val::Optional(Some(inner)) => match inner.part() {
                Val::Bytes(bytes) => self.budget.spend_bytes(bytes.len()),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn value(&mut self, expr: &'a Expr) -> Evaluated<'a> {
        match &expr.kind {
            ExprKind::Ident(name) => self.ident(name),
            ExprKind::Literal(literal) => Ok(Val::of_literal(literal)),
            ExprKind::Select(select) => self.select(expr, select),
            ExprKind::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (index, element) in list.elements.iter().enumerate() {
                    let value = self.expr(element)?;
                    match value {
                        Val::Optional(inner) if list.optional_indices.contains(&index) => {
                            items.extend(inner.map(|inner| inner.part().clone()));
                        }
                        value => items.push(value),
                    }
                }
                Ok(Val::list(items))
            }
            ExprKind::Map(map) => self.map(&map.entries),
            ExprKind::Call(call) => self.call(call),
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension),
            ExprKind::Struct(message) => self.message(message),
        }
    }

    fn scoped_variable(&self, name: &str) -> Option<&Evaluated<'a>> {
        self.scopes
            .iter()
            .rev()
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    }

    fn ident(&self, name: &str) -> Evaluated<'a> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(value) = self.scoped_variable(name) {
            return value.clone();
        }
        if let Some(value) = self.activation.get(name) {
            return Ok(value.clone());
        }
        match type_named(name) {
            Some(name) => Ok(Val::Type(name)),
            None => EvalError::fail(format!("no such attribute(s): {name}")),
        }
    }

    fn select(&mut self, expr: &'a Expr, select: &'a SelectExpr) -> Evaluated<'a> {
        if let ExprKind::Ident(root) = &select.operand.kind
            && self.scoped_variable(root).is_none()
        {
            if root == VARIABLES
                && let Some(value) = self.variable(&select.field)
            {
                return if select.test {
                    Ok(Val::Bool(true))
                } else {
                    value
                };
            }
            if root == "authorizer"
                && let Some(value) =
                    qualified_name(&expr.kind).and_then(|name| self.activation.get(&name).cloned())
            {
                return Ok(value);
            }
        }
        if matches!(
            select.field.as_str(),
            "Timestamp" | "Duration" | "IP" | "CIDR"
        ) && let Some(name) = qualified_name(&expr.kind).as_deref().and_then(type_named)
        {
            return Ok(Val::Type(name));
        }
        let operand = self.expr(&select.operand)?;
        if select.test {
            return Ok(Val::Bool(match &operand {
                Val::Map(map) => map.has(&select.field),
                Val::Optional(Some(inner)) => {
                    matches!(inner.part(), Val::Map(map) if map.has(&select.field))
                }
                Val::Optional(None) => false,
                _ => return EvalError::fail("no such overload"),
            }));
        }
        match &operand {
            Val::Map(map) => map.field(&select.field).map_or_else(
                || EvalError::fail(format!("no such key: {}", select.field)),
                Ok,
            ),
            Val::Optional(_) => Ok(optional_field(&operand, &select.field)),
            _ => EvalError::fail("no such overload"),
        }
    }

    /// Returns the value of `variables.<name>`; `None` where there is no such variable.
    fn variable(&mut self, name: &str) -> Option<Evaluated<'a>> {
        let (name, program) = self.activation.composed.get_key_value(name)?;
        if let Some(known) = self.activation.known.borrow().get(name) {
            return Some(known.clone());
        }
        // what is within it is as deep as it is itself
        let value = evaluate(program, self.activation, self.budget).map_err(|error| match error {
            EvalError::Failed(why) => EvalError::Failed(format!(
                "composited variable {name:?} fails to evaluate: {why}"
            )),
            error => error,
        });
        // another expression may have more to spend
        if !value.as_ref().is_err_and(EvalError::is_final) {
            self.activation
                .known
                .borrow_mut()
                .insert(name, value.clone());
        }
        Some(value)
    }

    fn map(&mut self, entries: &'a [MapEntry]) -> Evaluated<'a> {
        let mut map = BTreeMap::new();
        for entry in entries {
            let (key, mut value) = (self.expr(&entry.key)?, self.expr(&entry.value)?);
            if entry.optional
                && let Val::Optional(inner) = value
            {
                let Some(inner) = inner else { continue };
                value = inner.part().clone();
            }
            let Some(key) = MapKey::of(&key) else {
                return EvalError::fail("unsupported key type");
            };
            // the last one of equal keys counts, as in kube-apiserver
            map.insert(key, value);
        }
        Ok(Val::map(map))
    }

    fn message(&mut self, message: &'a StructExpr) -> Evaluated<'a> {
        let mut map = BTreeMap::new();
        for field in &message.fields {
            let mut value = self.expr(&field.value)?;
            if field.optional
                && let Val::Optional(inner) = value
            {
                let Some(inner) = inner else { continue };
                value = inner.part().clone();
            }
            map.insert(MapKey::String(Text::Read(&field.name)), value);
        }
        Ok(Val::map(map))
    }

    fn call(&mut self, call: &'a CallExpr) -> Evaluated<'a> {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => {
                return match self.expr(condition)? {
                    Val::Bool(true) => self.expr(yes),
                    Val::Bool(false) => self.expr(no),
                    _ => EvalError::fail("no such overload"),
                };
            }
            (operators::LOGICAL_AND, args) => return self.logical(args, false),
            (operators::LOGICAL_OR, args) => return self.logical(args, true),
            (operators::NOT_STRICTLY_FALSE, [arg]) => {
                return match self.expr(arg) {
                    Err(error) if error.is_final() => Err(error),
                    value => Ok(Val::Bool(!matches!(value, Ok(Val::Bool(false))))),
                };
            }
            (operators::OPT_SELECT, [operand, field]) => {
                let ExprKind::Literal(Literal::String(field)) = &field.kind else {
                    return EvalError::fail("no such overload");
                };
                let operand = self.expr(operand)?;
                return Ok(optional_field(&operand, field));
            }
            _ => {}
        }
        let namespace = match call.target.as_ref().map(|target| &target.kind) {
            Some(ExprKind::Ident(root)) if library::NAMESPACES.contains(&root.as_str()) => {
                (self.scoped_variable(root).is_none() && self.activation.get(root).is_none())
                    .then_some(root)
            }
            _ => None,
        };
        let mut args = Vec::with_capacity(call.args.len() + 1);
        if let Some(target) = call.target.as_ref().filter(|_| namespace.is_none()) {
            let target = self.expr(target)?;
            // the alternative of an optional value that has one is not evaluated
            match (call.func_name.as_str(), &target) {
                ("or", Val::Optional(Some(_))) => return Ok(target),
                ("orValue", Val::Optional(Some(value))) => return Ok(value.part().clone()),
                _ => args.push(target),
            }
        }
        for arg in &call.args {
            args.push(self.expr(arg)?);
        }
        let mut context = Context {
            budget: self.budget,
            patterns: &mut self.patterns,
        };
        match namespace {
            Some(namespace) => library::call(
                &format!("{namespace}.{}", call.func_name),
                &args,
                &mut context,
            ),
            None => library::call(&call.func_name, &args, &mut context),
        }
    }

    /// `&&` and `||`: one value decides (`decisive`), whatever the others are.
    fn logical(&mut self, args: &'a [Expr], decisive: bool) -> Evaluated<'a> {
        let mut failed = None;
        for arg in args {
            match self.expr(arg) {
                Ok(Val::Bool(value)) if value == decisive => return Ok(Val::Bool(decisive)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(EvalError::Failed("no such overload".to_owned()))),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Val::Bool(!decisive)), Err)
    }

    fn comprehension(&mut self, comprehension: &'a ComprehensionExpr) -> Evaluated<'a> {
        let range = self.expr(&comprehension.iter_range)?;
        let two = comprehension.iter_var2.is_some();
        let entries: Box<dyn Iterator<Item = (Val<'a>, Val<'a>)>> = match &range {
            Val::List(list) if two => Box::new(
                (0..list.len()).filter_map(|index| Some((Val::size(index), list.get(index)?))),
            ),
            Val::List(list) => Box::new(list.iter().map(|item| (item, Val::Null))),
            Val::Map(map) => {
                self.budget.spend(map.len() as u64)?;
                Box::new(map.entries().into_iter())
            }
            _ => return EvalError::fail("no such overload"),
        };
        let start = self.expr(&comprehension.accu_init)?;
        let slot = self.scopes.len();
        self.scopes.push((&comprehension.accu_var, Ok(start)));
        let result = self.fold(comprehension, slot, entries);
        let result = result.and_then(|()| self.expr(&comprehension.result));
        self.scopes.truncate(slot);
        result
    }

    fn fold(
        &mut self,
        comprehension: &'a ComprehensionExpr,
        slot: usize,
        entries: impl Iterator<Item = (Val<'a>, Val<'a>)>,
    ) -> Result<(), EvalError> {
        for (first, second) in entries {
            self.budget.spend(1)?;
            self.charge_decoding(&first)?;
            self.charge_decoding(&second)?;
            self.scopes.push((&comprehension.iter_var, Ok(first)));
            if let Some(name) = &comprehension.iter_var2 {
                self.scopes.push((name, Ok(second)));
            }
            if let Val::Bool(false) = self.expr(&comprehension.loop_cond)? {
                self.scopes.truncate(slot + 1);
                return Ok(());
            }
            let step = self.step(&comprehension.loop_step, slot);
            self.scopes.truncate(slot + 1);
            let is_logical = matches!(&comprehension.loop_step.kind, ExprKind::Call(call)
                if matches!(call.func_name.as_str(), operators::LOGICAL_AND | operators::LOGICAL_OR));
            match step {
                // one that decides may still come
                Err(error) if error.is_final() || !is_logical => return Err(error),
                step => self.accumulate(slot, step),
            }
        }
        Ok(())
    }

    fn accumulate(&mut self, slot: usize, value: Evaluated<'a>) {
        if let Some((_, accumulated)) = self.scopes.get_mut(slot) {
            *accumulated = value;
        }
    }

    /// What has accumulated, taken out of its place so that it can be added to without being copied.
    fn take(&mut self, slot: usize) -> Evaluated<'a> {
        self.scopes
            .get_mut(slot)
            .map_or(Ok(Val::Null), |(_, value)| {
                std::mem::replace(value, Ok(Val::Null))
            })
    }

    /// The value of a step. The steps that macros write are known, and add to what is there.
    fn step(&mut self, expr: &'a Expr, slot: usize) -> Evaluated<'a> {
        let accumulator = self.scopes.get(slot).map_or("", |(name, _)| *name);
        let is_accumulator = |expr: &Expr| matches!(&expr.kind, ExprKind::Ident(name) if name.as_str() == accumulator);
        let call = match &expr.kind {
            ExprKind::Call(call) if call.target.is_none() => call,
            ExprKind::Ident(name) if name.as_str() == accumulator => return self.take(slot),
            _ => return self.expr(expr),
        };
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => match self.expr(condition)? {
                Val::Bool(true) => self.step(yes, slot),
                Val::Bool(false) => self.step(no, slot),
                _ => EvalError::fail("no such overload"),
            },
            (
                operators::ADD,
                [
                    accumulated,
                    Expr {
                        kind: ExprKind::List(list),
                        ..
                    },
                ],
            ) if is_accumulator(accumulated) && list.optional_indices.is_empty() => {
                let mut added = Vec::with_capacity(list.elements.len());
                for element in &list.elements {
                    added.push(self.expr(element)?);
                }
                let Val::List(List::Computed(mut items)) = self.take(slot)? else {
                    return EvalError::fail("no such overload");
                };
                let deepest = Val::deepest(&added);
                Arc::make_mut(&mut items).part_mut(deepest).extend(added);
                Ok(Val::List(List::Computed(items)))
            }
            (INSERT, [accumulated, key, value]) if is_accumulator(accumulated) => {
                let (key, value) = (self.expr(key)?, self.expr(value)?);
                self.insert(slot, vec![(key, value)])
            }
            (INSERT_ALL, [accumulated, entries]) if is_accumulator(accumulated) => {
                let Val::Map(map) = self.expr(entries)? else {
                    return EvalError::fail("no such overload");
                };
                self.budget.spend(map.len() as u64)?;
                self.insert(slot, map.entries())
            }
            _ => self.expr(expr),
        }
    }

    fn insert(&mut self, slot: usize, entries: Vec<(Val<'a>, Val<'a>)>) -> Evaluated<'a> {
        let Val::Map(Map::Computed(mut map)) = self.take(slot)? else {
            return EvalError::fail("no such overload");
        };
        for (key, value) in entries {
            let Some(key) = MapKey::of(&key) else {
                return EvalError::fail("unsupported key type");
            };
            let depth = value.depth();
            if Arc::make_mut(&mut map)
                .part_mut(depth)
                .insert(key, value)
                .is_some()
            {
                return EvalError::fail("insert failed: key already exists");
            }
        }
        Ok(Val::Map(Map::Computed(map)))
    }
}

/// The field, if it is there.
fn optional_field<'a>(operand: &Val<'a>, field: &str) -> Val<'a> {
    match operand {
        Val::Map(map) => Val::optional(map.field(field)),
        Val::Optional(Some(inner)) => optional_field(inner.part(), field),
        _ => Val::Optional(None),
    }
}
