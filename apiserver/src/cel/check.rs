//! Type-checks an expression: each name is declared, and each call matches an overload.

use std::collections::HashMap;

use super::{
    decl::Decl,
    functions::overloads,
    parse::{
        CallExpr, ComprehensionExpr, Expr, ExprKind, ListExpr, Literal, MAX_FAULTS, MapExpr,
        StructExpr, operators,
    },
};

/// The greatest depth of an expression's tree.
const MAX_DEPTH: usize = 256;

/// The most parts of an expression's type. Types share their parts as values do, so a small one could be endless when written out.
const MAX_TYPE_PARTS: usize = 256;

/// The type of a part of an object that is applied; the type of a field is this name with the path of the field.
pub(crate) const OBJECT: &str = "Object";
/// The type of an operation of a JSON patch.
pub(crate) const JSON_PATCH: &str = "JSONPatch";

/// The variables of a policy, each evaluated on first use.
pub(super) const VARIABLES: &str = "variables";

/// The name under which [`Decl::Message`] is declared: expressions that change objects may make messages.
pub(crate) const PATCH_TYPES: &str = "{patch types}";

/// What is known of an expression that has no fault.
pub(super) struct Checked {
    /// The type of the whole.
    pub(super) decl: Decl,
    /// The types of its parts, by their ids.
    pub(super) decls: HashMap<u32, Decl>,
    /// The names of the variables in it.
    pub(super) variables: Vec<String>,
    /// Messages that are in a field of another name, which is found when the expression is evaluated.
    pub(super) misplaced: Vec<String>,
}

/// A fault, and the id of the part that has it.
pub(super) type Fault = (u32, String);

/// Returns the types of the expression, or its faults.
pub(super) fn check(expr: &Expr, variables: &[(&str, Decl)]) -> Result<Checked, Vec<Fault>> {
    let mut checker = Checker {
        variables,
        scopes: Vec::new(),
        decls: HashMap::new(),
        used: Vec::new(),
        faults: Vec::new(),
        misplaced: Vec::new(),
        depth: 0,
    };
    let decl = checker.expr(expr);
    let Checker {
        decls,
        used,
        faults,
        misplaced,
        ..
    } = checker;
    if faults.is_empty() {
        Ok(Checked {
            decl,
            decls,
            variables: used,
            misplaced,
        })
    } else {
        Err(faults)
    }
}

/// Whether `expr` spells a name with dots in it: `sets` in `sets.contains(a, b)`.
pub(super) fn qualified_name(expr: &ExprKind) -> Option<String> {
    match expr {
        ExprKind::Ident(name) => Some(name.clone()),
        ExprKind::Select(select) if !select.test => Some(format!(
            "{}.{}",
            qualified_name(&select.operand.kind)?,
            select.field
        )),
        _ => None,
    }
}

/// Returns the name of the type that an identifier stands for.
pub(super) fn type_named(name: &str) -> Option<&'static str> {
    Some(match name {
        "bool" => "bool",
        "int" => "int",
        "uint" => "uint",
        "double" => "double",
        "string" => "string",
        "bytes" => "bytes",
        "list" => "list",
        "map" => "map",
        "null_type" => "null_type",
        "type" => "type",
        "optional_type" => "optional_type",
        "google.protobuf.Timestamp" => "google.protobuf.Timestamp",
        "google.protobuf.Duration" => "google.protobuf.Duration",
        "net.IP" => "net.IP",
        "net.CIDR" => "net.CIDR",
        _ => return None,
    })
}

struct Checker<'a> {
    variables: &'a [(&'a str, Decl)],
    /// The variables of comprehensions, the innermost last.
    scopes: Vec<(String, Decl)>,
    decls: HashMap<u32, Decl>,
    used: Vec<String>,
    faults: Vec<Fault>,
    misplaced: Vec<String>,
    depth: usize,
}

