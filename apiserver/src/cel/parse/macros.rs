//! The macros that kube-apiserver has: those of the language, comprehensions with two variables, and `sortBy`.

use super::{
    Fault, Places,
    ast::{CallExpr, ComprehensionExpr, Expr, ExprKind, ListExpr, Literal, MapExpr},
    operators,
};

/// The internal function that inserts an entry into a map; only macros emit it.
pub(crate) const INSERT: &str = "@insert";

/// The internal function that inserts the entry of a one-entry map; only macros emit it.
pub(crate) const INSERT_ALL: &str = "@insert_all";

/// The internal function that sorts a list by the values of another one; only macros emit it.
pub(crate) const SORT_BY: &str = "@sortByAssociatedKeys";

/// The accumulator variable of a comprehension.
const RESULT: &str = "@result";

/// The variable to which `sortBy` binds its list.
const SORTED: &str = "@__sortBy_input__";

/// The variable to which `optMap` and `optFlatMap` bind their target.
const TARGET: &str = "@target";

/// The result of a macro.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Effect {
    /// `true` if the field is set.
    Has,
    /// `true` if the condition holds for all items.
    All,
    /// `true` if the condition holds for at least one item.
    Exists,
    /// `true` if the condition holds for exactly one item.
    ExistsOne,
    /// The items for which the condition holds.
    Filter,
    /// A list of new items.
    List,
    /// A map with the same keys.
    Map,
    /// A map of new entries.
    MapEntry,
    /// An optional value computed from another one.
    OptMap,
    /// An optional value, computed as an optional from another one.
    OptFlatMap,
    /// The list in the order of keys.
    SortBy,
}

/// A macro: a function by its name and the number of its arguments, of which the first are variables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Macro {
    name: &'static str,
    args: usize,
    variables: usize,
    effect: Effect,
}

const fn define(name: &'static str, args: usize, variables: usize, effect: Effect) -> Macro {
    Macro {
        name,
        args,
        variables,
        effect,
    }
}

/// All macros. `existsOne` is there with two variables only, `exists_one` with one as well.
const MACROS: [Macro; 20] = [
    define("has", 1, 0, Effect::Has),
    define("all", 2, 1, Effect::All),
    define("all", 3, 2, Effect::All),
    define("exists", 2, 1, Effect::Exists),
    define("exists", 3, 2, Effect::Exists),
    define("exists_one", 2, 1, Effect::ExistsOne),
    define("exists_one", 3, 2, Effect::ExistsOne),
    define("existsOne", 3, 2, Effect::ExistsOne),
    define("filter", 2, 1, Effect::Filter),
    define("map", 2, 1, Effect::List),
    define("map", 3, 1, Effect::List),
    define("transformList", 3, 2, Effect::List),
    define("transformList", 4, 2, Effect::List),
    define("transformMap", 3, 2, Effect::Map),
    define("transformMap", 4, 2, Effect::Map),
    define("transformMapEntry", 3, 2, Effect::MapEntry),
    define("transformMapEntry", 4, 2, Effect::MapEntry),
    define("optMap", 2, 1, Effect::OptMap),
    define("optFlatMap", 2, 1, Effect::OptFlatMap),
    define("sortBy", 2, 1, Effect::SortBy),
];

/// Returns the macro that a call is of; all but `has` are called on a target.
pub(super) fn find(name: &str, has_target: bool, args: usize) -> Option<Macro> {
    let fits = |known: &Macro| {
        known.name == name && known.args == args && has_target == (known.effect != Effect::Has)
    };
    MACROS.into_iter().find(fits)
}

/// Expands a macro; the parts of the expansion have the place of the call, whose number is `id`.
///
/// # Errors
/// Fails for arguments that a macro does not take.
pub(super) fn expand(
    found: Macro,
    places: &mut Places,
    id: u32,
    target: Option<Expr>,
    mut args: Vec<Expr>,
) -> Result<Expr, Fault> {
    let place = places.of(id);
    let mut builder = Builder { places, place };
    let parts = args.split_off(found.variables.min(args.len()));
    match (found.effect, target) {
        (Effect::SortBy, Some(list)) => builder.sort_by(list, args, parts),
        (Effect::OptMap | Effect::OptFlatMap, Some(of)) => {
            let is_flat = found.effect == Effect::OptFlatMap;
            builder.opt_map(is_flat, of, args, parts)
        }
        (effect, Some(range)) => builder.fold(effect, range, args, parts),
        (_, None) => builder.has(parts),
    }
}

