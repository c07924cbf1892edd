//! The syntax tree of an expression, after macros are expanded.

/// A part of an expression, with a number by which its place and its type are found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub(crate) id: u32,
    pub(crate) kind: ExprKind,
}

/// The kind of an [`Expr`], with its operands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    Call(CallExpr),
    Comprehension(Box<ComprehensionExpr>),
    Ident(String),
    List(ListExpr),
    Literal(Literal),
    Map(MapExpr),
    Select(SelectExpr),
    Struct(StructExpr),
}

/// A message: `type_name{field: value, ?field: value}`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StructExpr {
    pub(crate) type_name: String,
    pub(crate) fields: Vec<StructField>,
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StructField {
    pub(crate) name: String,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Bool(bool),
    Bytes(Vec<u8>),
    Double(f64),
    Int(i64),
    Null,
    String(String),
    Uint(u64),
}

/// A call of a function or an operator (see [`super::operators`]).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallExpr {
    pub(crate) func_name: String,
    pub(crate) target: Option<Box<Expr>>,
    pub(crate) args: Vec<Expr>,
}

/// `operand.field`; `has(operand.field)` if it is a `test`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SelectExpr {
    pub(crate) operand: Box<Expr>,
    pub(crate) field: String,
    pub(crate) test: bool,
}

/// A list; the elements at `optional_indices` are written `?element`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ListExpr {
    pub(crate) elements: Vec<Expr>,
    pub(crate) optional_indices: Vec<usize>,
}

/// A map.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MapExpr {
    pub(crate) entries: Vec<MapEntry>,
}

/// `key: value`, or `?key: value` if it is `optional`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapEntry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// What macros expand to: a loop over a list or map that computes the value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ComprehensionExpr {
    pub(crate) iter_range: Expr,
    pub(crate) iter_var: String,
    pub(crate) iter_var2: Option<String>,
    pub(crate) accu_var: String,
    pub(crate) accu_init: Expr,
    pub(crate) loop_cond: Expr,
    pub(crate) loop_step: Expr,
    pub(crate) result: Expr,
}
