//! JSON schemas of messages (feature `spec`), in draft 7, as AsyncAPI has them. They describe what a sender writes; a receiver ignores
//! fields that it does not know.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Content, MessageKind, Resource, Shape};
use crate::{Header, application, bus, node_job, twin};

/// Where the schemas are that others refer to.
const DEFINITIONS: &str = "#/components/schemas/";

/// A shape as a schema; a method of the generator for each type.
type Define = fn(&mut SchemaGenerator) -> Value;

/// A strategic merge patch of the status of a Node or a pod.
#[derive(Serialize, JsonSchema)]
struct StatusPatch {
    /// The uid of a pod that is patched; another pod of the same name is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Value>,
    /// The changed fields of the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Map<String, Value>>,
}

/// `metav1.DeleteOptions`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions {
    /// Seconds until containers are killed; 0 deletes the object at once.
    grace_period_seconds: i64,
    /// What must be true of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<Preconditions>,
}

/// Conditions of a deletion.
#[derive(Serialize, JsonSchema)]
struct Preconditions {
    /// The uid of the object.
    uid: String,
}

/// An event with a patch for it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EventPatch {
    /// The event.
    event: Map<String, Value>,
    /// A strategic merge patch, as text.
    patch_data: String,
}

/// A task before node jobs.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
struct Task {
    /// The id of the task.
    #[serde(rename = "TaskID")]
    task_id: String,
    /// `upgrade` or `prepull`.
    #[serde(rename = "Type")]
    kind: String,
    /// The progress of the task.
    state: String,
    /// The parameters of the step.
    item: Map<String, Value>,
}

/// The outcome of a step of a task.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
struct TaskStatus {
    /// The node.
    node_name: String,
    /// The progress of the task.
    state: String,
    /// The step.
    event: String,
    /// `Success` or `Failure`.
    action: String,
    /// Why the step failed.
    reason: String,
    /// When it ended.
    time: String,
    /// Further values, such as the pulled images.
    external_message: String,
}

/// Bytes that are not UTF-8 text.
#[derive(Serialize, JsonSchema)]
struct Base64Payload {
    /// The bytes.
    base64: String,
}

/// The error of an API call.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
struct ErrStatus {
    /// A `metav1.Status`, without kind and apiVersion.
    err_status: Map<String, Value>,
}

/// The outcome of an API call that the cloud made for the edge.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
struct ObjectResp {
    /// The object after the call, usually without kind and apiVersion; `null` or blank if the call failed.
    object: Option<Map<String, Value>>,
    /// `null` if the call succeeded; otherwise `ErrStatus` with a `metav1.Status`, or nothing if the error has another type.
    err: Option<Map<String, Value>>,
}

impl Shape {
    /// The name of the shape, and its schema. A shape without a schema is any JSON object.
    fn definition(self) -> (&'static str, Option<Define>) {
        fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
            generator.subschema_for::<T>().to_value()
        }
        match self {
            Self::ObjectResp => ("ObjectResp", Some(of::<ObjectResp>)),
            Self::ErrStatus => ("ErrStatus", Some(of::<ErrStatus>)),
            Self::StatusPatch => ("StatusPatch", Some(of::<StatusPatch>)),
            Self::DeleteOptions => ("DeleteOptions", Some(of::<DeleteOptions>)),
            Self::EventPatch => ("EventPatch", Some(of::<EventPatch>)),
            Self::MembershipQuestion => {
                ("MembershipQuestion", Some(of::<twin::MembershipQuestion>))
            }
            Self::MembershipUpdate => ("MembershipUpdate", Some(of::<twin::MembershipUpdate>)),
            Self::MembershipList => ("MembershipList", Some(of::<twin::MembershipList>)),
            Self::TwinUpdate => ("TwinUpdate", Some(of::<twin::TwinUpdate>)),
            Self::StateResult => ("StateResult", Some(of::<twin::StateResult>)),
            Self::Terms => ("Terms", Some(of::<bus::Terms>)),
            Self::Base64Payload => ("Base64Payload", Some(of::<Base64Payload>)),
            Self::ServiceRequest => ("ServiceRequest", Some(of::<bus::ServiceRequest>)),
            Self::ServiceResponse => ("ServiceResponse", Some(of::<bus::ServiceResponse>)),
            Self::LocalCall => ("LocalCall", Some(of::<bus::LocalCall>)),
            Self::Application => ("Application", Some(of::<application::Application>)),
            Self::Watches => ("Watches", Some(of::<application::Watches>)),
            Self::JobSpec => ("spec of the job", None),
            Self::ActionStatus => ("ActionStatus", Some(of::<node_job::ActionStatus>)),
            Self::Task => ("Task", Some(of::<Task>)),
            Self::TaskStatus => ("TaskStatus", Some(of::<TaskStatus>)),
            Self::CsiRequest => ("CSI request", None),
            Self::CsiResponse => ("CSI response", None),
        }
    }

    /// Returns the name of the shape.
    pub fn name(self) -> &'static str {
        self.definition().0
    }

    fn schema(self, generator: &mut SchemaGenerator) -> Value {
        match self.definition() {
            (_, Some(define)) => define(generator),
            (name, None) => json!({"type": "object", "description": format!("The {name}.")}),
        }
    }
}

