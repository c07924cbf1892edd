//! The types against which expressions are checked.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// A type. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decl {
    /// `dyn`: the type is known at evaluation only.
    Dyn,
    /// The item type of an empty list or map, which unifies with any type.
    Free,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    /// The type of `type(x)`.
    Type,
    List(Arc<Decl>),
    /// A map: its key type and value type.
    Map(Arc<Decl>, Arc<Decl>),
    /// An object with known fields.
    Object(Arc<ObjectDecl>),
    Optional(Arc<Decl>),
    /// A type of Kubernetes' libraries, such as `quantity`.
    Opaque(&'static str),
    /// A message that changes an object, by the name of its type.
    Message(Arc<str>),
    /// The n-th parameter of a generic function.
    Param(usize),
}

/// The fields of an object, by the names that expressions use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectDecl {
    pub(crate) fields: BTreeMap<Box<str>, FieldDecl>,
}

impl ObjectDecl {
    /// Returns a field by its JSON name, with the name that expressions use.
    pub(crate) fn field(&self, name: &str) -> Option<(&str, &FieldDecl)> {
        let of = |used: &str| {
            self.fields
                .get_key_value(used)
                .filter(|(_, field)| *field.name == *name)
        };
        let (used, field) = of(name).or_else(|| of(&escape(name)?))?;
        Some((used, field))
    }
}

/// A field: its JSON name and its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldDecl {
    pub(crate) name: Box<str>,
    pub(crate) decl: Decl,
}

impl Decl {
    pub(crate) fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(crate) fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// Makes an object type with these fields; a field whose name cannot be written in an expression is left out.
    pub(crate) fn object<N: Into<Box<str>>>(fields: impl IntoIterator<Item = (N, Self)>) -> Self {
        let fields = fields.into_iter().filter_map(|(name, decl)| {
            let name = name.into();
            Some((escape(&name)?.into_boxed_str(), FieldDecl { name, decl }))
        });
        Self::Object(Arc::new(ObjectDecl {
            fields: fields.collect(),
        }))
    }

    /// Makes the type of a built-in Kubernetes object, whose field names are not escaped.
    pub(crate) fn native<N: Into<Box<str>>>(fields: impl IntoIterator<Item = (N, Self)>) -> Self {
        let fields = fields.into_iter().map(|(name, decl)| {
            let name = name.into();
            (name.clone(), FieldDecl { name, decl })
        });
        Self::Object(Arc::new(ObjectDecl {
            fields: fields.collect(),
        }))
    }

