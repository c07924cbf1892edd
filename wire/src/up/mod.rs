//! Messages from edge to cloud. Every message decodes to an [`Upstream`] and encodes back to the same message; unknown messages are values
//! too.
//!
//! Sources: EdgeD's client bridge, `MetaManager`, `DeviceTwin`, `EventBus`, `ServiceBus`, `MetaServer` and `TaskManager` of KubeEdge's
//! `EdgeCore`.

use serde_json::{Value, json};

use crate::{
    Change, Group, Header, Message, Operation, ResourcePath, ResourceType, Route, Source,
    kind::{self, MessageKind, UP, UpForm},
};

/// A message of the edge: header and body.
#[derive(Clone, Debug, PartialEq)]
pub struct Up {
    /// Ids, time, revision.
    pub header: Header,
    /// The body.
    pub body: Upstream,
}

/// The kinds of messages that an edge node sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Upstream {
    /// The session is alive (`"ping"`).
    Keepalive(Value),
    /// The empty message that `EdgeCore` may send while it shuts down.
    Shutdown,
    /// Confirms that a message of the cloud was received and stored; the header's parent names it.
    Ack {
        /// Copied from the message, or `meta`.
        source: Source,
        /// Copied from the message, or `twin`.
        group: Group,
        /// Copied from the message.
        path: ResourcePath,
    },
    /// An API object to create, update or delete: node, pod, lease, certificate request, event. For deletes, the options.
    Object {
        /// The kind of change.
        change: Change,
        /// The object's path.
        path: ResourcePath,
        /// The object, or `DeleteOptions`.
        object: Value,
    },
    /// A status patch (`nodepatch`, `podpatch`) as a string that holds a strategic merge patch; or a patch of an event.
    Patch {
        /// `<namespace>/podpatch/<name>`, `null/nodepatch/<name>`, `<namespace>/event/<name>`.
        path: ResourcePath,
        /// The patch.
        patch: Value,
    },
    /// Requests an object. For a service account token the content is a `TokenRequest`, otherwise `null`.
    Query {
        /// The object's path.
        path: ResourcePath,
        /// The request.
        content: Value,
    },
    /// Requests the cluster's CA.
    RootCa(Value),
    /// Requests all devices of this node; JSON in a string.
    MembershipDetail(Value),
    /// A device's twin or state has changed at the edge.
    Device {
        /// `device/<id>/twin/edge_updated` or `device/<id>/state/update`.
        path: ResourcePath,
        /// `{event_id, timestamp, twin}`, or a string that holds `{event_id, timestamp, device}`.
        update: Value,
    },
    /// A message on an MQTT topic that a rule subscribes to.
    BusUpload {
        /// The topic.
        topic: ResourcePath,
        /// A [`crate::bus::Payload`].
        payload: Value,
    },
    /// The answer to a publication of the cloud, which the header's parent names. `EdgeCore` sends none.
    BusAnswer {
        /// The topic.
        topic: ResourcePath,
        /// Whether publishing failed: the operation is `error`, otherwise `response`.
        failed: bool,
        /// `"OK"`, or the reason.
        content: Value,
    },
    /// A local service's answer to a call of the cloud, or, with a URL as resource, a local application's call.
    ServiceUpload {
        /// The target URL of a local application's call; absent for answers.
        target: ResourcePath,
        /// A [`crate::bus::ServiceResponse`], or a [`crate::bus::LocalCall`] in base64.
        content: Value,
    },
    /// A `MetaServer` request: an `Application`.
    Application(Value),
    /// The open watches of `MetaServer`.
    WatchSync(Value),
    /// The outcome of a job's action.
    ActionStatus {
        /// The job's path.
        path: ResourcePath,
        /// `{action, succ, finishTime, reason, extend}`.
        status: Value,
    },
    /// The outcome of an older task's step.
    TaskStatus {
        /// `upgrade` or `prepull`.
        operation: Operation,
        /// `task/<id>/node/<name>`.
        path: ResourcePath,
        /// A `NodeTaskResponse`.
        status: Value,
    },
    /// A message of an unknown kind.
    Unknown {
        /// Its route.
        route: Route,
        /// Its content.
        content: Value,
    },
}

impl From<Message> for Up {
    fn from(
        Message {
            header,
            route,
            content,
        }: Message,
    ) -> Self {
        Self {
            header,
            body: Upstream::read(route, content),
        }
    }
}

impl From<Up> for Message {
    fn from(Up { header, body }: Up) -> Self {
        let (route, content) = body.write();
        Self {
            header,
            route,
            content,
        }
    }
}

impl Upstream {
    /// Converts the body to a new message; `now` is in milliseconds since the Unix epoch.
    pub fn into_message(self, now: i64) -> Message {
        let (route, content) = self.write();
        Message::new(route, content, now)
    }

    /// Creates a keepalive message.
    pub fn keepalive() -> Self {
        Self::Keepalive(Value::from("ping"))
    }

    /// Creates a strategic merge patch of a pod's status, as JSON text.
    pub fn pod_patch(namespace: &str, name: &str, patch: String) -> Self {
        Self::Patch {
            path: ResourcePath::object(namespace, &ResourceType::PodPatch, name),
            patch: Value::from(patch),
        }
    }

    /// Creates a strategic merge patch of a node's status, as JSON text.
    pub fn node_patch(name: &str, patch: String) -> Self {
        Self::Patch {
            path: ResourcePath::object("", &ResourceType::NodePatch, name),
            patch: Value::from(patch),
        }
    }

