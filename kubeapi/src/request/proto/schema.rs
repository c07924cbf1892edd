//! The published messages: numbers, JSON names and types of their fields, and when JSON leaves a field out.
//!
//! They stand in `tables/`, a file for each group and version, in the order of the JSON. `kind` heads a message that can be
//! a body, `part` one within others, and `union` one whose JSON is the JSON of its last field that is there. Below it is a
//! line for each field: number, name, type.
//!
//! | type | JSON |
//! |---|---|
//! | `T` | left out when it is zero, except objects |
//! | `T?` | left out when absent |
//! | `[T]`, `{T}` | a list, or a map of strings to `T`; left out when empty |
//! | `…!` | never left out: zero, or null where there is none |
//!
//! The name `..` stands for a message whose fields are those of the outer object. `meta.T` is `T` of the table `meta`.

use std::{collections::HashMap, sync::LazyLock};

use super::{error::Error, scalar::Scalar};

/// A table: name in references, `apiVersion`, text.
type Table = (&'static str, &'static str, &'static str);

const TABLES: &[Table] = &[
    ("meta", "meta.k8s.io/v1", include_str!("tables/meta.txt")),
    ("core", "v1", include_str!("tables/core.txt")),
    (
        "admissionregistration",
        "admissionregistration.k8s.io/v1",
        include_str!("tables/admissionregistration.txt"),
    ),
    (
        "apiextensions",
        "apiextensions.k8s.io/v1",
        include_str!("tables/apiextensions.txt"),
    ),
    (
        "apiregistration",
        "apiregistration.k8s.io/v1",
        include_str!("tables/apiregistration.txt"),
    ),
    ("apps", "apps/v1", include_str!("tables/apps.txt")),
    (
        "authentication",
        "authentication.k8s.io/v1",
        include_str!("tables/authentication.txt"),
    ),
    (
        "authorization",
        "authorization.k8s.io/v1",
        include_str!("tables/authorization.txt"),
    ),
    (
        "autoscaling_v1",
        "autoscaling/v1",
        include_str!("tables/autoscaling_v1.txt"),
    ),
    (
        "autoscaling_v2",
        "autoscaling/v2",
        include_str!("tables/autoscaling_v2.txt"),
    ),
    ("batch", "batch/v1", include_str!("tables/batch.txt")),
    (
        "certificates",
        "certificates.k8s.io/v1",
        include_str!("tables/certificates.txt"),
    ),
    (
        "coordination",
        "coordination.k8s.io/v1",
        include_str!("tables/coordination.txt"),
    ),
    (
        "discovery",
        "discovery.k8s.io/v1",
        include_str!("tables/discovery.txt"),
    ),
    (
        "events",
        "events.k8s.io/v1",
        include_str!("tables/events.txt"),
    ),
    (
        "flowcontrol",
        "flowcontrol.apiserver.k8s.io/v1",
        include_str!("tables/flowcontrol.txt"),
    ),
    (
        "networking",
        "networking.k8s.io/v1",
        include_str!("tables/networking.txt"),
    ),
    ("node", "node.k8s.io/v1", include_str!("tables/node.txt")),
    ("policy", "policy/v1", include_str!("tables/policy.txt")),
    (
        "rbac",
        "rbac.authorization.k8s.io/v1",
        include_str!("tables/rbac.txt"),
    ),
    (
        "resource",
        "resource.k8s.io/v1",
        include_str!("tables/resource.txt"),
    ),
    (
        "scheduling",
        "scheduling.k8s.io/v1",
        include_str!("tables/scheduling.txt"),
    ),
    (
        "storage",
        "storage.k8s.io/v1",
        include_str!("tables/storage.txt"),
    ),
];

/// All messages. They refer to each other by their place.
#[derive(Debug)]
pub(super) struct Schema {
    messages: Vec<Message>,
    /// By `apiVersion` and kind.
    pub(super) kinds: HashMap<(&'static str, &'static str), MessageId>,
}

/// A message's place in the [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageId(usize);

/// A message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) name: &'static str,
    /// Whether its JSON is that of its last field which is there.
    pub(super) union: bool,
    /// In the order of the JSON.
    pub(super) fields: Vec<Field>,
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// Whether JSON has it even when it is zero or absent.
    pub(super) always: bool,
    pub(super) of: Type,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One, which is zero when it is absent.
    Value,
    /// One or none.
    Optional,
    List,
    Map,
    /// One, whose fields are the outer object's.
    Inline,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Scalar(Scalar),
    Message(MessageId),
}

