//! From an OpenAPI v3 schema document to a compiled schema.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::{
    Node, Others, Scalar, Schema, Type,
    published::{shape, type_name},
};

impl Schema {
    /// Of a published type, such as `io.k8s.api.core.v1.Pod`.
    pub(crate) fn published(name: &str) -> Self {
        let mut compiler = Compiler::default();
        let root = compiler.add_named(name);
        Self { nodes: compiler.nodes, root }
    }
}

/// Published types that are not what their schema says: it can only say that they are objects.
const ANYTHING: [&str; 6] = [
    ".RawExtension",
    ".FieldsV1",
    ".JSON",
    ".JSONSchemaPropsOrArray",
    ".JSONSchemaPropsOrBool",
    ".JSONSchemaPropsOrStringArray",
];

#[derive(Default)]
struct Compiler {
    /// Types compiled or in work, by name: one that contains itself meets its own place here.
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
            self.set(at, Node::Scalar(Scalar { type_: Type::Quantity, nullable: true }));
        } else if ANYTHING.iter().any(|end| name.ends_with(end)) {
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
            _ if flag(schema, "x-kubernetes-int-or-string") => {
                Node::Scalar(Scalar { type_: Type::IntOrString, nullable })
            }
            Some("object") => self.object(schema, nullable),
            Some("array") => match schema.get("items") {
                Some(items) => Node::List { items: self.add(items), nullable },
                None => Node::Any,
            },
            Some(type_) => scalar(schema, type_, nullable),
            None => Node::Any,
        };
        self.set(at, node);
    }

    fn object(&mut self, schema: &Value, nullable: bool) -> Node {
        let properties = schema.get("properties").and_then(Value::as_object);
        let additional = schema.get("additionalProperties").filter(|value| value.is_object());
        let others = match (properties, additional) {
            (_, Some(values)) => Others::Map(self.add(values)),
            _ if flag(schema, "additionalProperties") => Others::Kept,
            (Some(_), None) => Others::Unknown,
            // an object of which nothing is said
            (None, None) => Others::Kept,
        };
        let fields: BTreeMap<_, _> = properties
            .into_iter()
            .flatten()
            .map(|(name, field)| (name.as_str().into(), self.add(field)))
            .collect();
        Node::Object { fields, others, nullable }
    }
}

fn scalar(schema: &Value, type_: &str, nullable: bool) -> Node {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
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

/// `$ref`, also where a description beside it made it `allOf: [{$ref}]`.
fn reference(schema: &Value) -> Option<&str> {
    let direct = schema.get("$ref").and_then(Value::as_str);
    direct.or_else(|| schema.pointer("/allOf/0/$ref").and_then(Value::as_str))
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}