impl Content {
    /// Returns the content in words, with code in backquotes.
    pub fn summary(&self) -> String {
        match self {
            Self::Null | Self::OnlyNull => "`null`".to_owned(),
            Self::Text(text) | Self::Only(text) => format!("`\"{text}\"`"),
            Self::AnyText(what) => format!("{what}, as text"),
            Self::Object(_, kind) => format!("{kind} object"),
            Self::AnyObject => "object".to_owned(),
            Self::Json(shape) => shape.name().to_owned(),
            Self::JsonText(shape) => format!("{} as JSON text", shape.name()),
            Self::Base64(shape) => format!("{} as JSON in base64", shape.name()),
        }
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Value {
        let object = json!({"$ref": format!("{DEFINITIONS}KubernetesObject")});
        match self {
            Self::Null | Self::OnlyNull => json!({"type": "null"}),
            Self::Text(text) | Self::Only(text) => json!({"type": "string", "const": text}),
            Self::AnyText(what) => {
                json!({"type": "string", "description": format!("This is {what}.")})
            }
            Self::Object(version, kind) => json!({
                "allOf": [object],
                "properties": {"apiVersion": {"const": version}, "kind": {"const": kind}},
            }),
            Self::AnyObject => object,
            Self::Json(shape) => shape.schema(generator),
            Self::JsonText(shape) => {
                encoded_text("The JSON text of this value.", &shape.schema(generator))
            }
            Self::Base64(shape) => encoded_text(
                "The JSON text of this value, in base64.",
                &shape.schema(generator),
            ),
        }
    }
}

/// Returns the schema of a string that holds a value: tools that know only draft 7 check that it is a string.
fn encoded_text(what: &str, schema: &Value) -> Value {
    json!({"type": "string", "description": what, "contentMediaType": "application/json", "x-content": schema})
}

/// Returns the schema of Kubernetes objects, of which the protocol uses the metadata.
fn kubernetes_object() -> Value {
    json!({
        "type": "object",
        "description": "A Kubernetes object. Its fields are those of the API; kind and apiVersion are often absent.",
        "required": ["metadata"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "namespace": {"type": "string"},
                    "uid": {"type": "string"},
                    "resourceVersion": {"type": "string", "pattern": "^[0-9]*$"},
                    "deletionTimestamp": {"type": "string", "format": "date-time"},
                },
            },
        },
    })
}

/// Returns the regular expression of a resource.
fn resource_pattern(resource: &Resource) -> String {
    const LEVEL: &str = "[^/]+";
    match resource {
        Resource::Namespaced(kind) => format!("^{LEVEL}/{kind}/{LEVEL}$"),
        Resource::AnyObject => format!("^{LEVEL}/{LEVEL}(/{LEVEL})?$"),
        other => {
            let mut pattern = String::from("^");
            let mut is_variable = false;
            for letter in other.pattern().chars() {
                match letter {
                    '{' => (is_variable, pattern) = (true, pattern + ".+"),
                    '}' => is_variable = false,
                    _ if is_variable => {}
                    '.' => pattern.push_str("\\."),
                    letter => pattern.push(letter),
                }
            }
            pattern + "$"
        }
    }
}

/// Returns the schema of one of these words.
fn words(words: &[&str]) -> Value {
    match words {
        [] => json!({"type": "string"}),
        [word] => json!({"type": "string", "const": word}),
        words => json!({"type": "string", "enum": words}),
    }
}

/// Returns the schema of a kind's route. Words that are empty are absent.
fn route_schema<F>(kind: &MessageKind<F>) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    let mut add = |name: &'static str, schema: Value| {
        required.push(name);
        properties.insert(name.to_owned(), schema);
    };
    let sources: Vec<_> = kind.sources.iter().map(|word| word.as_str()).collect();
    let operations: Vec<_> = kind.operations.iter().map(|word| word.as_str()).collect();
    let groups: Vec<_> = kind.group.iter().map(|word| word.as_str()).collect();
    for (name, choice) in [
        ("source", sources),
        ("group", groups),
        ("operation", operations),
    ] {
        if choice != [""] {
            add(name, words(&choice));
        }
    }
    if kind.resource == Resource::Absent {
        let absent = if required.is_empty() {
            json!({"type": "object", "maxProperties": 0})
        } else {
            json!({"type": "object", "required": required, "properties": properties, "not": {"required": ["resource"]}})
        };
        return absent;
    }
    let resource = match &kind.resource {
        Resource::Exact(text) => json!({"type": "string", "const": text}),
        other => json!({"type": "string", "pattern": resource_pattern(other)}),
    };
    add("resource", resource);
    json!({"type": "object", "required": required, "properties": properties})
}

/// Generates the schemas of messages, and the ones that they refer to.
pub struct Schemas(SchemaGenerator);

impl Default for Schemas {
    fn default() -> Self {
        let settings = SchemaSettings::draft07().for_serialize().with(|settings| {
            settings.definitions_path = DEFINITIONS.trim_start_matches('#').into()
        });
        Self(settings.into_generator())
    }
}

impl Schemas {
    /// Returns the schema of a type.
    pub fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().to_value()
    }

    /// Returns the schema of the messages of a kind.
    pub fn message<F>(&mut self, kind: &MessageKind<F>) -> Value {
        let mut contents: Vec<Value> = kind
            .content
            .iter()
            .map(|content| content.schema(&mut self.0))
            .collect();
        let content = match contents.len() {
            0 => json!({}),
            1 => contents.remove(0),
            _ => json!({"anyOf": contents}),
        };
        json!({
            "type": "object",
            "required": ["header", "route", "content"],
            "properties": {
                "header": self.of::<Header>(),
                "route": route_schema(kind),
                "content": content,
            },
        })
    }

    /// Returns the schemas that others refer to, by name.
    pub fn into_definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.0.take_definitions(true);
        definitions.insert("KubernetesObject".to_owned(), kubernetes_object());
        definitions.sort_keys();
        definitions
    }
}
