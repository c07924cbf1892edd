//! The document of the MQTT topics.

use serde_json::{Map, Value, json};
use wire::{
    kind::schema::Schemas,
    topic::{DEVICE, DeviceTopic, NODE, NodeTopic, SUBSCRIPTIONS},
    twin, version,
};

/// Returns who publishes on a topic of a device (whether the agent does), and the payload.
pub(super) fn device(topic: DeviceTopic, schemas: &mut Schemas) -> (bool, Value) {
    use DeviceTopic as T;
    match topic {
        T::TwinUpdateResult | T::TwinGetResult => (true, either::<twin::TwinUpdate>(schemas)),
        T::TwinUpdateDocument => (true, schemas.of::<twin::TwinDocument>()),
        T::TwinUpdateDelta => (true, schemas.of::<twin::TwinDelta>()),
        T::StateUpdateResult | T::StateGetResult => (true, either::<twin::StateResult>(schemas)),
        T::TwinCloudUpdated => (true, schemas.of::<twin::TwinUpdate>()),
        T::Updated => (true, schemas.of::<twin::DeviceUpdate>()),
        T::TwinUpdate | T::TwinEdgeUpdated => (false, schemas.of::<twin::TwinUpdate>()),
        T::TwinGet | T::StateGet => (false, schemas.of::<twin::Event>()),
        T::StateUpdate => (false, schemas.of::<twin::DeviceUpdate>()),
    }
}

/// The same for a topic of a node.
pub(super) fn node(topic: NodeTopic, schemas: &mut Schemas) -> (bool, Value) {
    use NodeTopic as T;
    match topic {
        T::MembershipDetailResult | T::MembershipGetResult => {
            (true, schemas.of::<twin::MembershipList>())
        }
        T::AuthInfoGetResult => (true, json!({"type": "object"})),
        T::MembershipUpdated => (true, schemas.of::<twin::MembershipUpdate>()),
        T::MembershipDetail | T::MembershipGet | T::AuthInfoGet => {
            (false, schemas.of::<twin::Event>())
        }
    }
}

fn either<T: schemars::JsonSchema>(schemas: &mut Schemas) -> Value {
    json!({"anyOf": [schemas.of::<T>(), schemas.of::<twin::Refusal>()]})
}

struct Channels {
    channels: Map<String, Value>,
    operations: Map<String, Value>,
}

impl Channels {
    fn add(
        &mut self,
        name: String,
        address: String,
        summary: &str,
        (is_agents, payload): (bool, Value),
    ) {
        let parameters: Map<String, Value> = [
            ("device", "`<namespace>/<name>`"),
            ("node", "The node's name."),
            ("rest", "Any levels."),
        ]
        .into_iter()
        .filter(|(parameter, _)| address.contains(&format!("{{{parameter}}}")))
        .map(|(parameter, what)| (parameter.to_owned(), json!({"description": what})))
        .collect();
        let mut channel = json!({
            "address": address,
            "messages": {"message": {"name": name, "summary": summary, "contentType": "application/json", "payload": payload}},
        });
        if !parameters.is_empty() {
            channel["parameters"] = Value::Object(parameters);
        }
        let action = if is_agents { "send" } else { "receive" };
        let operation = json!({
            "action": action,
            "channel": {"$ref": format!("#/channels/{name}")},
            "summary": summary,
            "messages": [{"$ref": format!("#/channels/{name}/messages/message")}],
        });
        self.operations.insert(format!("{action}{name}"), operation);
        self.channels.insert(name, channel);
    }
}

/// Returns the document.
pub(super) fn document() -> Value {
    let mut schemas = Schemas::default();
    let mut all = Channels {
        channels: Map::new(),
        operations: Map::new(),
    };
    for topic in DeviceTopic::ALL {
        let address = format!("{DEVICE}{{device}}/{}", topic.as_str());
        all.add(
            format!("Device{topic:?}"),
            address,
            topic.summary(),
            device(*topic, &mut schemas),
        );
    }
    for topic in NodeTopic::ALL {
        let address = format!("{NODE}{{node}}/{}", topic.as_str());
        all.add(
            format!("Node{topic:?}"),
            address,
            topic.summary(),
            node(*topic, &mut schemas),
        );
    }
    json!({
        "asyncapi": "3.0.0",
        "id": "urn:kubeedge:mqtt",
        "info": {
            "title": "KubeEdge: MQTT topics of an edge node",
            "version": version::KUBEEDGE.trim_start_matches('v'),
            "description": "The operations are those of the agent: it receives what mappers and applications publish. Other topics are sent to the cloud if a rule listens to them.",
            "license": {"name": "Apache-2.0"},
        },
        "servers": {
            "broker": {"host": "127.0.0.1:1883", "protocol": "mqtt", "description": "The broker of the node."},
        },
        "channels": all.channels,
        "operations": all.operations,
        "components": {"schemas": schemas.into_definitions()},
        "x-subscriptions": SUBSCRIPTIONS,
    })
}
