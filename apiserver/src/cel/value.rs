//! Values: those of an object refer to its JSON, others are computed.

use std::{cmp::Ordering, collections::BTreeMap, net::IpAddr, ops::Deref, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::SignedDuration;
use serde_json::Value as Json;

use super::{
    authorizer::Check,
    decl::{Decl, FieldDecl, ObjectDecl},
    moment::Moment,
    parse::Literal,
    semver::Version,
    with_depth::WithDepth,
};
use crate::go_url::Url;
use kubeapi::object::{go_duration, quantity::Quantity};

/// The longest text, in bytes, that is parsed as a time or a duration: it is parsed again at each access.
const LONGEST_TIME: usize = 256;

/// A value. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    Timestamp(Moment),
    Duration(SignedDuration),
    /// The name of a type.
    Type(&'static str),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Arc<WithDepth<Val<'a>>>>),
    Quantity(Quantity),
    Semver(Arc<Version>),
    Url(Arc<Url>),
    Ip(IpAddr),
    /// An IP network: an address and the length of its prefix.
    Cidr(IpAddr, u8),
    /// A named format of texts.
    Format(&'static str),
    /// An authorization check under construction.
    Check(Arc<Check>),
}

/// A text, of an object or computed.
#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    Read(&'a str),
    Computed(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Read(text) => text,
            Self::Computed(text) => text,
        }
    }
}

/// A list, of an object or computed.
#[derive(Clone, Debug)]
pub(crate) enum List<'a> {
    Read(&'a [Json], &'a Decl),
    Computed(Arc<WithDepth<Vec<Val<'a>>>>),
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Read(items, _) => items.len(),
            Self::Computed(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Val<'a>> {
        match self {
            Self::Read(items, decl) => items.get(index).map(|item| Val::read(item, decl)),
            Self::Computed(items) => items.get(index).cloned(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Val<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

/// A map or an object with known fields.
#[derive(Clone, Debug)]
pub(crate) enum Map<'a> {
    Read(&'a serde_json::Map<String, Json>, &'a Decl),
    Object(&'a serde_json::Map<String, Json>, &'a ObjectDecl),
    Computed(Arc<WithDepth<BTreeMap<MapKey<'a>, Val<'a>>>>),
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Read(map, _) | Self::Object(map, _) => map.len(),
            Self::Computed(map) => map.len(),
        }
    }

    /// Reports whether two maps differ in size, and so are not equal. Objects are not compared, since only their known fields count.
    pub(super) fn is_told_apart(&self, other: &Self) -> bool {
        !matches!(self, Self::Object(..))
            && !matches!(other, Self::Object(..))
            && self.len() != other.len()
    }

    pub(crate) fn get(&self, key: &Val<'a>) -> Option<Val<'a>> {
        match (self, key) {
            (Self::Computed(map), key) => map.get(&MapKey::of(key)?).cloned(),
            (_, Val::String(name)) => self.field(name),
            _ => None,
        }
    }

    /// Returns the value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<Val<'a>> {
        match self {
            Self::Read(map, decl) => map.get(name).map(|value| Val::read(value, decl)),
            Self::Object(map, decl) => {
                let field = decl.fields.get(name)?;
                // a field of an object that is null is absent
                let value = map
                    .get(field.name.as_ref())
                    .filter(|value| !value.is_null());
                value.map(|value| Val::read(value, &field.decl))
            }
            Self::Computed(map) => map
                .get(&MapKey::String(Text::Computed(name.into())))
                .cloned(),
        }
    }

    /// Reports whether there is a field, without reading its value.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::Read(map, _) => map.contains_key(name),
            Self::Object(map, decl) => {
                let field = decl
                    .fields
                    .get(name)
                    .and_then(|field| map.get(field.name.as_ref()));
                field.is_some_and(|value| !value.is_null())
            }
            Self::Computed(_) => self.field(name).is_some(),
        }
    }

    /// Returns the entries in the order of their keys. It takes time for each entry that exists, not for each that could.
    pub(crate) fn entries(&self) -> Vec<(Val<'a>, Val<'a>)> {
        match self {
            Self::Read(map, decl) => {
                let entry = |(key, value): (&'a String, &'a Json)| {
                    (Val::String(Text::Read(key)), Val::read(value, decl))
                };
                map.iter().map(entry).collect()
            }
            Self::Object(map, decl) => {
                let known = map
                    .iter()
                    .filter_map(|(name, value)| Some((decl.field(name)?, value)));
                let mut present: Vec<_> = known.collect();
                present.sort_by_key(|((name, _), _)| *name);
                let entry = |((name, field), value): ((&'a str, &'a FieldDecl), &'a Json)| {
                    (Val::String(Text::Read(name)), Val::read(value, &field.decl))
                };
                present.into_iter().map(entry).collect()
            }
            Self::Computed(map) => map
                .iter()
                .map(|(key, value)| (key.clone().into(), value.clone()))
                .collect(),
        }
    }
}

