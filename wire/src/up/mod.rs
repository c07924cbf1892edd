//! Messages from edge to cloud. Every message decodes to an [`Upstream`] and encodes back to the same message; unknown messages are values
//! too.
//!
//! Sources: EdgeD's client bridge, `MetaManager`, `DeviceTwin`, `EventBus`, `ServiceBus`, `MetaServer` and `TaskManager` of KubeEdge's
//! `EdgeCore`.

use serde_json::{Value, json};

use crate::{
    Change, Group, Header, Message, Operation, ResourcePath, ResourceType, Route, Source,
    down::{ROOT_CA, WATCH_SYNC, route},
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

const MEMBERSHIP_DETAIL: &str = "membership/detail";
const KEEPALIVE: &str = "node";
const NULL: &str = "null";

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

    fn read(route: Route, content: Value) -> Self {
        use Operation as Op;
        if route == Route::default() && content.is_null() {
            return Self::Shutdown;
        }
        if !route.destination.is_empty() {
            return Self::Unknown { route, content };
        }
        let path = route.resource.as_str();
        match (&route.source, &route.group, &route.operation) {
            (Source::WebSocket, Group::Resource, Op::Keepalive) if path == KEEPALIVE => {
                Self::Keepalive(content)
            }
            (Source::Bus, Group::User, operation @ (Op::Response | Op::Error)) => {
                let failed = *operation == Op::Error;
                Self::BusAnswer {
                    topic: route.resource,
                    failed,
                    content,
                }
            }
            (_, _, Op::Response) if content.as_str() == Some("OK") => Self::Ack {
                source: route.source,
                group: route.group,
                path: route.resource,
            },
            (Source::Edged, Group::Meta, _) => Self::read_meta(route, content),
            (Source::MetaManager, Group::Meta, Op::Query) if path == ROOT_CA => {
                Self::RootCa(content)
            }
            (Source::Twin, Group::Resource, Op::Get) if path == MEMBERSHIP_DETAIL => {
                Self::MembershipDetail(content)
            }
            (Source::Twin, Group::Resource, Op::Update) => Self::Device {
                path: route.resource,
                update: content,
            },
            (Source::Bus, Group::User, Op::Upload) => Self::BusUpload {
                topic: route.resource,
                payload: content,
            },
            (Source::ServiceBus, Group::User, Op::Upload) => Self::ServiceUpload {
                target: route.resource,
                content,
            },
            (Source::MetaServer, Group::DynamicController, Op::Null) if path == NULL => {
                Self::Application(content)
            }
            (Source::MetaServer, Group::DynamicController, Op::Null) if path == WATCH_SYNC => {
                Self::WatchSync(content)
            }
            (Source::WebSocket, Group::Hub, Op::UpdateNodeActionStatus) => Self::ActionStatus {
                path: route.resource,
                status: content,
            },
            (Source::WebSocket, Group::Hub, Op::Upgrade | Op::Prepull) => Self::TaskStatus {
                operation: route.operation,
                path: route.resource,
                status: content,
            },
            _ => Self::Unknown { route, content },
        }
    }

    fn read_meta(route: Route, content: Value) -> Self {
        let change = Change::of(&route.operation);
        match (&route.operation, change) {
            (_, Some(change)) => Self::Object {
                change,
                path: route.resource,
                object: content,
            },
            (Operation::Patch, _) => Self::Patch {
                path: route.resource,
                patch: content,
            },
            (Operation::Query, _) => Self::Query {
                path: route.resource,
                content,
            },
            _ => Self::Unknown { route, content },
        }
    }

    fn write(self) -> (Route, Value) {
        use Operation as Op;
        let meta = |operation, path| route(Source::Edged, Group::Meta, operation, path);
        let twin = |operation, path| route(Source::Twin, Group::Resource, operation, path);
        let dynamic = |path: &str| {
            route(
                Source::MetaServer,
                Group::DynamicController,
                Op::Null,
                path.into(),
            )
        };
        let hub = |operation, path| route(Source::WebSocket, Group::Hub, operation, path);
        match self {
            Self::Keepalive(content) => (
                route(
                    Source::WebSocket,
                    Group::Resource,
                    Op::Keepalive,
                    KEEPALIVE.into(),
                ),
                content,
            ),
            Self::Shutdown => (Route::default(), Value::Null),
            Self::Ack {
                source,
                group,
                path,
            } => (route(source, group, Op::Response, path), Value::from("OK")),
            Self::Object {
                change,
                path,
                object,
            } => (meta(change.into(), path), object),
            Self::Patch { path, patch } => (meta(Op::Patch, path), patch),
            Self::Query { path, content } => (meta(Op::Query, path), content),
            Self::RootCa(content) => (
                route(Source::MetaManager, Group::Meta, Op::Query, ROOT_CA.into()),
                content,
            ),
            Self::MembershipDetail(content) => (twin(Op::Get, MEMBERSHIP_DETAIL.into()), content),
            Self::Device { path, update } => (twin(Op::Update, path), update),
            Self::BusUpload { topic, payload } => {
                (route(Source::Bus, Group::User, Op::Upload, topic), payload)
            }
            Self::BusAnswer {
                topic,
                failed,
                content,
            } => {
                let operation = if failed { Op::Error } else { Op::Response };
                (route(Source::Bus, Group::User, operation, topic), content)
            }
            Self::ServiceUpload { target, content } => (
                route(Source::ServiceBus, Group::User, Op::Upload, target),
                content,
            ),
            Self::Application(content) => (dynamic(NULL), content),
            Self::WatchSync(content) => (dynamic(WATCH_SYNC), content),
            Self::ActionStatus { path, status } => (hub(Op::UpdateNodeActionStatus, path), status),
            Self::TaskStatus {
                operation,
                path,
                status,
            } => (hub(operation, path), status),
            Self::Unknown { route, content } => (route, content),
        }
    }
}

#[cfg(test)]
mod tests;
