//! The envelope of every message: header, route and content, as they appear in JSON.
//!
//! Unknown fields are ignored, and `null` leaves a field empty, as in Go's decoder. Source: KubeEdge's beehive message model.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{Group, Operation, ResourcePath, Source, text::printable_short};

/// One message between edge and cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Ids, time and revision of the message.
    #[serde(default, deserialize_with = "or_null")]
    pub header: Header,
    /// The sending module and the subject of the message.
    #[serde(default, deserialize_with = "or_null")]
    pub route: Route,
    /// The content; an empty content is written as `null`.
    #[serde(default)]
    pub content: Value,
}

/// Ids, time and revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Header {
    /// A random UUID; acknowledgements and answers name it.
    #[serde(default, deserialize_with = "or_null")]
    pub msg_id: String,
    /// The message that this one answers; empty on unsolicited messages.
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "String::is_empty"
    )]
    pub parent_msg_id: String,
    /// Milliseconds since the Unix epoch, at creation.
    #[serde(default, deserialize_with = "or_null")]
    pub timestamp: i64,
    /// The object's revision, decimal; every acknowledged object message carries one.
    #[serde(
        default,
        deserialize_with = "or_null",
        rename = "resourceversion",
        skip_serializing_if = "String::is_empty"
    )]
    pub resource_version: String,
    /// Always absent on the wire.
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub sync: bool,
    /// Unused by KubeEdge.
    #[serde(
        default,
        deserialize_with = "or_null",
        rename = "type",
        skip_serializing_if = "String::is_empty"
    )]
    pub kind: String,
}

/// The origin and the subject of a message. Empty parts are absent from the JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The module that sent it.
    #[serde(
        default,
        deserialize_with = "word",
        skip_serializing_if = "Source::is_empty"
    )]
    pub source: Source,
    /// Never set by KubeEdge.
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "String::is_empty"
    )]
    pub destination: String,
    /// The group of modules that receives it.
    #[serde(
        default,
        deserialize_with = "word",
        skip_serializing_if = "Group::is_empty"
    )]
    pub group: Group,
    /// The operation.
    #[serde(
        default,
        deserialize_with = "word",
        skip_serializing_if = "Operation::is_empty"
    )]
    pub operation: Operation,
    /// The resource path.
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "ResourcePath::is_empty"
    )]
    pub resource: ResourcePath,
}

impl Route {
    /// Returns operation, resource, source and group in one line, for logs and answers. The parts are cleaned, and
    /// long ones cut.
    pub fn summary(&self) -> String {
        format!(
            "{} of {} ({} for {})",
            printable_short(&self.operation),
            printable_short(&self.resource),
            printable_short(&self.source),
            printable_short(&self.group),
        )
    }
}

fn word<'de, D: Deserializer<'de>, T: From<String>>(deserializer: D) -> Result<T, D::Error> {
    or_null::<D, String>(deserializer).map(T::from)
}

fn or_null<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Message {
    /// Creates an unsolicited message; `now` is in milliseconds since the Unix epoch.
    pub fn new(route: Route, content: Value, now: i64) -> Self {
        let header = Header {
            msg_id: Self::new_id(),
            timestamp: now,
            ..Header::default()
        };
        Self {
            header,
            route,
            content,
        }
    }

    /// Returns a random message id.
    pub fn new_id() -> String {
        uuid::Uuid::new_v4().to_string()
    }

    /// Marks the message as an answer to the message with the id `parent`.
    pub fn answering(mut self, parent: &str) -> Self {
        parent.clone_into(&mut self.header.parent_msg_id);
        self
    }

    /// Sets the object's revision.
    pub fn at_revision(mut self, revision: &str) -> Self {
        revision.clone_into(&mut self.header.resource_version);
        self
    }

    /// Returns the acknowledgement that the cloud's reliable delivery waits for: operation `response`, content `OK`, the request's id as
    /// parent. Inserted and deleted devices and models are acknowledged from `meta` to `twin`, as `EdgeCore` does.
    pub fn acknowledgement(&self, now: i64) -> Self {
        let twin = self.route.source == Source::DeviceController
            && matches!(self.route.operation, Operation::Insert | Operation::Delete);
        let (source, group) = if twin {
            (Source::Meta, Group::Twin)
        } else {
            (self.route.source.clone(), self.route.group.clone())
        };
        let route = Route {
            source,
            group,
            operation: Operation::Response,
            resource: self.route.resource.clone(),
            destination: String::new(),
        };
        Self::new(route, Value::from("OK"), now).answering(&self.header.msg_id)
    }

    /// Returns the content as a Go receiver sees its bytes: the characters of a string, otherwise the JSON text.
    pub fn content_bytes(&self) -> Vec<u8> {
        match &self.content {
            Value::String(text) => text.clone().into_bytes(),
            other => other.to_string().into_bytes(),
        }
    }

    /// Returns the content as JSON, whether it was sent as a value or as a string that holds JSON text.
    pub fn content_json(&self) -> Result<Value, serde_json::Error> {
        match &self.content {
            Value::String(text) => serde_json::from_str(text),
            other => Ok(other.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(content: Value) -> Message {
        Message::new(Route::default(), content, 1)
    }

    #[test]
    fn bytes_are_the_characters_of_a_string_and_the_json_of_the_rest() {
        assert_eq!(with(json!("T0s=")).content_bytes(), b"T0s=");
        assert_eq!(
            with(json!({"a": [1, null]})).content_bytes(),
            b"{\"a\":[1,null]}"
        );
        assert_eq!(with(Value::Null).content_bytes(), b"null");
    }

    #[test]
    fn a_summary_is_one_short_line_whatever_the_peer_says() {
        let evil = "a\n2026 FAKE LINE\u{1b}[31m".to_owned() + &"x".repeat(100_000);
        let route = Route {
            source: evil.clone().into(),
            group: evil.clone().into(),
            operation: evil.clone().into(),
            resource: evil.into(),
            destination: String::new(),
        };
        let summary = route.summary();
        assert!(!summary.contains(char::is_control), "{summary:?}");
        assert!(summary.chars().count() < 1000, "{}", summary.len());
    }

    #[test]
    fn json_may_be_wrapped_in_a_string() {
        for content in [json!({"a": 1}), json!("{\"a\":1}")] {
            assert_eq!(with(content).content_json().unwrap(), json!({"a": 1}));
        }
        assert!(with(json!("OK")).content_json().is_err());
    }

    #[test]
    fn an_acknowledgement_names_its_message() {
        let route = |source, operation| Route {
            source,
            operation,
            group: Group::Twin,
            ..Route::default()
        };
        for (source, operation, back, group) in [
            (
                Source::EdgeController,
                Operation::Insert,
                Source::EdgeController,
                Group::Twin,
            ),
            (
                Source::DeviceController,
                Operation::Update,
                Source::DeviceController,
                Group::Twin,
            ),
            (
                Source::DeviceController,
                Operation::Insert,
                Source::Meta,
                Group::Twin,
            ),
            (
                Source::DeviceController,
                Operation::Delete,
                Source::Meta,
                Group::Twin,
            ),
        ] {
            let message = Message::new(route(source, operation), json!({}), 1);
            let ack = message.acknowledgement(2);
            assert_eq!((ack.route.source, ack.route.group), (back, group));
            assert_eq!(
                (ack.route.operation, ack.content),
                (Operation::Response, json!("OK"))
            );
            assert_eq!(
                (ack.header.parent_msg_id, ack.header.timestamp),
                (message.header.msg_id.clone(), 2)
            );
            assert_ne!(ack.header.msg_id, message.header.msg_id);
        }
    }
}
