//! MetaServer's requests: an [`Application`] asks the cloud to carry out one call of the Kubernetes API and comes back with its
//! outcome.
//!
//! Source: `pkg/metaserver` of KubeEdge. Names are written in capitals, byte fields in base64, and the id is a checksum over what
//! is asked, so that the same question has the same id.

use std::{collections::BTreeMap, fmt};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

mod self_review;

pub use self::self_review::SelfReview;

/// What stands in a key for the core group.
const CORE: &str = "core";
/// What stands in a key for no namespace, and for no name.
const NULL: &str = "null";
/// Go's zero time: nobody reads when a request was closed.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// What the call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Reads an object; or a path that is none, as `/version`.
    Get,
    /// Reads a collection.
    List,
    /// Changes of a collection come as messages from now on.
    Watch,
    /// Creates an object.
    Create,
    /// Deletes an object.
    Delete,
    /// Replaces an object.
    Update,
    /// Replaces the status of an object.
    UpdateStatus,
    /// Changes an object; what and how stands in the option, a [`PatchInfo`].
    Patch,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    /// Made, not sent.
    PreApplying,
    /// On its way to the cloud.
    #[default]
    InApplying,
    /// The cloud is at it.
    InProcessing,
    /// The cloud has done it.
    Approved,
    /// The cloud has not done it.
    Rejected,
    /// It did not get to the cloud.
    Failed,
    /// Nobody waits for it any more.
    Completed,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Application {
    /// Checksum of what is asked.
    #[serde(rename = "ID")]
    pub id: String,
    /// A [`Target`] as text, or the path itself where it names no objects.
    pub key: String,
    /// What the call does.
    pub verb: Verb,
    /// The node that asks.
    pub nodename: String,
    /// The call's options as JSON: `ListOptions`, `GetOptions`, …, [`PatchInfo`].
    #[serde(with = "crate::base64_bytes", default)]
    pub option: Vec<u8>,
    /// The object to write, JSON.
    #[serde(with = "crate::base64_bytes", default)]
    pub req_body: Vec<u8>,
    /// As in `status`; empty for the object itself.
    #[serde(default)]
    pub subresource: String,
    /// What came of it, JSON.
    #[serde(with = "crate::base64_bytes", default)]
    pub resp_body: Vec<u8>,
    /// How far it has come.
    #[serde(default)]
    pub status: Status,
    /// Why it was rejected, where that was not the API's doing.
    #[serde(default)]
    pub reason: String,
    /// The API's refusal: `{"ErrStatus": metav1.Status}`.
    #[serde(default = "no_error")]
    pub error: Value,
    /// Of no meaning between the two.
    #[serde(default = "never")]
    pub timestamp: String,
}

/// What a [`Verb::Patch`] does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PatchInfo {
    /// The object's name.
    pub name: String,
    /// The patch's media type.
    pub patch_type: String,
    /// The patch.
    #[serde(with = "crate::base64_bytes", default)]
    pub data: Vec<u8>,
    /// `PatchOptions`.
    #[serde(default)]
    pub options: Value,
    /// The subresource, in a list of one; `None` for the object itself.
    #[serde(default)]
    pub subresources: Option<Vec<String>>,
}

/// The objects that a call is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Empty for the core group.
    pub group: String,
    /// As in `v1`.
    pub version: String,
    /// As in `pods`.
    pub plural: String,
    /// Empty for cluster-scoped objects and for all namespaces.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
}

impl Target {
    /// Reads a key; `None` where it is a path that names no objects.
    pub fn parse(key: &str) -> Option<Self> {
        let parts: Vec<&str> = key.strip_prefix('/')?.split('/').collect();
        let [group, version, plural, rest @ ..] = parts.as_slice() else { return None };
        let [namespace, name] = match rest {
            [] => [NULL, NULL],
            [namespace] => [*namespace, NULL],
            [namespace, name] => [*namespace, *name],
            _ => return None,
        };
        let given = |part: &str| if part == NULL { String::new() } else { part.to_owned() };
        let is_path = [group, version, plural].iter().any(|part| part.is_empty())
            || matches!(*group, "api" | "apis" | "openapi");
        (!is_path).then(|| Self {
            group: if *group == CORE { String::new() } else { (*group).to_owned() },
            version: (*version).to_owned(),
            plural: (*plural).to_owned(),
            namespace: given(namespace),
            name: given(name),
        })
    }

    /// The path of these objects at an API server.
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
        let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
        let (group, namespace, name) =
            (or(&self.group, CORE), or(&self.namespace, NULL), or(&self.name, NULL));
        write!(f, "/{group}/{}/{}/{namespace}/{name}", self.version, self.plural)
    }
}

impl Application {
    /// A call of `node`; `option` becomes JSON, `body` is JSON already.
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

    /// Reads the content of a message; the text says what is wrong with it.
    pub fn read(content: &Value) -> Result<Self, String> {
        Self::deserialize(content).map_err(|error| format!("the content is no Application: {error}"))
    }

    /// The content of a message.
    pub fn write(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The API's refusal, where it came from the API; it is a `metav1.Status` without kind and apiVersion.
    pub fn refusal(&self) -> Option<&Value> {
        let status = self.error.get("ErrStatus")?;
        status.get("code").and_then(Value::as_u64).filter(|code| *code > 0).map(|_| status)
    }

    fn checksum(&self) -> String {
        let verb = json!(self.verb);
        let parts = [
            self.nodename.as_bytes(),
            self.key.as_bytes(),
            verb.as_str().unwrap_or_default().as_bytes(),
            &self.option,
            &self.req_body,
            self.subresource.as_bytes(),
        ];
        let mut context = Context::new(&SHA256);
        parts.iter().for_each(|part| context.update(part));
        context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The watches that a node keeps, by their ids: the content of a `watchapp/sync` message, and of its answer.
pub type Watches = BTreeMap<String, Application>;

fn no_error() -> Value {
    json!({"ErrStatus": {"metadata": {}}})
}

fn never() -> String {
    NEVER.to_owned()
}

#[cfg(test)]
mod tests;
