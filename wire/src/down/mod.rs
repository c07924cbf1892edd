//! Messages from cloud to edge. Every message decodes to a [`Downstream`] and encodes back to the same message; unknown messages are values
//! too.
//!
//! Sources: the edge, device, dynamic, policy and sync controllers, router, task manager and CSI driver of KubeEdge's CloudCore.

use serde_json::Value;

use crate::{
    Answer, Change, Group, Header, Message, Operation, ResourcePath, ResourceType, Route, Source,
};

/// A message of the cloud: header and body.
#[derive(Clone, Debug, PartialEq)]
pub struct Down {
    /// Ids, time, revision.
    pub header: Header,
    /// The body.
    pub body: Downstream,
}

/// The kinds of messages that a cloud sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Downstream {
    /// An object was created, changed or deleted. Deletes from a resync carry a stub (name, namespace, uid) only.
    Object {
        /// The controller that sends the message.
        origin: Source,
        /// The kind of change.
        change: Change,
        /// The object's path.
        path: ResourcePath,
        /// The object.
        object: Value,
    },
    /// The answer to a request of the edge.
    Answer {
        /// The path of the request.
        path: ResourcePath,
        /// The answer.
        answer: Answer,
    },
    /// The answer to a query for the cluster's CA: PEM.
    RootCa(Value),
    /// DeviceController confirms a twin message.
    TwinConfirmed(Value),
    /// Devices were bound to this node or taken from it: `{added_devices, removed_devices}`.
    Membership(Value),
    /// All devices of this node.
    MembershipDetail(Value),
    /// Desired values of a device's twin (`device/<id>/twin/cloud_updated`).
    TwinDesired {
        /// The device's id.
        device: String,
        /// `{event_id, timestamp, twin}`.
        update: Value,
    },
    /// Subscribes to an MQTT topic, or unsubscribes from it.
    Subscription {
        /// Whether to subscribe.
        on: bool,
        /// `<namespace>/<topic>`.
        topic: String,
        /// `null`, or [`crate::bus::Terms`].
        content: Value,
    },
    /// Publishes on an MQTT topic.
    Publish {
        /// The topic.
        topic: String,
        /// A [`crate::bus::Payload`].
        payload: Value,
    },
    /// Accepts calls of local applications for this URL, or no longer accepts them.
    ServiceTarget {
        /// Whether to accept.
        on: bool,
        /// The URL.
        url: String,
        /// Always `null`.
        content: Value,
    },
    /// Calls a local HTTP service.
    ServiceCall {
        /// The HTTP method.
        method: String,
        /// `<port>:<path>`.
        target: String,
        /// A [`crate::bus::ServiceRequest`].
        request: Value,
    },
    /// The answer to an upload of the edge, which the header's parent names: an MQTT message or a local application's call.
    UploadAnswer {
        /// The module, as in the upload: `bus` or `servicebus`.
        origin: Source,
        /// Whether the upload failed for good: the operation is `error`, otherwise `response`.
        failed: bool,
        /// The path of the upload.
        path: ResourcePath,
        /// `"OK"` or the reason; for a call, a string or a [`crate::bus::ServiceResponse`].
        content: Value,
    },
    /// The answer to a MetaServer request: an Application.
    Application(Value),
    /// The watches that the cloud could not take over.
    WatchSync(Value),
    /// An action of a node job (`operations.kubeedge.io`, or the older tasks).
    Job {
        /// The module that sends it.
        origin: Source,
        /// The action: `Check`, `Upgrade`, `Pull`, …
        action: String,
        /// The job's path.
        path: ResourcePath,
        /// The job's spec.
        spec: Value,
    },
    /// A CSI call: protobuf JSON in a string.
    Volume {
        /// The CSI call.
        operation: Operation,
        /// `default/volume/<id>`.
        path: ResourcePath,
        /// The request.
        request: Value,
    },
    /// A message of an unknown kind.
    Unknown {
        /// Its route.
        route: Route,
        /// Its content.
        content: Value,
    },
}

/// The parts before and after the device id in the path of a device's desired twin.
const TWIN_DESIRED: (&str, &str) = ("device/", "/twin/cloud_updated");
const APPLICATION: &str = "ignore/Application/ignore";
/// The path of the `MetaServer` watches.
pub(crate) const WATCH_SYNC: &str = "watchapp/sync";
/// The path of the cluster's CA.
pub(crate) const ROOT_CA: &str = "k8s/ca.crt";
const MEMBERSHIP: &str = "membership";
const MEMBERSHIP_DETAIL: &str = "membership/detail";