    /// Reports whether the type is known at evaluation only.
    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Free)
    }

    /// Reports whether the type has more parts than `limit`, not counting those of objects, which are as large as their schema. It
    /// takes time in proportion to `limit`.
    pub(crate) fn is_larger_than(&self, limit: usize) -> bool {
        fn take_from(decl: &Decl, left: &mut usize) -> Option<()> {
            *left = left.checked_sub(1)?;
            match decl {
                Decl::List(of) | Decl::Optional(of) => take_from(of, left),
                Decl::Map(key, value) => take_from(key, left).and_then(|()| take_from(value, left)),
                _ => Some(()),
            }
        }
        take_from(self, &mut { limit }).is_none()
    }

    /// Returns the name of the type without its parameters, as values have it.
    pub(crate) fn runtime_name(&self) -> &'static str {
        match self {
            Self::Dyn | Self::Free | Self::Param(_) => "dyn",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::Type => "type",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Object(_) | Self::Message(_) => "object",
            Self::Optional(_) => "optional_type",
            Self::Opaque(name) => full_name(name),
        }
    }

    /// Reports whether null is a value of the type. Lists, maps and simple values are never null.
    fn can_be_null(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Timestamp
                | Self::Duration
                | Self::Object(_)
                | Self::Message(_)
                | Self::Optional(_)
                | Self::Opaque(_)
        )
    }

    /// Reports whether both are the same type, as the items of a literal must be. A type that is not known yet is any.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Free, _) | (_, Self::Free) => true,
            (Self::List(one), Self::List(two)) | (Self::Optional(one), Self::Optional(two)) => {
                one.is_same(two)
            }
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.is_same(other_key) && value.is_same(other_value)
            }
            (one, two) => one == two,
        }
    }

    /// Returns the common type of both, if there is one.
    pub(crate) fn join(&self, other: &Self) -> Option<Self> {
        Some(match (self, other) {
            (Self::Free, known) | (known, Self::Free) => known.clone(),
            (Self::Dyn, _) | (_, Self::Dyn) => Self::Dyn,
            (Self::Null, known) | (known, Self::Null) => {
                return known.can_be_null().then(|| known.clone());
            }
            (Self::List(one), Self::List(two)) => Self::list(one.join(two)?),
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                Self::map(key.join(other_key)?, value.join(other_value)?)
            }
            (Self::Optional(one), Self::Optional(two)) => Self::optional(one.join(two)?),
            (one, two) if one == two => one.clone(),
            _ => return None,
        })
    }

    /// Reports whether a value of type `found` fits; `params` holds the type parameters bound so far.
    pub(crate) fn takes(&self, found: &Self, params: &mut [Option<Self>; 2]) -> bool {
        match (self, found) {
            (Self::Param(index), found) => {
                let Some(param) = params.get_mut(*index) else {
                    return false;
                };
                let joined = match param {
                    Some(known) => known.join(found),
                    None => Some(found.clone()),
                };
                let fits = joined.is_some();
                *param = joined.or(param.take());
                fits
            }
            (Self::Dyn, _) | (_, Self::Dyn | Self::Free) => true,
            (known, Self::Null) => known.can_be_null(),
            (Self::List(own), Self::List(found)) | (Self::Optional(own), Self::Optional(found)) => {
                own.takes(found, params)
            }
            (Self::Map(key, value), Self::Map(found_key, found_value)) => {
                key.takes(found_key, params) && value.takes(found_value, params)
            }
            (own, found) => own == found,
        }
    }

    /// Returns the type with its parameters substituted.
    pub(crate) fn filled(&self, params: &[Option<Self>; 2]) -> Self {
        match self {
            Self::Param(index) => params.get(*index).cloned().flatten().unwrap_or(Self::Dyn),
            Self::List(of) => Self::list(of.filled(params)),
            Self::Optional(of) => Self::optional(of.filled(params)),
            Self::Map(key, value) => Self::map(key.filled(params), value.filled(params)),
            other => other.clone(),
        }
    }
}

impl fmt::Display for Decl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Free | Self::Param(_) => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::Type => f.write_str("type"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Object(_) => f.write_str("object"),
            Self::Message(name) => f.write_str(name),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Opaque(name) => f.write_str(full_name(name)),
        }
    }
}

/// Returns the name with which messages name a type of Kubernetes' libraries.
fn full_name(name: &'static str) -> &'static str {
    match name {
        "quantity" => "kubernetes.Quantity",
        "semver" => "kubernetes.Semver",
        "url" => "kubernetes.URL",
        "ip" => "net.IP",
        "cidr" => "net.CIDR",
        "format" => "kubernetes.NamedFormat",
        "authorizer" => "kubernetes.authorization.Authorizer",
        "path_check" => "kubernetes.authorization.PathCheck",
        "group_check" => "kubernetes.authorization.GroupCheck",
        "resource_check" => "kubernetes.authorization.ResourceCheck",
        "decision" => "kubernetes.authorization.Decision",
        other => other,
    }
}

/// The reserved words of the language.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns the escaped name of a field: `a-b` is `a__dash__b`; `None` for names that expressions cannot write.
pub(crate) fn escape(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let is_known = |char: char| char.is_ascii_alphanumeric() || "_.-/".contains(char);
    if !starts_well || !name.chars().all(is_known) {
        return None;
    }
    let escaped = name
        .replace("__", "__underscores__")
        .replace('.', "__dot__");
    Some(escaped.replace('-', "__dash__").replace('/', "__slash__"))
}
