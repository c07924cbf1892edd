//! The document of the session between edge and cloud.

use serde_json::{Map, Value, json};
use wire::{
    Message, Operation, Route, compression, instance, json as codec,
    kind::{Content, DOWN, MessageKind, Resent, UP, Users, schema::Schemas},
    lane, session, version,
};

use super::captures::captures;

/// Returns the identifier of a message of this name in the document.
pub(super) fn id(name: &str) -> String {
    name.to_owned()
}

/// Reports whether the cloud waits for an acknowledgement of messages of a kind.
pub(super) fn is_acknowledged<F>(kind: &MessageKind<F>) -> bool {
    let mut route: Route = kind.route();
    route.resource = kind.resource.pattern().into();
    if route.operation.is_empty() {
        route.operation = Operation::Other("Any".to_owned());
    }
    let content = match kind.content {
        [Content::Text(text) | Content::Only(text)] => json!(text),
        _ => json!({}),
    };
    lane::needs_ack(&Message::new(route, content, 1))
}

/// Returns the versions of KubeEdge that send messages of a kind; `None` if it is not in the document.
pub(super) fn versions(users: Users) -> Option<String> {
    match users {
        Users::Since(first) => Some(format!("{first} and later")),
        Users::Until(first, last) => Some(format!("{first} to {last}")),
        Users::Outrigger => Some("none; Outrigger only".to_owned()),
        Users::Nobody => None,
    }
}

/// Returns when a message is sent again.
pub(super) fn resent<F>(kind: &MessageKind<F>, is_down: bool) -> String {
    if is_down && is_acknowledged(kind) {
        return format!(
            "with the same id every {} s until it is acknowledged, {} times; then after other messages",
            lane::TIMEOUT.as_secs(),
            lane::ATTEMPTS
        );
    }
    match kind.resent {
        Resent::Never => "never".to_owned(),
        Resent::Fails(seconds) => format!("never; the sender waits {seconds} s for the answer"),
        Resent::SameId(seconds) => {
            format!("with the same id every {seconds} s until it is answered")
        }
        Resent::Periodic(seconds) => format!("a new one every {seconds} s"),
        Resent::UntilAnswered => {
            "by edge-agent with the same id until the cloud has answered; by EdgeCore never"
                .to_owned()
        }
    }
}

/// Returns the smallest captured message of a kind, without parts that are long and of no use here.
fn example(kind: &str) -> Option<Value> {
    let all = captures();
    let of_kind = all.iter().filter(|capture| capture.kind() == Some(kind));
    let smallest = of_kind.min_by_key(|capture| capture.text.len())?;
    let mut frame = smallest.frame.clone();
    shorten(&mut frame);
    Some(frame)
}

fn shorten(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("managedFields");
            map.values_mut().for_each(shorten);
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::String(text) if text.starts_with("-----BEGIN") => {
            *text = text.lines().take(1).collect();
        }
        // a token
        Value::String(text) if text.starts_with("eyJ") && text.contains('.') => {
            "eyJ...".clone_into(text);
        }
        _ => {}
    }
}

fn message<F>(schemas: &mut Schemas, kind: &MessageKind<F>, is_down: bool) -> Option<Value> {
    let mut message = json!({
        "name": kind.name,
        "title": kind.name.replace('-', " "),
        "summary": kind.summary,
        "contentType": "application/json",
        "payload": schemas.message(kind),
        "x-resource": kind.resource.pattern(),
        "x-acknowledged": is_down && is_acknowledged(kind),
        "x-resent": resent(kind, is_down),
        "x-kubeedge-versions": versions(kind.users)?,
    });
    if let Some(example) = example(kind.name) {
        message["examples"] = json!([{"name": "captured", "payload": example}]);
    }
    Some(message)
}