/// Builds expressions at one place.
struct Builder<'p> {
    places: &'p mut Places,
    place: u32,
}

impl Builder<'_> {
    fn fault(&self, at: &Expr, what: impl Into<String>) -> Fault {
        Fault::new(self.places.of(at.id), what)
    }

    fn new_expr(&mut self, kind: ExprKind) -> Expr {
        Expr {
            id: self.places.add(self.place),
            kind,
        }
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.new_expr(ExprKind::Ident(name.to_owned()))
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.new_expr(ExprKind::Literal(literal))
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.new_expr(ExprKind::List(ListExpr {
            elements,
            optional_indices: Vec::new(),
        }))
    }

    fn call(&mut self, name: &str, args: Vec<Expr>) -> Expr {
        self.new_expr(ExprKind::Call(CallExpr {
            func_name: name.to_owned(),
            target: None,
            args,
        }))
    }

    fn has(&mut self, args: Vec<Expr>) -> Result<Expr, Fault> {
        match args.into_iter().next() {
            Some(Expr {
                kind: ExprKind::Select(mut select),
                ..
            }) => {
                select.test = true;
                Ok(self.new_expr(ExprKind::Select(select)))
            }
            Some(other) => Err(self.fault(&other, "invalid argument to has() macro")),
            None => Err(Fault::new(self.place, "invalid argument to has() macro")),
        }
    }

    /// The name of an iteration variable.
    fn variable(&self, expr: &Expr) -> Result<String, Fault> {
        match &expr.kind {
            ExprKind::Ident(name) if matches!(name.as_str(), RESULT | "__result__") => {
                Err(self.fault(expr, "iteration variable overwrites accumulator variable"))
            }
            ExprKind::Ident(name) => Ok(name.clone()),
            _ => Err(self.fault(expr, "argument must be a simple name")),
        }
    }

    /// A comprehension over `range` with one or two variables. `parts` are the other arguments: a filter, which may be left out, and
    /// what the effect is of.
    fn fold(
        &mut self,
        effect: Effect,
        range: Expr,
        variables: Vec<Expr>,
        mut parts: Vec<Expr>,
    ) -> Result<Expr, Fault> {
        let mut variables = variables.into_iter();
        let Some(first) = variables.next() else {
            return Err(Fault::new(self.place, "a macro without variables"));
        };
        let iter_var = self.variable(&first)?;
        let iter_var2 = match variables.next() {
            None => None,
            Some(second) => {
                let name = self.variable(&second)?;
                if name == iter_var {
                    let what = format!("duplicate variable name: {name}");
                    return Err(self.fault(&second, what));
                }
                Some(name)
            }
        };
        if effect == Effect::Filter {
            parts.push(first.clone());
        }
        let accu_init = self.start(effect);
        let loop_cond = self.continues(effect);
        let loop_step = self.step(effect, first, parts);
        let result = self.result(effect);
        let folded = ComprehensionExpr {
            iter_range: range,
            iter_var,
            iter_var2,
            accu_var: RESULT.to_owned(),
            accu_init,
            loop_cond,
            loop_step,
            result,
        };
        Ok(self.new_expr(ExprKind::Comprehension(Box::new(folded))))
    }

    /// The first value of the accumulator.
    fn start(&mut self, effect: Effect) -> Expr {
        match effect {
            Effect::All | Effect::Exists => self.literal(Literal::Bool(effect == Effect::All)),
            Effect::ExistsOne => self.literal(Literal::Int(0)),
            Effect::Map | Effect::MapEntry => self.new_expr(ExprKind::Map(MapExpr::default())),
            _ => self.list(Vec::new()),
        }
    }

    /// Whether the loop continues: `all` and `exists` end when they are decided.
    fn continues(&mut self, effect: Effect) -> Expr {
        if !matches!(effect, Effect::All | Effect::Exists) {
            return self.literal(Literal::Bool(true));
        }
        let mut undecided = self.ident(RESULT);
        if effect == Effect::Exists {
            undecided = self.call(operators::LOGICAL_NOT, vec![undecided]);
        }
        self.call(operators::NOT_STRICTLY_FALSE, vec![undecided])
    }

    /// The next value of the accumulator.
    fn step(&mut self, effect: Effect, key: Expr, mut parts: Vec<Expr>) -> Expr {
        let accumulated = self.ident(RESULT);
        let value = parts.pop();
        let of = |first: Expr, rest: Vec<Option<Expr>>| {
            let rest = rest.into_iter().flatten();
            std::iter::once(first).chain(rest).collect::<Vec<_>>()
        };
        let added = match effect {
            Effect::All => return self.call(operators::LOGICAL_AND, of(accumulated, vec![value])),
            Effect::Exists => {
                return self.call(operators::LOGICAL_OR, of(accumulated, vec![value]));
            }
            Effect::ExistsOne => {
                parts.extend(value);
                let one = self.literal(Literal::Int(1));
                self.call(operators::ADD, vec![accumulated.clone(), one])
            }
            Effect::Map => self.call(INSERT, of(accumulated.clone(), vec![Some(key), value])),
            Effect::MapEntry => self.call(INSERT_ALL, of(accumulated.clone(), vec![value])),
            _ => {
                let item = self.list(value.into_iter().collect());
                self.call(operators::ADD, vec![accumulated.clone(), item])
            }
        };
        match parts.pop() {
            Some(filter) => self.call(operators::CONDITIONAL, vec![filter, added, accumulated]),
            None => added,
        }
    }

    /// The value of the whole.
    fn result(&mut self, effect: Effect) -> Expr {
        let result = self.ident(RESULT);
        if effect != Effect::ExistsOne {
            return result;
        }
        let one = self.literal(Literal::Int(1));
        self.call(operators::EQUALS, vec![result, one])
    }

    /// `list.sortBy(item, key)`: the list is bound to a variable, and sorted by the list of its keys.
    fn sort_by(
        &mut self,
        list: Expr,
        variables: Vec<Expr>,
        keys: Vec<Expr>,
    ) -> Result<Expr, Fault> {
        let is_list = matches!(
            list.kind,
            ExprKind::List(_)
                | ExprKind::Select(_)
                | ExprKind::Ident(_)
                | ExprKind::Comprehension(_)
                | ExprKind::Call(_)
        );
        if !is_list {
            let why = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err(self.fault(&list, why));
        }
        let input = self.ident(SORTED);
        let keys = self.fold(Effect::List, input, variables, keys)?;
        let input = self.ident(SORTED);
        let sorted = self.method(input, SORT_BY, vec![keys]);
        Ok(self.bind(SORTED, list, sorted))
    }

    /// `of.hasValue() ? optional.of(mapped) : optional.none()`, where the variable is `of.value()` in `mapped`. A target that is no
    /// identifier is bound to a variable, so that it is evaluated once.
    fn opt_map(
        &mut self,
        is_flat: bool,
        of: Expr,
        variables: Vec<Expr>,
        parts: Vec<Expr>,
    ) -> Result<Expr, Fault> {
        let (Some(variable), Some(mapping)) = (variables.first(), parts.into_iter().next()) else {
            return Err(Fault::new(self.place, "a macro without variables"));
        };
        let variable = match &variable.kind {
            ExprKind::Ident(name) => name.clone(),
            _ => return Err(self.fault(variable, "argument must be a simple name")),
        };
        let (name, bound) = match &of.kind {
            ExprKind::Ident(name) => (name.clone(), None),
            _ => (TARGET.to_owned(), Some(of)),
        };
        let [tested, read] = [(); 2].map(|()| self.ident(&name));
        let has_value = self.method(tested, "hasValue", Vec::new());
        let value = self.method(read, "value", Vec::new());
        let mut mapped = self.bind(&variable, value, mapping);
        if !is_flat {
            let namespace = self.ident("optional");
            mapped = self.method(namespace, "of", vec![mapped]);
        }
        let namespace = self.ident("optional");
        let none = self.method(namespace, "none", Vec::new());
        let result = self.call(operators::CONDITIONAL, vec![has_value, mapped, none]);
        Ok(match bound {
            Some(target) => self.bind(TARGET, target, result),
            None => result,
        })
    }

    fn method(&mut self, target: Expr, name: &str, args: Vec<Expr>) -> Expr {
        self.new_expr(ExprKind::Call(CallExpr {
            func_name: name.to_owned(),
            target: Some(Box::new(target)),
            args,
        }))
    }

    /// Binds a variable in `result`: a comprehension over nothing, whose accumulator is the variable.
    fn bind(&mut self, variable: &str, value: Expr, result: Expr) -> Expr {
        let bound = ComprehensionExpr {
            iter_range: self.list(Vec::new()),
            iter_var: "#unused".to_owned(),
            iter_var2: None,
            accu_var: variable.to_owned(),
            accu_init: value,
            loop_cond: self.literal(Literal::Bool(false)),
            loop_step: self.ident(variable),
            result,
        };
        self.new_expr(ExprKind::Comprehension(Box::new(bound)))
    }
}