/// The key of a map.
#[derive(Clone, Debug)]
pub(crate) enum MapKey<'a> {
    Bool(bool),
    Number(i128),
    String(Text<'a>),
}

impl<'a> MapKey<'a> {
    /// Returns `None` for a value that cannot be a key.
    pub(crate) fn of(value: &Val<'a>) -> Option<Self> {
        Some(match value {
            Val::Bool(value) => Self::Bool(*value),
            Val::Int(value) => Self::Number((*value).into()),
            Val::Uint(value) => Self::Number((*value).into()),
            #[allow(clippy::cast_possible_truncation, reason = "it has no fraction")]
            Val::Double(value) if value.fract() == 0.0 => Self::Number(*value as i128),
            Val::String(text) => Self::String(text.clone()),
            _ => return None,
        })
    }
}

impl MapKey<'_> {
    /// Returns the length of a text in bytes.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::Bool(_) | Self::Number(_) => 0,
        }
    }
}

impl<'a> From<MapKey<'a>> for Val<'a> {
    fn from(key: MapKey<'a>) -> Self {
        match key {
            MapKey::Bool(value) => Self::Bool(value),
            MapKey::Number(value) => i64::try_from(value)
                .map(Self::Int)
                .or_else(|_| u64::try_from(value).map(Self::Uint))
                .unwrap_or(Self::Null),
            MapKey::String(text) => Self::String(text),
        }
    }
}

impl Ord for MapKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => one.cmp(two),
            (Self::Number(one), Self::Number(two)) => one.cmp(two),
            (Self::String(one), Self::String(two)) => (**one).cmp(&**two),
            (Self::Bool(_), _) | (Self::Number(_), Self::String(_)) => Ordering::Less,
            _ => Ordering::Greater,
        }
    }
}

impl PartialOrd for MapKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MapKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for MapKey<'_> {}

impl<'a> Val<'a> {
    /// Returns the value of a literal.
    pub(super) fn of_literal(literal: &'a Literal) -> Self {
        match literal {
            Literal::Bool(value) => Self::Bool(*value),
            Literal::Bytes(value) => Self::Bytes(value.as_slice().into()),
            Literal::Double(value) => Self::Double(*value),
            Literal::Int(value) => Self::Int(*value),
            Literal::Null => Self::Null,
            Literal::String(value) => Self::String(Text::Read(value)),
            Literal::Uint(value) => Self::Uint(*value),
        }
    }

    /// Reads a value of an object with its declared type. A value of another type is read as what it is.
    pub(crate) fn read(json: &'a Json, decl: &'a Decl) -> Self {
        match (json, decl) {
            (Json::Null, _) => Self::Null,
            (Json::Bool(value), _) => Self::Bool(*value),
            (Json::Number(number), Decl::Double) => {
                Self::Double(number.as_f64().unwrap_or_default())
            }
            (Json::Number(number), decl) => {
                match (number.as_i64(), number.as_u64(), number.as_f64()) {
                    (Some(number), ..) => Self::Int(number),
                    (None, Some(number), _) => Self::Uint(number),
                    #[allow(clippy::cast_possible_truncation, reason = "it has no fraction")]
                    (.., Some(number)) if *decl == Decl::Int && number.fract() == 0.0 => {
                        Self::Int(number as i64)
                    }
                    (.., number) => Self::Double(number.unwrap_or_default()),
                }
            }
            (Json::String(text), decl) => Self::read_text(text, decl),
            (Json::Array(items), Decl::List(of)) => Self::List(List::Read(items, of)),
            (Json::Array(items), _) => Self::List(List::Read(items, &Decl::Dyn)),
            (Json::Object(map), Decl::Object(decl)) => Self::Map(Map::Object(map, decl)),
            (Json::Object(map), Decl::Map(_, value)) => Self::Map(Map::Read(map, value)),
            (Json::Object(map), _) => Self::Map(Map::Read(map, &Decl::Dyn)),
        }
    }