    /// Creates the immediate deletion of the pod with this UID, which finishes a graceful deletion.
    pub fn pod_delete(namespace: &str, name: &str, uid: &str) -> Self {
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
        Self::Object {
            change: Change::Delete,
            path: ResourcePath::object(namespace, &ResourceType::Pod, name),
            object: options,
        }
    }

    /// Creates a message that creates or updates an object.
    pub fn put(
        change: Change,
        namespace: &str,
        kind: &ResourceType,
        name: &str,
        object: Value,
    ) -> Self {
        Self::Object {
            change,
            path: ResourcePath::object(namespace, kind, name),
            object,
        }
    }

    /// Creates a query for an object.
    pub fn query(namespace: &str, kind: &ResourceType, name: &str) -> Self {
        Self::Query {
            path: ResourcePath::object(namespace, kind, name),
            content: Value::Null,
        }
    }

    /// Creates a request for a service account token; `request` is a `TokenRequest`.
    pub fn token(namespace: &str, account: &str, request: Value) -> Self {
        Self::Query {
            path: ResourcePath::object(namespace, &ResourceType::ServiceAccountToken, account),
            content: request,
        }
    }

    /// Returns the form of message, for logs that must not show any content, and to find its kinds.
    pub fn form(&self) -> UpForm {
        match self {
            Self::Keepalive(_) => UpForm::Keepalive,
            Self::Shutdown => UpForm::Shutdown,
            Self::Ack { .. } => UpForm::Ack,
            Self::Object { .. } => UpForm::Object,
            Self::Patch { .. } => UpForm::Patch,
            Self::Query { .. } => UpForm::Query,
            Self::RootCa(_) => UpForm::RootCa,
            Self::MembershipDetail(_) => UpForm::MembershipDetail,
            Self::Device { .. } => UpForm::Device,
            Self::BusUpload { .. } => UpForm::BusUpload,
            Self::BusAnswer { .. } => UpForm::BusAnswer,
            Self::ServiceUpload { .. } => UpForm::ServiceUpload,
            Self::Application(_) => UpForm::Application,
            Self::WatchSync(_) => UpForm::WatchSync,
            Self::ActionStatus { .. } => UpForm::ActionStatus,
            Self::TaskStatus { .. } => UpForm::TaskStatus,
            Self::Unknown { .. } => UpForm::Unknown,
        }
    }

    fn read(route: Route, content: Value) -> Self {
        let form = kind::find(UP, &route, &content).map_or(UpForm::Unknown, |kind| kind.form);
        match form {
            UpForm::Keepalive => Self::Keepalive(content),
            UpForm::Shutdown => Self::Shutdown,
            UpForm::Ack => Self::Ack {
                source: route.source,
                group: route.group,
                path: route.resource,
            },
            UpForm::Object => match Change::of(&route.operation) {
                Some(change) => Self::Object {
                    change,
                    path: route.resource,
                    object: content,
                },
                None => Self::Unknown { route, content },
            },
            UpForm::Patch => Self::Patch {
                path: route.resource,
                patch: content,
            },
            UpForm::Query => Self::Query {
                path: route.resource,
                content,
            },
            UpForm::RootCa => Self::RootCa(content),
            UpForm::MembershipDetail => Self::MembershipDetail(content),
            UpForm::Device => Self::Device {
                path: route.resource,
                update: content,
            },
            UpForm::BusUpload => Self::BusUpload {
                topic: route.resource,
                payload: content,
            },
            UpForm::BusAnswer => Self::BusAnswer {
                topic: route.resource,
                failed: route.operation == Operation::Error,
                content,
            },
            UpForm::ServiceUpload => Self::ServiceUpload {
                target: route.resource,
                content,
            },
            UpForm::Application => Self::Application(content),
            UpForm::WatchSync => Self::WatchSync(content),
            UpForm::ActionStatus => Self::ActionStatus {
                path: route.resource,
                status: content,
            },
            UpForm::TaskStatus => Self::TaskStatus {
                operation: route.operation,
                path: route.resource,
                status: content,
            },
            UpForm::Unknown => Self::Unknown { route, content },
        }
    }

    fn write(self) -> (Route, Value) {
        let kind = kind::first(UP, &self.form());
        let mut route = kind.map(MessageKind::route).unwrap_or_default();
        let content = match self {
            Self::Keepalive(content)
            | Self::RootCa(content)
            | Self::MembershipDetail(content)
            | Self::Application(content)
            | Self::WatchSync(content) => content,
            Self::Shutdown => Value::Null,
            Self::Ack {
                source,
                group,
                path,
            } => {
                (route.source, route.group, route.resource) = (source, group, path);
                Value::from("OK")
            }
            Self::Object {
                change,
                path,
                object: content,
            } => {
                (route.operation, route.resource) = (change.into(), path);
                content
            }
            Self::BusAnswer {
                topic,
                failed,
                content,
            } => {
                if failed {
                    route.operation = Operation::Error;
                }
                route.resource = topic;
                content
            }
            Self::TaskStatus {
                operation,
                path,
                status,
            } => {
                (route.operation, route.resource) = (operation, path);
                status
            }
            Self::Patch {
                path,
                patch: content,
            }
            | Self::Query { path, content }
            | Self::Device {
                path,
                update: content,
            }
            | Self::BusUpload {
                topic: path,
                payload: content,
            }
            | Self::ServiceUpload {
                target: path,
                content,
            }
            | Self::ActionStatus {
                path,
                status: content,
            } => {
                route.resource = path;
                content
            }
            Self::Unknown { route, content } => return (route, content),
        };
        (route, content)
    }
}

#[cfg(test)]
mod tests;