fn operation<F>(kind: &MessageKind<F>, action: &str) -> Value {
    let reference = |name: &str| json!({"$ref": format!("#/channels/session/messages/{name}")});
    let mut operation = json!({
        "action": action,
        "channel": {"$ref": "#/channels/session"},
        "summary": kind.summary,
        "messages": [reference(&id(kind.name))],
    });
    if !kind.replies.is_empty() {
        let replies: Vec<Value> = kind
            .replies
            .iter()
            .map(|name| reference(&id(name)))
            .collect();
        operation["reply"] =
            json!({"channel": {"$ref": "#/channels/session"}, "messages": replies});
    } else if action == "receive" && is_acknowledged(kind) {
        operation["reply"] = json!({"channel": {"$ref": "#/channels/session"}, "messages": [reference("acknowledgement")]});
    }
    operation
}

/// Adds the messages and operations of one direction.
fn add<F>(
    table: &[MessageKind<F>],
    action: &str,
    schemas: &mut Schemas,
    parts: &mut [Map<String, Value>; 3],
) {
    for kind in table {
        let Some(message) = message(schemas, kind, action == "receive") else {
            continue;
        };
        let [messages, channel, operations] = &mut *parts;
        let name = id(kind.name);
        channel.insert(
            name.clone(),
            json!({"$ref": format!("#/components/messages/{name}")}),
        );
        messages.insert(name, message);
        operations.insert(format!("{action}-{}", kind.name), operation(kind, action));
    }
}

/// Returns the headers of the upgrade.
fn headers() -> Value {
    let text = |what: &str| json!({"type": "string", "description": what});
    json!({
        "type": "object",
        "required": [session::USE_HEADER, session::NODE_HEADER],
        "properties": {
            session::USE_HEADER: {
                "type": "string",
                "const": session::USE_MESSAGES,
                "description": "With any other value CloudCore reads nothing.",
            },
            session::NODE_HEADER: text("The node's name. cloudsim compares it with the certificate."),
            session::PROJECT_HEADER: text("An identifier without meaning."),
            compression::HEADER: text("Outrigger only: offers compression of messages."),
            instance::HEADER: text("Outrigger only: identifies the running instance of an agent."),
        },
    })
}

/// Returns the document.
pub(super) fn document() -> Value {
    let mut schemas = Schemas::default();
    let mut parts = [Map::new(), Map::new(), Map::new()];
    add(DOWN, "receive", &mut schemas, &mut parts);
    add(UP, "send", &mut schemas, &mut parts);
    let [messages, channel, operations] = parts;
    json!({
        "asyncapi": "3.0.0",
        "id": "urn:kubeedge:hub",
        "info": {
            "title": "KubeEdge: session of an edge node with the cloud",
            "version": version::KUBEEDGE.trim_start_matches('v'),
            "description": INTRODUCTION,
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "cloudhub": {
                "host": "{cloud}:10000",
                "protocol": "wss",
                "description": "CloudHub",
                "variables": {"cloud": {"description": "The address of the cloud."}},
                "security": [{"$ref": "#/components/securitySchemes/certificate"}],
            },
        },
        "channels": {
            "session": {
                "address": "/{project}/{node}/events",
                "title": "Session",
                "description": format!(
                    "One WebSocket message is one message, in a text frame of {} bytes at most. The path has no meaning.",
                    codec::DEFAULT_LIMIT
                ),
                "parameters": {
                    "project": {"description": "An identifier without meaning.", "default": session::PROJECT},
                    "node": {"description": "The node's name."},
                },
                "messages": channel,
                "bindings": {"ws": {"method": "GET", "headers": headers(), "bindingVersion": "0.1.0"}},
            },
        },
        "operations": operations,
        "components": {
            "messages": messages,
            "schemas": schemas.into_definitions(),
            "securitySchemes": {
                "certificate": {"type": "X509", "description": "The client certificate from enrolment."},
            },
        },
    })
}

const INTRODUCTION: &str = "\
The operations are those of the edge node: it sends to the cloud and receives from it. Each message is a JSON document with a header, a \
route and a content. A receiver finds the kind of a message by its route. A message that answers another has its id as `parent_msg_id`. \
The cloud acknowledges nothing by itself. The node acknowledges each message that has `x-acknowledged`, after it has stored it, with an \
`acknowledgement`. Until then no other such message follows. `x-kubeedge-versions` are the minor versions of KubeEdge whose sources have \
the message; 0.3 is the oldest that was examined. Examples are from recorded traffic of KubeEdge 1.23.";
