//! Contents of the router's messages: requests to local HTTP services and their responses, MQTT payloads, and what the cloud guarantees for
//! a subscription.
//!
//! Source: `cloud/pkg/router`, `edge/pkg/eventbus` and `edge/pkg/servicebus` of KubeEdge. All these messages have the group `user`:
//!
//! | to    | message                                  | content |
//! |-------|------------------------------------------|---------|
//! | edge  | [`Downstream::Subscription`]             | `null`, or [`Terms`] from a cloud of ours |
//! | edge  | [`Downstream::Publish`]                  | a [`Payload`] |
//! | cloud | [`Upstream::BusAnswer`]                  | ours alone: `"OK"` once the broker has the message, else the reason |
//! | cloud | [`Upstream::BusUpload`]                  | a [`Payload`]; the same id each time that it is sent again |
//! | edge  | [`Downstream::UploadAnswer`] (`bus`)     | ours alone: `"OK"` once the cloud answers for it, else why it never will be |
//! | edge  | [`Downstream::ServiceTarget`]            | `null` |
//! | edge  | [`Downstream::ServiceCall`]              | a [`ServiceRequest`] |
//! | cloud | [`Upstream::ServiceUpload`], no resource | the [`ServiceResponse`], parent: the call |
//! | cloud | [`Upstream::ServiceUpload`] of a URL     | a [`LocalCall`] as JSON in base64 |
//! | edge  | [`Downstream::UploadAnswer`] (`servicebus`) | the body as a string; to an agent of ours a [`ServiceResponse`]; the reason where it failed |
//!
//! Our two ends recognise each other: an agent identifies itself when it connects ([`crate::instance`]), and a cloud sends [`Terms`].
//! `EdgeCore` and `CloudCore` ignore our extensions.
//!
//! [`Downstream::Subscription`]: crate::Downstream::Subscription
//! [`Downstream::Publish`]: crate::Downstream::Publish
//! [`Downstream::UploadAnswer`]: crate::Downstream::UploadAnswer
//! [`Downstream::ServiceTarget`]: crate::Downstream::ServiceTarget
//! [`Downstream::ServiceCall`]: crate::Downstream::ServiceCall
//! [`Upstream::BusAnswer`]: crate::Upstream::BusAnswer
//! [`Upstream::BusUpload`]: crate::Upstream::BusUpload
//! [`Upstream::ServiceUpload`]: crate::Upstream::ServiceUpload

use std::{collections::BTreeMap, fmt};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base64_bytes;

#[cfg(test)]
mod tests;

/// The longest body of a request or response in either direction, bytes: KubeEdge's 5 MB.
pub const MAX_BODY: usize = 5_000_000;

/// HTTP headers as Go holds them: each name may have several values.
pub type Headers = BTreeMap<String, Vec<String>>;

/// A request to a local HTTP service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct ServiceRequest {
    /// The caller's headers.
    #[serde(default, deserialize_with = "headers")]
    pub header: Headers,
    /// The body.
    #[serde(default, with = "base64_bytes::text")]
    #[cfg_attr(feature = "spec", schemars(with = "String"))]
    pub body: Vec<u8>,
    /// The HTTP method; the message's operation repeats it.
    #[serde(default)]
    pub method: String,
    /// Always empty: the message's resource holds the destination.
    #[serde(default)]
    pub url: String,
}

/// The response of an HTTP service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct ServiceResponse {
    /// The response's headers.
    #[serde(default, deserialize_with = "headers")]
    pub header: Headers,
    /// The HTTP status code.
    pub status_code: u16,
    /// The response's body.
    #[serde(default, with = "base64_bytes::text")]
    #[cfg_attr(feature = "spec", schemars(with = "String"))]
    pub body: Vec<u8>,
}

impl ServiceResponse {
    /// The header that marks responses which an agent of ours generated itself; no service's response has it.
    pub const OWN: &str = "Tunnelserver";

