//! `MetaServer` requests: an [`Application`] asks the cloud to carry out one call of the Kubernetes API and comes back with the result.
//!
//! Source: `pkg/metaserver` of KubeEdge. Field names are capitalised and byte fields are base64. The id is a checksum of the request, so
//! that equal requests have equal ids.

use std::{collections::BTreeMap, fmt};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

mod self_review;

pub use self::self_review::SelfReview;

/// The word for the core group in a key.
const CORE: &str = "core";
/// The word in a key for "no namespace" and for "no name".
const NULL: &str = "null";
/// Go's zero time, written as the closing time of a request, which no peer reads.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// The kind of API call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub enum Verb {
    /// Reads an object, or a path that names no object, such as `/version`.
    Get,
    /// Reads a collection.
    List,
    /// Watches a collection: its changes follow as messages.
    Watch,
    /// Creates an object.
    Create,
    /// Deletes an object.
    Delete,
    /// Replaces an object.
    Update,
    /// Replaces the status of an object.
    UpdateStatus,
    /// Patches an object; the option holds a [`PatchInfo`] with the patch.
    Patch,
}

impl Verb {
    /// Returns the verb as it is written in a call.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Update => "update",
            Self::UpdateStatus => "updatestatus",
            Self::Patch => "patch",
        }
    }
}

/// The progress of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub enum Status {
    /// The request was created but not sent.
    PreApplying,
    /// The request is on its way to the cloud.
    #[default]
    InApplying,
    /// The cloud is carrying it out.
    InProcessing,
    /// The cloud has carried it out.
    Approved,
    /// The cloud has refused it, or the call failed.
    Rejected,
    /// The request did not reach the cloud.
    Failed,
    /// Nobody waits for the request any more.
    Completed,
}

/// One API call of an edge node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Application {
    /// A checksum of the request.
    #[serde(rename = "ID")]
    pub id: String,
    /// A [`Target`] as text, or the path itself if it names no objects.
    pub key: String,
    /// The kind of call.
    pub verb: Verb,
    /// The name of the node that sends the request.
    pub nodename: String,
    /// The call's options as JSON, such as `ListOptions`, `GetOptions` or [`PatchInfo`].
    #[serde(with = "crate::base64_bytes", default)]
    #[cfg_attr(feature = "spec", schemars(with = "Option<String>"))]
    pub option: Vec<u8>,
    /// The object to write, as JSON.
    #[serde(with = "crate::base64_bytes", default)]
    #[cfg_attr(feature = "spec", schemars(with = "Option<String>"))]
    pub req_body: Vec<u8>,
    /// The subresource, such as `status`; empty for the object itself.
    #[serde(default)]
    pub subresource: String,
    /// The result of the call, as JSON.
    #[serde(with = "crate::base64_bytes", default)]
    #[cfg_attr(feature = "spec", schemars(with = "Option<String>"))]
    pub resp_body: Vec<u8>,
    /// The progress of the request.
    #[serde(default)]
    pub status: Status,
    /// The reason for a rejection that did not come from the API.
    #[serde(default)]
    pub reason: String,
    /// The error of the API: `{"ErrStatus": metav1.Status}`.
    #[serde(default = "no_error")]
    pub error: Value,
    /// The closing time; neither end uses it.
    #[serde(default = "never")]
    pub timestamp: String,
}

/// The parameters of a [`Verb::Patch`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct PatchInfo {
    /// The object's name.
    pub name: String,
    /// The patch's media type.
    pub patch_type: String,
    /// The patch.
    #[serde(with = "crate::base64_bytes", default)]
    #[cfg_attr(feature = "spec", schemars(with = "Option<String>"))]
    pub data: Vec<u8>,
    /// `PatchOptions`.
    #[serde(default)]
    pub options: Value,
    /// The subresource, as a list of one; `None` for the object itself.
    #[serde(default)]
    pub subresources: Option<Vec<String>>,
}

