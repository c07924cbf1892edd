//! The document of the stream tunnel.

use serde_json::{Map, Value, json};
use wire::{
    kind::schema::Schemas,
    tunnel::{ADDRESS_HEADER, Connect, Kind, MAX_DATA, NODE_HEADER, PATH, window},
    version,
};

/// Returns the data of a frame of this type.
fn data(kind: Kind, schemas: &mut Schemas) -> Value {
    match kind {
        Kind::Logs | Kind::Exec | Kind::Metrics | Kind::Attach => {
            json!({"type": "string", "description": "The JSON text of this value.", "contentMediaType": "application/json", "x-content": schemas.of::<Connect>()})
        }
        Kind::Data => json!({"type": "string", "format": "binary", "maxLength": MAX_DATA}),
        Kind::RemoveConnect => json!({"type": "string", "maxLength": 0}),
        Kind::CloseConnect => json!({"type": "string"}),
        Kind::Window => json!({"type": "string", "format": "binary", "description": "A uvarint."}),
    }
}

/// Returns the document.
pub(super) fn document() -> Value {
    let mut schemas = Schemas::default();
    let (mut messages, mut channel, mut operations) = (Map::new(), Map::new(), Map::new());
    for kind in Kind::ALL {
        let name = format!("{kind:?}");
        let reference = json!({"$ref": format!("#/channels/tunnel/messages/{name}")});
        messages.insert(name.clone(), json!({
            "name": name,
            "summary": kind.summary(),
            "contentType": "application/octet-stream",
            "payload": {
                "type": "object",
                "description": "The frame: two uvarints, then the data.",
                "required": ["id", "type", "data"],
                "properties": {
                    "id": {"type": "integer", "minimum": 0, "description": "The stream, chosen by the cloud. 0 is the tunnel itself."},
                    "type": {"type": "integer", "const": kind.number()},
                    "data": data(*kind, &mut schemas),
                },
            },
        }));
        channel.insert(
            name.clone(),
            json!({"$ref": format!("#/components/messages/{name}")}),
        );
        let actions: &[&str] = match kind.sender() {
            "cloud" => &["receive"],
            "edge" => &["send"],
            _ => &["receive", "send"],
        };
        for action in actions {
            operations.insert(
                format!("{action}{name}"),
                json!({"action": action, "channel": {"$ref": "#/channels/tunnel"}, "messages": [reference]}),
            );
        }
    }
    let text = |what: &str| json!({"type": "string", "description": what});
    let headers = json!({
        "type": "object",
        "required": [NODE_HEADER],
        "properties": {
            NODE_HEADER: text("The node's name."),
            ADDRESS_HEADER: text("The node's address."),
            window::HEADER: text("Outrigger only: the window of each stream, bytes."),
        },
    });
    json!({
        "asyncapi": "3.0.0",
        "id": "urn:kubeedge:tunnel",
        "info": {
            "title": "KubeEdge: stream tunnel for logs, exec, attach and metrics",
            "version": version::KUBEEDGE.trim_start_matches('v'),
            "description": "The operations are those of the edge node. Both ends send WebSocket text messages, although their bytes are arbitrary. EdgeCore verifies no server certificate here; edge-agent does.",
            "license": {"name": "Apache-2.0"},
        },
        "servers": {
            "cloudstream": {
                "host": "{cloud}:10004",
                "protocol": "wss",
                "description": "CloudStream",
                "variables": {"cloud": {"description": "The address of the cloud."}},
                "security": [{"$ref": "#/components/securitySchemes/certificate"}],
            },
        },
        "channels": {
            "tunnel": {
                "address": PATH,
                "messages": channel,
                "bindings": {"ws": {"method": "GET", "headers": headers, "bindingVersion": "0.1.0"}},
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

#[test]
fn every_captured_request_has_the_schema_of_its_type() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use wire::tunnel::Frame;

    let document = document();
    let mut checked = 0;
    for line in include_str!("../fixtures/tunnel/edgecore-cloudcore-1.23.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let Some(frame) = line["frame"].as_str() else {
            continue;
        };
        let frame = Frame::decode(STANDARD.decode(frame).unwrap().into()).unwrap();
        let pointer = format!(
            "/components/messages/{:?}/payload/properties/data",
            frame.kind
        );
        assert!(document.pointer(&pointer).is_some(), "{:?}", frame.kind);
        let content = format!("{pointer}/x-content");
        if document.pointer(&content).is_none() {
            continue;
        }
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "allOf": [{"$ref": format!("#{content}")}],
            "components": document["components"],
        });
        let value: Value = serde_json::from_slice(&frame.data).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}\n{value}");
        checked += 1;
    }
    assert_eq!(checked, 4);
}
