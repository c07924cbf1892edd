//! Compiles an OpenAPI v3 schema.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::{
    AdditionalFields, Node, Scalar, Schema, Type,
    published::{shape, type_name},
};

impl Schema {
    /// Compiles the schema of a published type, such as `io.k8s.api.core.v1.Pod`.
    pub fn published(name: &str) -> Self {
        let mut compiler = Compiler::default();
        let root = compiler.add_named(name);
        Self {
            nodes: compiler.nodes,
            root,
        }
    }
}

/// Suffixes of published types that accept any JSON value although their schema says object.
const UNTYPED_SCHEMAS: [&str; 6] = [
    ".RawExtension",
    ".FieldsV1",
    ".JSON",
    ".JSONSchemaPropsOrArray",
    ".JSONSchemaPropsOrBool",
    ".JSONSchemaPropsOrStringArray",
];

#[derive(Default)]
struct Compiler {
    /// Types that are compiled or being compiled, by name: a recursive type finds its own index here.
    named: HashMap<String, usize>,
    nodes: Vec<Node>,
}

impl Compiler {
    fn add(&mut self, schema: &Value) -> usize {
        match reference(schema) {
            Some(path) => self.add_named(type_name(path)),
            None => {
                let at = self.reserve();
                self.fill(at, schema);
                at
            }
        }
    }

    fn add_named(&mut self, name: &str) -> usize {
        if let Some(at) = self.named.get(name) {
            return *at;
        }
        let at = self.reserve();
        self.named.insert(name.to_owned(), at);
        if name.ends_with(".Quantity") {
            self.set(
                at,
                Node::Scalar(Scalar {
                    type_: Type::Quantity,
                    nullable: true,
                }),
            );
        } else if UNTYPED_SCHEMAS.iter().any(|end| name.ends_with(end)) {
            self.set(at, Node::Any);
        } else if let Some(schema) = shape(name) {
            self.fill(at, &schema);
        }
        at
    }

    fn reserve(&mut self) -> usize {
        self.nodes.push(Node::Any);
        self.nodes.len() - 1
    }

    fn set(&mut self, at: usize, node: Node) {
        if let Some(place) = self.nodes.get_mut(at) {
            *place = node;
        }
    }

    fn fill(&mut self, at: usize, schema: &Value) {
        let nullable = flag(schema, "nullable");
        let node = match schema.get("type").and_then(Value::as_str) {
            _ if flag(schema, "x-kubernetes-int-or-string") => Node::Scalar(Scalar {
                type_: Type::IntOrString,
                nullable,
            }),
            Some("object") => self.object(schema, nullable),
            Some("array") => match schema.get("items") {
                Some(items) => Node::List {
                    items: self.add(items),
                    nullable,
                },
                None => Node::Any,
            },
            Some(type_) => scalar(schema, type_, nullable),
            None => Node::Any,
        };
        self.set(at, node);
    }

    fn object(&mut self, schema: &Value, nullable: bool) -> Node {
        let properties = schema.get("properties").and_then(Value::as_object);
        let additional = schema
            .get("additionalProperties")
            .filter(|value| value.is_object());
        let others = match (properties, additional) {
            (_, Some(values)) => AdditionalFields::Map(self.add(values)),
            _ if flag(schema, "additionalProperties") => AdditionalFields::Kept,
            (Some(_), None) => AdditionalFields::Unknown,
            // an object of which nothing is said
            (None, None) => AdditionalFields::Kept,
        };
        let fields: BTreeMap<_, _> = properties
            .into_iter()
            .flatten()
            .map(|(name, field)| (name.as_str().into(), self.add(field)))
            .collect();
        Node::Object {
            fields,
            others,
            nullable,
        }
    }
}

fn scalar(schema: &Value, type_: &str, nullable: bool) -> Node {
    let format = schema
        .get("format")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let type_ = match (type_, format) {
        ("string", "byte") => Type::Bytes,
        ("string", "date-time") => Type::Time,
        ("string", _) => Type::String,
        ("boolean", _) => Type::Boolean,
        ("integer", "int32") => Type::Int32,
        ("integer", _) => Type::Int64,
        ("number", _) => Type::Number,
        _ => return Node::Any,
    };
    Node::Scalar(Scalar { type_, nullable })
}

/// Returns the `$ref`, also where a description beside it made it `allOf: [{$ref}]`.
fn reference(schema: &Value) -> Option<&str> {
    let direct = schema.get("$ref").and_then(Value::as_str);
    direct.or_else(|| schema.pointer("/allOf/0/$ref").and_then(Value::as_str))
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}