/// The objects that a call refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version, such as `v1`.
    pub version: String,
    /// The plural resource name, such as `pods`.
    pub plural: String,
    /// The namespace; empty for cluster-scoped objects and for all namespaces.
    pub namespace: String,
    /// The object's name; empty for a collection.
    pub name: String,
}

impl Target {
    /// Parses a key; returns `None` if it is a path that names no objects.
    pub fn parse(key: &str) -> Option<Self> {
        let parts: Vec<&str> = key.strip_prefix('/')?.split('/').collect();
        let [group, version, plural, rest @ ..] = parts.as_slice() else {
            return None;
        };
        let [namespace, name] = match rest {
            [] => [NULL, NULL],
            [namespace] => [*namespace, NULL],
            [namespace, name] => [*namespace, *name],
            _ => return None,
        };
        let given = |part: &str| {
            if part == NULL {
                String::new()
            } else {
                part.to_owned()
            }
        };
        let is_path = [group, version, plural].iter().any(|part| part.is_empty())
            || matches!(*group, "api" | "apis" | "openapi");
        (!is_path).then(|| Self {
            group: if *group == CORE {
                String::new()
            } else {
                (*group).to_owned()
            },
            version: (*version).to_owned(),
            plural: (*plural).to_owned(),
            namespace: given(namespace),
            name: given(name),
        })
    }

    /// Returns the path of these objects at an API server.
    pub fn path(&self) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if !self.namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(&self.namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        if !self.name.is_empty() {
            path.push('/');
            path.push_str(&self.name);
        }
        path
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |text: &str, other: &str| {
            if text.is_empty() {
                other.to_owned()
            } else {
                text.to_owned()
            }
        };
        let (group, namespace, name) = (
            or(&self.group, CORE),
            or(&self.namespace, NULL),
            or(&self.name, NULL),
        );
        write!(
            f,
            "/{group}/{}/{}/{namespace}/{name}",
            self.version, self.plural
        )
    }
}

impl Application {
    /// Creates a request of `node`. `option` is converted to JSON; `body` is JSON already.
    pub fn new(
        node: &str,
        key: String,
        verb: Verb,
        option: &Value,
        body: Vec<u8>,
        subresource: &str,
    ) -> Self {
        let mut application = Self {
            id: String::new(),
            key,
            verb,
            nodename: node.to_owned(),
            option: option.to_string().into_bytes(),
            req_body: body,
            subresource: subresource.to_owned(),
            resp_body: Vec::new(),
            status: Status::InApplying,
            reason: String::new(),
            error: no_error(),
            timestamp: never(),
        };
        application.id = application.checksum();
        application
    }

    /// Parses the content of a message; the error text says what is wrong with it.
    pub fn read(content: &Value) -> Result<Self, String> {
        Self::deserialize(content)
            .map_err(|error| format!("the content is no Application: {error}"))
    }

    /// Returns the request as the content of a message.
    pub fn write(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns the API's error, if there is one: a `metav1.Status` without kind and apiVersion.
    pub fn refusal(&self) -> Option<&Value> {
        let status = self.error.get("ErrStatus")?;
        status
            .get("code")
            .and_then(Value::as_u64)
            .filter(|code| *code > 0)
            .map(|_| status)
    }

    fn checksum(&self) -> String {
        let parts = [
            self.nodename.as_bytes(),
            self.key.as_bytes(),
            self.verb.as_str().as_bytes(),
            &self.option,
            &self.req_body,
            self.subresource.as_bytes(),
        ];
        let mut context = Context::new(&SHA256);
        parts.iter().for_each(|part| context.update(part));
        context
            .finish()
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// A node's open watches by id: the content of a `watchapp/sync` message and of its answer.
pub type Watches = BTreeMap<String, Application>;

fn no_error() -> Value {
    json!({"ErrStatus": {"metadata": {}}})
}

fn never() -> String {
    NEVER.to_owned()
}

#[cfg(test)]
mod tests;