    fn read_text(text: &'a str, decl: &Decl) -> Self {
        let read = match decl {
            Decl::Timestamp | Decl::Duration if text.len() > LONGEST_TIME => None,
            Decl::Bytes => STANDARD
                .decode(text)
                .ok()
                .map(|bytes| Self::Bytes(bytes.into())),
            Decl::Timestamp => Moment::read(text).map(Self::Timestamp),
            Decl::Duration => go_duration::parse(text).map(Self::Duration),
            _ => None,
        };
        read.unwrap_or(Self::String(Text::Read(text)))
    }

    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Computed(text.into()))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        let deepest = Self::deepest(&items);
        Self::List(List::Computed(Arc::new(WithDepth::new(items, deepest))))
    }

    pub(crate) fn map(entries: BTreeMap<MapKey<'a>, Self>) -> Self {
        let deepest = Self::deepest(entries.values());
        Self::Map(Map::Computed(Arc::new(WithDepth::new(entries, deepest))))
    }

    pub(crate) fn optional(value: Option<Self>) -> Self {
        Self::Optional(value.map(|value| {
            let depth = value.depth();
            Arc::new(WithDepth::new(value, depth))
        }))
    }

    /// Returns the levels of computed values: 0 for one in an object, whose depth the JSON reader limits.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::List(List::Computed(made)) => made.depth(),
            Self::Map(Map::Computed(made)) => made.depth(),
            Self::Optional(Some(made)) => made.depth(),
            _ => 0,
        }
    }

    /// Returns the greatest depth of some values.
    pub(super) fn deepest<'v>(values: impl IntoIterator<Item = &'v Self>) -> usize
    where
        'a: 'v,
    {
        values
            .into_iter()
            .map(Self::depth)
            .max()
            .unwrap_or_default()
    }

    pub(crate) fn size(size: usize) -> Self {
        Self::Int(i64::try_from(size).unwrap_or(i64::MAX))
    }

    /// Returns the name of the value's type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
            Self::List(_) => "list",
            Self::Map(Map::Object(..)) => "object",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Check(check) => check.type_name(),
        }
    }

    /// Numbers are equal across their types.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(two)) => one == two,
            (Self::Bytes(one), Self::Bytes(two)) => one == two,
            (Self::Type(one), Self::Type(two)) | (Self::Format(one), Self::Format(two)) => {
                one == two
            }
            (Self::List(one), Self::List(two)) => {
                one.len() == two.len()
                    && one
                        .iter()
                        .zip(two.iter())
                        .all(|(one, two)| one.equals(&two))
            }
            (Self::Map(one), Self::Map(two)) if one.is_told_apart(two) => false,
            (Self::Map(one), Self::Map(two)) => {
                let (own, others) = (one.entries(), two.entries());
                own.len() == others.len()
                    && own
                        .iter()
                        .all(|(key, value)| two.get(key).is_some_and(|other| value.equals(&other)))
            }
            (Self::Optional(one), Self::Optional(two)) => match (one, two) {
                (Some(one), Some(two)) => one.equals(two.part()),
                (one, two) => one.is_none() == two.is_none(),
            },
            (Self::Url(one), Self::Url(two)) => one.to_string() == two.to_string(),
            (Self::Semver(one), Self::Semver(two)) => one.compare(two).is_eq(),
            (Self::Ip(one), Self::Ip(two)) => one == two,
            (Self::Cidr(one, bits), Self::Cidr(two, other_bits)) => {
                one == two && bits == other_bits
            }
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }

    /// Compares two values; `None` where they have no order.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        #[allow(
            clippy::cast_precision_loss,
            reason = "as CEL compares numbers of different types"
        )]
        match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => Some(one.cmp(two)),
            (Self::Int(one), Self::Int(two)) => Some(one.cmp(two)),
            (Self::Uint(one), Self::Uint(two)) => Some(one.cmp(two)),
            (Self::Int(one), Self::Uint(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
            (Self::Uint(one), Self::Int(two)) => Some(i128::from(*one).cmp(&i128::from(*two))),
            (Self::Double(one), Self::Double(two)) => one.partial_cmp(two),
            (Self::Double(one), Self::Int(two)) => one.partial_cmp(&(*two as f64)),
            (Self::Int(one), Self::Double(two)) => (*one as f64).partial_cmp(two),
            (Self::Double(one), Self::Uint(two)) => one.partial_cmp(&(*two as f64)),
            (Self::Uint(one), Self::Double(two)) => (*one as f64).partial_cmp(two),
            (Self::String(one), Self::String(two)) => Some((**one).cmp(&**two)),
            (Self::Bytes(one), Self::Bytes(two)) => Some(one.cmp(two)),
            (Self::Timestamp(one), Self::Timestamp(two)) => one.partial_cmp(two),
            (Self::Duration(one), Self::Duration(two)) => Some(one.cmp(two)),
            (Self::Quantity(one), Self::Quantity(two)) => Some(one.cmp(two)),
            _ => None,
        }
    }
}

/// Returns an order as the functions `compareTo` do.
pub(super) fn order(order: Ordering) -> i64 {
    match order {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}
