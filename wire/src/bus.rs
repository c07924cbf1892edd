//! What the messages of the router hold: requests to local HTTP services and their answers, payloads of MQTT, what the cloud promises
//! with a subscription.
//!
//! Source: `cloud/pkg/router`, `edge/pkg/eventbus` and `edge/pkg/servicebus` of KubeEdge. All of it is of the group `user`:
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
//! Both ends of ours know each other: an agent names itself when it connects ([`crate::instance`]), and a cloud sends [`Terms`].
//! EdgeCore and CloudCore ignore what is ours alone.
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

/// The longest body of a request or an answer, bytes, both ways: KubeEdge's 5 MB.
pub const MAX_BODY: usize = 5_000_000;

/// Names and values of HTTP headers as Go has them; a name may have several values.
pub type Headers = BTreeMap<String, Vec<String>>;

/// A request to a local HTTP service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRequest {
    /// The headers of the caller.
    #[serde(default, deserialize_with = "headers")]
    pub header: Headers,
    /// The body.
    #[serde(default, with = "base64_bytes::text")]
    pub body: Vec<u8>,
    /// The HTTP method, as the message's operation has it too.
    #[serde(default)]
    pub method: String,
    /// Empty: where the request goes is the message's resource.
    #[serde(default)]
    pub url: String,
}

/// The answer of an HTTP service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceResponse {
    /// Its headers.
    #[serde(default, deserialize_with = "headers")]
    pub header: Headers,
    /// Its status.
    pub status_code: u16,
    /// Its body.
    #[serde(default, with = "base64_bytes::text")]
    pub body: Vec<u8>,
}

impl ServiceResponse {
    /// The header that stands in answers of an agent of ours alone: in none that a service gave.
    pub const OWN: &str = "Tunnelserver";

    /// An answer that the agent gives itself, as it could not call the service: `reason` as the body.
    pub fn failure(status_code: u16, reason: &str) -> Self {
        let header = [
            ("Content-Type".to_owned(), vec!["text/plain; charset=utf-8".to_owned()]),
            (Self::OWN.to_owned(), vec!["edge-agent".to_owned()]),
        ];
        Self { header: header.into(), status_code, body: reason.as_bytes().to_vec() }
    }

    /// Whether an agent of ours gave this itself.
    pub fn is_failure(&self) -> bool {
        self.header.keys().any(|name| name.eq_ignore_ascii_case(Self::OWN))
    }

    /// The body as the reason of a failure.
    pub fn reason(&self) -> String {
        format!("{} {}", self.status_code, String::from_utf8_lossy(&self.body).trim_end())
    }
}

/// A call of a local application for a target in the cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LocalCall {
    /// The HTTP method; CloudCore sends `POST` whatever it says.
    #[serde(default)]
    pub method: String,
    /// The URL that a rule has as its `target_url`.
    #[serde(rename = "targetURL", default)]
    pub target_url: String,
    /// What is said.
    #[serde(default)]
    pub payload: Value,
}

impl LocalCall {
    /// As a message's content: JSON in base64, as Go writes bytes.
    pub fn content(&self) -> Value {
        STANDARD.encode(json!(self).to_string()).into()
    }
}

/// Where a request goes at the edge: `<port>:<path>`. The path may have colons of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAddress {
    /// The port on the loopback interface.
    pub port: u16,
    /// Path and query, with a slash in front.
    pub path: String,
}

impl ServiceAddress {
    /// From a message's resource; `None` where it is not of this form.
    pub fn parse(text: &str) -> Option<Self> {
        let (port, path) = text.split_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let sound = !path.contains(|c: char| c.is_control() || c.is_whitespace());
        let slash = if path.starts_with('/') { "" } else { "/" };
        sound.then(|| Self { port, path: format!("{slash}{path}") })
    }
}

impl fmt::Display for ServiceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.port, self.path)
    }
}

/// The payload of an MQTT message. KubeEdge knows text alone; ends of ours send other bytes as `{"base64": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Text.
    Text(String),
    /// Bytes that are no text.
    Bytes(Vec<u8>),
}

impl Payload {
    /// From a message's content; `None` where it is neither form.
    pub fn read(content: &Value) -> Option<Self> {
        match content {
            Value::String(text) => Some(Self::Text(text.clone())),
            other => STANDARD.decode(other.get("base64")?.as_str()?).ok().map(Self::from),
        }
    }

    /// As a message's content.
    pub fn content(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => json!({"base64": STANDARD.encode(bytes)}),
        }
    }

    /// Its bytes.
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

/// What a cloud promises for the messages of a subscription; CloudCore promises nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Each [`crate::Upstream::BusUpload`] of this topic is answered; what is not, may be sent again with the same id, and is
    /// carried out once.
    #[serde(default)]
    pub answered: bool,
    /// Payloads may be [`Payload::Bytes`].
    #[serde(default)]
    pub base64: bool,
}

impl Terms {
    /// What our cloud promises.
    pub const OURS: Self = Self { answered: true, base64: true };

    /// From the content of a subscription; nothing where there is none.
    pub fn read(content: &Value) -> Self {
        Self::deserialize(content).unwrap_or_default()
    }

    /// As the content of a subscription.
    pub fn content(self) -> Value {
        json!(self)
    }
}

/// Go writes `null` for no headers, and for a header without values.
fn headers<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Headers, D::Error> {
    let read = Option::<BTreeMap<String, Option<Vec<String>>>>::deserialize(deserializer)?;
    let whole = |(name, values): (String, Option<Vec<String>>)| (name, values.unwrap_or_default());
    Ok(read.unwrap_or_default().into_iter().map(whole).collect())
}