impl Schema {
    /// The published API's, parsed on first use: most processes never see a protobuf body.
    pub(super) fn published_schema() -> Result<&'static Self, Error> {
        static PUBLISHED: LazyLock<Result<Schema, &'static str>> =
            LazyLock::new(|| Schema::parse(TABLES));
        PUBLISHED.as_ref().map_err(|line| Error::Schema { line })
    }

    /// The message of a kind. `DeleteOptions` is a kind of every group and version.
    pub(super) fn kind(&self, api_version: &str, kind: &str) -> Option<MessageId> {
        let of = |version| self.kinds.get(&(version, kind)).copied();
        of(api_version).or_else(|| of("meta.k8s.io/v1"))
    }

    pub(super) fn message(&self, id: MessageId) -> &Message {
        &self.messages[id.0]
    }

    /// Fails with the first line that is wrong.
    pub(super) fn parse(tables: &[Table]) -> Result<Self, &'static str> {
        let mut schema = Self {
            messages: Vec::new(),
            kinds: HashMap::new(),
        };
        let mut ids = HashMap::new();
        // messages refer to later ones, so all get their place first
        for &(table, api_version, text) in tables {
            for line in text.lines() {
                let Some((head, name)) = heading(line) else {
                    continue;
                };
                let id = MessageId(schema.messages.len());
                ids.insert((table, name), id);
                if head == "kind" {
                    schema.kinds.insert((api_version, name), id);
                }
                schema.messages.push(Message {
                    name,
                    union: head == "union",
                    fields: Vec::new(),
                });
            }
        }
        let mut messages = schema.messages.iter_mut();
        let mut current = None;
        for &(table, _, text) in tables {
            for line in text.lines() {
                if heading(line).is_some() {
                    current = messages.next();
                    continue;
                }
                let message = current.as_mut().ok_or(line)?;
                message
                    .fields
                    .push(Field::parse(line, table, &ids).ok_or(line)?);
            }
        }
        for message in &mut schema.messages {
            message.fields.shrink_to_fit();
        }
        Ok(schema)
    }
}

fn heading(line: &'static str) -> Option<(&'static str, &'static str)> {
    line.split_once(' ')
        .filter(|(head, _)| matches!(*head, "kind" | "part" | "union"))
}

type Ids = HashMap<(&'static str, &'static str), MessageId>;

impl Field {
    fn parse(line: &'static str, table: &'static str, ids: &Ids) -> Option<Self> {
        let mut words = line.split(' ');
        let (number, name, of) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        let (of, always) = of.strip_suffix('!').map_or((of, false), |of| (of, true));
        let within = |open, close| {
            of.strip_prefix(open)
                .and_then(|of: &'static str| of.strip_suffix(close))
        };
        let (shape, of) = match (within('[', ']'), within('{', '}'), of.strip_suffix('?')) {
            _ if name == ".." => (Shape::Inline, of),
            (Some(of), ..) => (Shape::List, of),
            (_, Some(of), _) => (Shape::Map, of),
            (.., Some(of)) => (Shape::Optional, of),
            _ => (Shape::Value, of),
        };
        let of = Type::parse(of, table, ids)?;
        words.next().is_none().then_some(Self {
            number,
            name,
            shape,
            always,
            of,
        })
    }
}

impl Type {
    fn parse(text: &'static str, table: &'static str, ids: &Ids) -> Option<Self> {
        if let Some(scalar) = Scalar::named(text) {
            return Some(Self::Scalar(scalar));
        }
        ids.get(&text.split_once('.').unwrap_or((table, text)))
            .copied()
            .map(Self::Message)
    }
}