impl From<Message> for Down {
    fn from(
        Message {
            header,
            route,
            content,
        }: Message,
    ) -> Self {
        Self {
            header,
            body: Downstream::read(route, content),
        }
    }
}

impl From<Down> for Message {
    fn from(Down { header, body }: Down) -> Self {
        let (route, content) = body.write();
        Self {
            header,
            route,
            content,
        }
    }
}

impl Downstream {
    /// Returns the kind of message, for logs that must not show any content.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Object { .. } => "object",
            Self::Answer { .. } => "answer",
            Self::RootCa(_) => "root CA",
            Self::TwinConfirmed(_) => "confirmation of a twin",
            Self::Membership(_) => "membership",
            Self::MembershipDetail(_) => "membership in detail",
            Self::TwinDesired { .. } => "desired twin",
            Self::Subscription { .. } => "subscription",
            Self::Publish { .. } => "publication",
            Self::ServiceTarget { .. } => "service target",
            Self::ServiceCall { .. } => "service call",
            Self::UploadAnswer { .. } => "answer to an upload",
            Self::Application(_) => "application",
            Self::WatchSync(_) => "watches",
            Self::Job { .. } => "job",
            Self::Volume { .. } => "volume",
            Self::Unknown { .. } => "unknown message",
        }
    }

    /// Converts the body to a new message; `now` is in milliseconds since the Unix epoch.
    pub fn into_message(self, now: i64) -> Message {
        let (route, content) = self.write();
        Message::new(route, content, now)
    }

    fn read(route: Route, content: Value) -> Self {
        if !route.destination.is_empty() {
            return Self::Unknown { route, content };
        }
        match route.group {
            Group::Resource => Self::read_resource(route, content),
            Group::Twin => Self::read_twin(route, content),
            Group::User => Self::read_user(route, content),
            Group::TaskManager => {
                let Route {
                    source,
                    operation,
                    resource,
                    ..
                } = route;
                Self::Job {
                    origin: source,
                    action: operation.as_str().to_owned(),
                    path: resource,
                    spec: content,
                }
            }
            _ => Self::Unknown { route, content },
        }
    }

    fn read_resource(route: Route, content: Value) -> Self {
        use Operation as Op;
        let path = route.resource.as_str();
        match (&route.source, &route.operation) {
            (Source::CloudHub, Op::Response) if path == ROOT_CA => Self::RootCa(content),
            (Source::DynamicController, Op::ApplicationResponse) if path == APPLICATION => {
                Self::Application(content)
            }
            (Source::DynamicController, Op::ApplicationResponse) if path == WATCH_SYNC => {
                Self::WatchSync(content)
            }
            (
                Source::CloudHub,
                Op::CreateVolume
                | Op::DeleteVolume
                | Op::ControllerPublishVolume
                | Op::ControllerUnpublishVolume,
            ) => Self::Volume {
                operation: route.operation,
                path: route.resource,
                request: content,
            },
            (Source::EdgeController, Op::Response) => Self::Answer {
                path: route.resource,
                answer: Answer::read(content),
            },
            (_, operation) => match Change::of(operation) {
                Some(change) if route.resource.as_object().is_some() => Self::Object {
                    origin: route.source,
                    change,
                    path: route.resource,
                    object: content,
                },
                _ => Self::Unknown { route, content },
            },
        }
    }

    fn read_twin(route: Route, content: Value) -> Self {
        if route.source != Source::DeviceController {
            return Self::Unknown { route, content };
        }
        let path = route.resource.as_str();
        let device = path
            .strip_prefix(TWIN_DESIRED.0)
            .and_then(|rest| rest.strip_suffix(TWIN_DESIRED.1));
        match (&route.operation, path, device) {
            (Operation::Response, "twin", _) => Self::TwinConfirmed(content),
            (Operation::Update, MEMBERSHIP, _) => Self::Membership(content),
            (Operation::Update, MEMBERSHIP_DETAIL, _) => Self::MembershipDetail(content),
            (Operation::Update, _, Some(device)) => Self::TwinDesired {
                device: device.to_owned(),
                update: content,
            },
            _ => Self::Unknown { route, content },
        }
    }

    fn read_user(route: Route, content: Value) -> Self {
        use Operation as Op;
        let resource = route.resource.as_str().to_owned();
        match (&route.source, &route.operation) {
            (Source::RouterEventBus, Op::Publish) => Self::Publish {
                topic: resource,
                payload: content,
            },
            (Source::RouterEventBus, operation @ (Op::Subscribe | Op::Unsubscribe)) => {
                Self::Subscription {
                    on: *operation == Op::Subscribe,
                    topic: resource,
                    content,
                }
            }
            (Source::RouterServiceBus, operation @ (Op::Start | Op::Stop)) => Self::ServiceTarget {
                on: *operation == Op::Start,
                url: resource,
                content,
            },
            (Source::RouterServiceBus, method) => Self::ServiceCall {
                method: method.as_str().to_owned(),
                target: resource,
                request: content,
            },
            (Source::Bus | Source::ServiceBus, operation @ (Op::Response | Op::Error)) => {
                let failed = *operation == Op::Error;
                Self::UploadAnswer {
                    origin: route.source,
                    failed,
                    path: route.resource,
                    content,
                }
            }
            _ => Self::Unknown { route, content },
        }
    }

    fn write(self) -> (Route, Value) {
        use Operation as Op;
        let resource = |source, operation, path| route(source, Group::Resource, operation, path);
        let twin = |operation, path| route(Source::DeviceController, Group::Twin, operation, path);
        let user =
            |source, operation, path: String| route(source, Group::User, operation, path.into());
        match self {
            Self::Object {
                origin,
                change,
                path,
                object,
            } => (resource(origin, change.into(), path), object),
            Self::Answer { path, answer } => (
                resource(Source::EdgeController, Op::Response, path),
                answer.write(),
            ),
            Self::RootCa(pem) => (
                resource(Source::CloudHub, Op::Response, ROOT_CA.into()),
                pem,
            ),
            Self::TwinConfirmed(content) => (twin(Op::Response, "twin".into()), content),
            Self::Membership(content) => (twin(Op::Update, MEMBERSHIP.into()), content),
            Self::MembershipDetail(content) => {
                (twin(Op::Update, MEMBERSHIP_DETAIL.into()), content)
            }
            Self::TwinDesired { device, update } => (
                twin(
                    Op::Update,
                    format!("{}{device}{}", TWIN_DESIRED.0, TWIN_DESIRED.1).into(),
                ),
                update,
            ),
            Self::Application(content) => (
                resource(
                    Source::DynamicController,
                    Op::ApplicationResponse,
                    APPLICATION.into(),
                ),
                content,
            ),
            Self::WatchSync(content) => (
                resource(
                    Source::DynamicController,
                    Op::ApplicationResponse,
                    WATCH_SYNC.into(),
                ),
                content,
            ),
            Self::Job {
                origin,
                action,
                path,
                spec,
            } => (route(origin, Group::TaskManager, action.into(), path), spec),
            Self::Volume {
                operation,
                path,
                request,
            } => (resource(Source::CloudHub, operation, path), request),
            Self::Unknown { route, content } => (route, content),
            Self::Publish { topic, payload } => {
                (user(Source::RouterEventBus, Op::Publish, topic), payload)
            }
            Self::Subscription { on, topic, content } => (
                user(
                    Source::RouterEventBus,
                    if on { Op::Subscribe } else { Op::Unsubscribe },
                    topic,
                ),
                content,
            ),
            Self::ServiceTarget { on, url, content } => (
                user(
                    Source::RouterServiceBus,
                    if on { Op::Start } else { Op::Stop },
                    url,
                ),
                content,
            ),
            Self::ServiceCall {
                method,
                target,
                request,
            } => (
                user(Source::RouterServiceBus, method.into(), target),
                request,
            ),
            Self::UploadAnswer {
                origin,
                failed,
                path,
                content,
            } => {
                let operation = if failed { Op::Error } else { Op::Response };
                (route(origin, Group::User, operation, path), content)
            }
        }
    }

    /// Creates the edge controller's message with an object's new state.
    pub fn put(
        change: Change,
        namespace: &str,
        kind: &ResourceType,
        name: &str,
        object: Value,
    ) -> Self {
        let path = ResourcePath::object(namespace, kind, name);
        Self::Object {
            origin: Source::EdgeController,
            change,
            path,
            object,
        }
    }
}

pub(crate) fn route(
    source: Source,
    group: Group,
    operation: Operation,
    resource: ResourcePath,
) -> Route {
    Route {
        source,
        destination: String::new(),
        group,
        operation,
        resource,
    }
}

#[cfg(test)]
mod tests;