impl Checker<'_> {
    fn fault(&mut self, at: u32, what: &str) -> Decl {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push((at, what.to_owned()));
        }
        Decl::Dyn
    }

    fn expr(&mut self, expr: &Expr) -> Decl {
        if self.depth >= MAX_DEPTH {
            return self.fault(expr.id, "the expression nests too deeply");
        }
        self.depth += 1;
        let decl = match &expr.kind {
            ExprKind::Ident(name) => self.ident(expr.id, name),
            ExprKind::Literal(literal) => literal_decl(literal),
            ExprKind::Select(_) => self.select(expr),
            ExprKind::List(list) => self.list(list),
            ExprKind::Map(map) => self.map(map),
            ExprKind::Struct(message) => self.message(expr.id, message),
            ExprKind::Call(call) => self.call(expr.id, call),
            ExprKind::Comprehension(comprehension) => self.comprehension(expr.id, comprehension),
        };
        self.depth -= 1;
        if decl.is_larger_than(MAX_TYPE_PARTS) {
            return self.fault(expr.id, "the type of the expression has too many parts");
        }
        self.decls.insert(expr.id, decl.clone());
        decl
    }

    fn find(&self, name: &str) -> Option<Decl> {
        let scoped = self
            .scopes
            .iter()
            .rev()
            .find(|(own, _)| own == name)
            .map(|(_, decl)| decl);
        let given = || {
            self.variables
                .iter()
                .find(|(own, _)| *own == name)
                .map(|(_, decl)| decl)
        };
        scoped.or_else(given).cloned()
    }

    fn ident(&mut self, at: u32, name: &str) -> Decl {
        // a leading dot names what no comprehension can hide
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(decl) = self.find(name) {
            if self.is_composed(name) {
                return self.fault(
                    at,
                    "'variables' is no value by itself; name one of them: variables.<name>",
                );
            }
            self.uses(name);
            return decl;
        }
        if type_named(name).is_some() {
            return Decl::Type;
        }
        self.fault(
            at,
            &format!("undeclared reference to '{name}' (in container '')"),
        )
    }

    /// Reports whether the name stands for the variables of a policy.
    fn is_composed(&self, name: &str) -> bool {
        let is_given = self.variables.iter().any(|(own, _)| *own == VARIABLES);
        name == VARIABLES && is_given && !self.scopes.iter().any(|(own, _)| own == name)
    }

    fn uses(&mut self, name: &str) {
        if !self.used.iter().any(|used| used == name) {
            self.used.push(name.to_owned());
        }
    }

    fn select(&mut self, expr: &Expr) -> Decl {
        let ExprKind::Select(select) = &expr.kind else {
            return Decl::Dyn;
        };
        if !select.test
            && let Some(name) = qualified_name(&expr.kind)
        {
            if let Some((_, decl)) = self.variables.iter().find(|(own, _)| *own == name) {
                let decl = decl.clone();
                self.uses(&name);
                return decl;
            }
            if type_named(&name).is_some() {
                return Decl::Type;
            }
        }
        let operand = match &select.operand.kind {
            ExprKind::Ident(name) if self.is_composed(name) => self.find(name).unwrap_or(Decl::Dyn),
            _ => self.expr(&select.operand),
        };
        let selected = self.field(expr.id, &operand, &select.field);
        if select.test { Decl::Bool } else { selected }
    }

    fn field(&mut self, at: u32, operand: &Decl, field: &str) -> Decl {
        match operand {
            Decl::Dyn | Decl::Free | Decl::Null => Decl::Dyn,
            Decl::Message(name) if **name == *JSON_PATCH && field != "value" => Decl::String,
            Decl::Message(_) => Decl::Dyn,
            Decl::Object(object) => match object.fields.get(field) {
                Some(field) => field.decl.clone(),
                None => self.fault(at, &format!("undefined field '{field}'")),
            },
            Decl::Map(key, value) if key.is_dyn() || **key == Decl::String => (**value).clone(),
            Decl::Optional(inner) => Decl::optional(self.field(at, inner, field)),
            other => self.fault(
                at,
                &format!("type '{other}' does not support field selection"),
            ),
        }
    }

    fn list(&mut self, list: &ListExpr) -> Decl {
        let mut of = Decl::Free;
        for (index, element) in list.elements.iter().enumerate() {
            let mut decl = self.expr(element);
            if list.optional_indices.contains(&index) {
                decl = self.unwrap_optional(element.id, decl);
            }
            // whether all are of one type is a question of literals
            of = of.join(&decl).unwrap_or(Decl::Dyn);
        }
        Decl::list(of)
    }

    fn unwrap_optional(&mut self, at: u32, decl: Decl) -> Decl {
        match decl {
            Decl::Optional(inner) => (*inner).clone(),
            decl if decl.is_dyn() => decl,
            other => self.fault(
                at,
                &format!("expected type 'optional_type(dyn)' but found '{other}'"),
            ),
        }
    }

    fn message(&mut self, at: u32, message: &StructExpr) -> Decl {
        let StructExpr { type_name, fields } = message;
        let name = type_name.trim_start_matches('.');
        let is_patch = name == JSON_PATCH;
        let is_known = is_patch || name == OBJECT || name.starts_with("Object.");
        if !is_known || self.find(PATCH_TYPES).is_none() {
            let what = format!("undeclared reference to '{type_name}' (in container '')");
            return self.fault(at, &what);
        }
        for field in fields {
            let mut decl = self.expr(&field.value);
            if field.optional {
                decl = self.unwrap_optional(field.value.id, decl);
            }
            match field.name.as_str() {
                other if !is_patch => self.place(&decl, &format!("{name}.{other}")),
                "op" | "path" | "from" if decl.is_dyn() || decl == Decl::String => {}
                "op" | "path" | "from" => {
                    let what = format!(
                        "expected type of field '{}' is 'string' but provided type is '{decl}'",
                        field.name
                    );
                    self.fault(field.value.id, &what);
                }
                "value" => {}
                other => {
                    self.fault(field.value.id, &format!("undefined field '{other}'"));
                }
            }
        }
        Decl::Message(name.into())
    }

    /// Notes messages that are not of the type of the field `expected`.
    fn place(&mut self, decl: &Decl, expected: &str) {
        match decl {
            Decl::Message(name) if **name != *expected => self.misplaced.push(format!(
                "unexpected type name {name:?}, expected {expected:?}, which matches field name path from root Object type"
            )),
            Decl::List(of) | Decl::Optional(of) | Decl::Map(_, of) => self.place(of, expected),
            _ => {}
        }
    }

    fn same(&mut self, at: u32, expected: &Decl, found: &Decl) -> Decl {
        match expected.join(found) {
            Some(joined) => joined,
            None => self.fault(
                at,
                &format!("expected type '{expected}' but found '{found}'"),
            ),
        }
    }

    fn map(&mut self, map: &MapExpr) -> Decl {
        let (mut key, mut value) = (Decl::Free, Decl::Free);
        for entry in &map.entries {
            let found = self.expr(&entry.key);
            key = key.join(&found).unwrap_or(Decl::Dyn);
            let mut found = self.expr(&entry.value);
            if entry.optional {
                found = self.unwrap_optional(entry.value.id, found);
            }
            value = value.join(&found).unwrap_or(Decl::Dyn);
        }
        Decl::map(key, value)
    }

    fn call(&mut self, at: u32, call: &CallExpr) -> Decl {
        match call.func_name.as_str() {
            operators::CONDITIONAL => return self.conditional(at, call),
            operators::LOGICAL_AND | operators::LOGICAL_OR => {
                let decls: Vec<_> = call.args.iter().map(|arg| self.expr(arg)).collect();
                if decls
                    .iter()
                    .any(|decl| !decl.is_dyn() && *decl != Decl::Bool)
                {
                    return self.no_overload(at, &call.func_name, &decls, false);
                }
                return Decl::Bool;
            }
            operators::OPT_SELECT => return self.optional_select(at, call),
            _ => {}
        }
        // `sets.contains(a, b)` is a function with a dot in its name
        let global = call.target.as_ref().and_then(|target| {
            let root = qualified_name(&target.kind)?;
            let name = format!("{root}.{}", call.func_name);
            // functions of patches exist where patches do
            let is_available = root != "jsonpatch" || self.find(PATCH_TYPES).is_some();
            let is_function =
                is_available && overloads(&name).iter().any(|overload| !overload.has_target);
            let is_variable = self
                .find(root.split('.').next().unwrap_or_default())
                .is_some();
            (is_function && !is_variable).then_some(name)
        });
        let has_target = call.target.is_some() && global.is_none();
        let name = global.unwrap_or_else(|| call.func_name.clone());
        let target = call
            .target
            .as_ref()
            .filter(|_| has_target)
            .map(|target| self.expr(target));
        let args = call.args.iter().map(|arg| self.expr(arg));
        let args: Vec<_> = target.into_iter().chain(args).collect();
        let ways = overloads(&name);
        if ways.is_empty() {
            let fault = format!("undeclared reference to '{name}' (in container '')");
            return self.fault(at, &fault);
        }
        if matches!(name.as_str(), operators::INDEX | operators::OPT_INDEX)
            && args.first().is_some_and(Decl::is_dyn)
        {
            return Decl::Dyn;
        }
        let mut result: Option<Decl> = None;
        for way in ways
            .iter()
            .filter(|way| way.has_target == has_target && way.args.len() == args.len())
        {
            let mut params = [None, None];
            if way
                .args
                .iter()
                .zip(&args)
                .all(|(takes, arg)| takes.takes(arg, &mut params))
            {
                let found = way.result.filled(&params);
                result = Some(match result {
                    Some(result) => result.join(&found).unwrap_or(Decl::Dyn),
                    None => found,
                });
            }
        }
        result.unwrap_or_else(|| self.no_overload(at, &name, &args, has_target))
    }

    fn no_overload(&mut self, at: u32, name: &str, args: &[Decl], has_target: bool) -> Decl {
        let written: Vec<_> = args.iter().map(Decl::to_string).collect();
        let applied = match written.split_first() {
            Some((target, rest)) if has_target => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", written.join(", ")),
        };
        self.fault(
            at,
            &format!("found no matching overload for '{name}' applied to '{applied}'"),
        )
    }

    fn conditional(&mut self, at: u32, call: &CallExpr) -> Decl {
        let decls: Vec<_> = call.args.iter().map(|arg| self.expr(arg)).collect();
        let [condition, yes, no] = decls.as_slice() else {
            return self.no_overload(at, &call.func_name, &decls, false);
        };
        match yes.join(no) {
            Some(joined) if condition.is_dyn() || *condition == Decl::Bool => joined,
            _ => self.no_overload(at, &call.func_name, &decls, false),
        }
    }

    fn optional_select(&mut self, at: u32, call: &CallExpr) -> Decl {
        let [operand, field] = call.args.as_slice() else {
            return Decl::Dyn;
        };
        let operand = self.expr(operand);
        let ExprKind::Literal(Literal::String(field)) = &field.kind else {
            return self.fault(at, "unsupported optional field selection");
        };
        match self.field(at, &operand, field) {
            selected @ Decl::Optional(_) => selected,
            selected => Decl::optional(selected),
        }
    }

    fn comprehension(&mut self, at: u32, comprehension: &ComprehensionExpr) -> Decl {
        let ComprehensionExpr {
            iter_range,
            iter_var,
            iter_var2,
            accu_var,
            accu_init,
            ..
        } = comprehension;
        let range = self.expr(iter_range);
        let (first, second) = match (&range, iter_var2.is_some()) {
            (Decl::List(of), false) => ((**of).clone(), Decl::Dyn),
            (Decl::List(of), true) => (Decl::Int, (**of).clone()),
            (Decl::Map(key, value), _) => ((**key).clone(), (**value).clone()),
            (range, _) if range.is_dyn() => (Decl::Dyn, Decl::Dyn),
            (other, _) => {
                let fault = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                (self.fault(iter_range.id, &fault), Decl::Dyn)
            }
        };
        let start = self.expr(accu_init);
        let depth = self.scopes.len();
        self.scopes.push((accu_var.clone(), start.clone()));
        let accumulator = self.scopes.len() - 1;
        self.scopes.push((iter_var.clone(), first));
        self.scopes
            .extend(iter_var2.iter().map(|name| (name.clone(), second.clone())));
        self.expr(&comprehension.loop_cond);
        let step = self.expr(&comprehension.loop_step);
        let joined = self.same(at, &start, &step);
        if let Some((_, decl)) = self.scopes.get_mut(accumulator) {
            *decl = joined;
        }
        self.scopes.truncate(accumulator + 1);
        let result = self.expr(&comprehension.result);
        self.scopes.truncate(depth);
        result
    }
}

fn literal_decl(literal: &Literal) -> Decl {
    match literal {
        Literal::Bool(_) => Decl::Bool,
        Literal::Bytes(_) => Decl::Bytes,
        Literal::Double(_) => Decl::Double,
        Literal::Int(_) => Decl::Int,
        Literal::Null => Decl::Null,
        Literal::String(_) => Decl::String,
        Literal::Uint(_) => Decl::Uint,
    }
}
