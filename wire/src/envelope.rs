//! The envelope of every message: header, route, content, exactly as they stand in JSON.
//!
//! Source: KubeEdge's beehive message model.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{Group, Operation, ResourcePath, Source};

/// One message between edge and cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who sent it when, and what it answers.
    #[serde(default)]
    pub header: Header,
    /// From which module, about what.
    #[serde(default)]
    pub route: Route,
    /// What it says; `null` is written where there is nothing to say.
    #[serde(default)]
    pub content: Value,
}

/// Ids, time and revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// A random UUID; acknowledgements and answers name it.
    #[serde(default)]
    pub msg_id: String,
    /// The message that this one answers; empty on unsolicited messages.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parent_msg_id: String,
    /// Milliseconds since the Unix epoch, at creation.
    #[serde(default)]
    pub timestamp: i64,
    /// The object's revision, decimal; every acknowledged object message carries one.
    #[serde(default, rename = "resourceversion", skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Always absent on the wire.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync: bool,
    /// Unused by KubeEdge.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

/// Where a message comes from and what it is about. Empty parts are absent from the JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The module that sent it.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "Source::is_empty")]
    pub source: Source,
    /// Never set by KubeEdge.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// Which modules it is for.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "Group::is_empty")]
    pub group: Group,
    /// The verb.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "Operation::is_empty")]
    pub operation: Operation,
    /// The noun.
    #[serde(default, skip_serializing_if = "ResourcePath::is_empty")]
    pub resource: ResourcePath,
}

fn text<'de, D: Deserializer<'de>, T: From<String>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer).map(T::from)
}

impl Message {
    /// A new unsolicited message; `now` in milliseconds since the Unix epoch.
    pub fn new(route: Route, content: Value, now: i64) -> Self {
        let header = Header { msg_id: Self::new_id(), timestamp: now, ..Header::default() };
        Self { header, route, content }
    }

    /// A fresh message id.
    pub fn new_id() -> String {
        uuid::Uuid::new_v4().to_string()
    }

    /// The same message as an answer to the message with this id.
    pub fn answering(mut self, parent: &str) -> Self {
        parent.clone_into(&mut self.header.parent_msg_id);
        self
    }

    /// The same message bearing an object's revision.
    pub fn at_revision(mut self, revision: &str) -> Self {
        revision.clone_into(&mut self.header.resource_version);
        self
    }

    /// The acknowledgement that the cloud's reliable lane waits for: operation `response`, content `OK`, the request's id as
    /// parent. Inserted and deleted devices and models are acknowledged as EdgeCore does it, from `meta` to `twin`.
    pub fn acknowledgement(&self, now: i64) -> Self {
        let twin = self.route.source == Source::DeviceController
            && matches!(self.route.operation, Operation::Insert | Operation::Delete);
        let (source, group) =
            if twin { (Source::Meta, Group::Twin) } else { (self.route.source.clone(), self.route.group.clone()) };
        let route = Route {
            source,
            group,
            operation: Operation::Response,
            resource: self.route.resource.clone(),
            destination: String::new(),
        };
        Self::new(route, Value::from("OK"), now).answering(&self.header.msg_id)
    }

    /// The content as a receiver in Go sees its bytes: the characters of a string, else the JSON text.
    pub fn content_bytes(&self) -> Vec<u8> {
        match &self.content {
            Value::String(text) => text.clone().into_bytes(),
            other => other.to_string().into_bytes(),
        }
    }

    /// The content as JSON, whether it was sent as a value or as a string that holds JSON text.
    pub fn content_json(&self) -> Result<Value, serde_json::Error> {
        match &self.content {
            Value::String(text) => serde_json::from_str(text),
            other => Ok(other.clone()),
        }
    }
}