    /// Creates the agent's own response for a service that could not be called, with `reason` as the body.
    pub fn failure(status_code: u16, reason: &str) -> Self {
        let header = [
            (
                "Content-Type".to_owned(),
                vec!["text/plain; charset=utf-8".to_owned()],
            ),
            (Self::OWN.to_owned(), vec!["edge-agent".to_owned()]),
        ];
        Self {
            header: header.into(),
            status_code,
            body: reason.as_bytes().to_vec(),
        }
    }

    /// Reports whether an agent of ours generated this response itself.
    pub fn is_failure(&self) -> bool {
        self.header
            .keys()
            .any(|name| name.eq_ignore_ascii_case(Self::OWN))
    }

    /// Returns the body as the reason of a failure.
    pub fn reason(&self) -> String {
        format!(
            "{} {}",
            self.status_code,
            String::from_utf8_lossy(&self.body).trim_end()
        )
    }
}

/// A local application's call to a target in the cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct LocalCall {
    /// The HTTP method; `CloudCore` always sends `POST`.
    #[serde(default)]
    pub method: String,
    /// The URL, which must be the `target_url` of a rule.
    #[serde(rename = "targetURL", default)]
    pub target_url: String,
    /// The body of the call.
    #[serde(default)]
    pub payload: Value,
}

impl LocalCall {
    /// Returns the call as a message's content: JSON in base64, as Go writes bytes.
    pub fn content(&self) -> Value {
        STANDARD.encode(json!(self).to_string()).into()
    }
}

/// The destination of a request at the edge: `<port>:<path>`. The path may contain colons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAddress {
    /// The port on the loopback interface.
    pub port: u16,
    /// Path and query, starting with a slash.
    pub path: String,
}

impl ServiceAddress {
    /// Parses a message's resource; returns `None` if it is not of this form.
    pub fn parse(text: &str) -> Option<Self> {
        let (port, path) = text.split_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let sound = !path.contains(|c: char| c.is_control() || c.is_whitespace());
        let slash = if path.starts_with('/') { "" } else { "/" };
        sound.then(|| Self {
            port,
            path: format!("{slash}{path}"),
        })
    }
}

impl fmt::Display for ServiceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.port, self.path)
    }
}

/// The payload of an MQTT message. KubeEdge supports text only; our own ends send other bytes as `{"base64": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Text.
    Text(String),
    /// Bytes that are not UTF-8 text.
    Bytes(Vec<u8>),
}

impl Payload {
    /// Parses a message's content; returns `None` if it is neither form.
    pub fn read(content: &Value) -> Option<Self> {
        match content {
            Value::String(text) => Some(Self::Text(text.clone())),
            other => STANDARD
                .decode(other.get("base64")?.as_str()?)
                .ok()
                .map(Self::from),
        }
    }

    /// Returns the payload as a message's content.
    pub fn content(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => json!({"base64": STANDARD.encode(bytes)}),
        }
    }

    /// Returns the payload's bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }
}

/// The delivery guarantee of a cloud for the messages of a subscription; `CloudCore` guarantees nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Terms {
    /// Whether each [`crate::Upstream::BusUpload`] of this topic is answered. An unanswered one may be sent again with the same id and is
    /// carried out once.
    #[serde(default)]
    pub answered: bool,
    /// Whether payloads may be [`Payload::Bytes`].
    #[serde(default)]
    pub base64: bool,
}

impl Terms {
    /// The guarantees of our cloud.
    pub const OURS: Self = Self {
        answered: true,
        base64: true,
    };

    /// Parses the content of a subscription; without content nothing is guaranteed.
    pub fn read(content: &Value) -> Self {
        Self::deserialize(content).unwrap_or_default()
    }

    /// Returns the guarantees as the content of a subscription.
    pub fn content(self) -> Value {
        json!(self)
    }
}

/// Deserialises headers; Go writes `null` for no headers, and for a header without values.
fn headers<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Headers, D::Error> {
    let read = Option::<BTreeMap<String, Option<Vec<String>>>>::deserialize(deserializer)?;
    let whole = |(name, values): (String, Option<Vec<String>>)| (name, values.unwrap_or_default());
    Ok(read.unwrap_or_default().into_iter().map(whole).collect())
}
