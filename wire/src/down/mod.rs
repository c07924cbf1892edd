//! Messages from cloud to edge. Every message decodes to a [`Downstream`] and encodes back to the same message; unknown messages are values
//! too.
//!
//! Sources: the edge, device, dynamic, policy and sync controllers, router, task manager and CSI driver of KubeEdge's CloudCore.

use serde_json::Value;

use crate::{
    Answer, Change, Header, Message, Operation, ResourcePath, ResourceType, Route, Source,
    kind::{self, DOWN, DownForm, MessageKind},
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
    /// Returns the form of message, for logs that must not show any content, and to find its kinds.
    pub fn form(&self) -> DownForm {
        match self {
            Self::Object { .. } => DownForm::Object,
            Self::Answer { .. } => DownForm::Answer,
            Self::RootCa(_) => DownForm::RootCa,
            Self::TwinConfirmed(_) => DownForm::TwinConfirmed,
            Self::Membership(_) => DownForm::Membership,
            Self::MembershipDetail(_) => DownForm::MembershipDetail,
            Self::TwinDesired { .. } => DownForm::TwinDesired,
            Self::Subscription { .. } => DownForm::Subscription,
            Self::Publish { .. } => DownForm::Publish,
            Self::ServiceTarget { .. } => DownForm::ServiceTarget,
            Self::ServiceCall { .. } => DownForm::ServiceCall,
            Self::UploadAnswer { .. } => DownForm::UploadAnswer,
            Self::Application(_) => DownForm::Application,
            Self::WatchSync(_) => DownForm::WatchSync,
            Self::Job { .. } => DownForm::Job,
            Self::Volume { .. } => DownForm::Volume,
            Self::Unknown { .. } => DownForm::Unknown,
        }
    }

    /// Converts the body to a new message; `now` is in milliseconds since the Unix epoch.
    pub fn into_message(self, now: i64) -> Message {
        let (route, content) = self.write();
        Message::new(route, content, now)
    }

    fn read(route: Route, content: Value) -> Self {
        let Some(kind) = kind::find(DOWN, &route, &content) else {
            return Self::Unknown { route, content };
        };
        let text = |path: &ResourcePath| path.as_str().to_owned();
        match kind.form {
            DownForm::Object => match Change::of(&route.operation) {
                Some(change) => Self::Object {
                    origin: route.source,
                    change,
                    path: route.resource,
                    object: content,
                },
                None => Self::Unknown { route, content },
            },
            DownForm::Answer => Self::Answer {
                path: route.resource,
                answer: Answer::read(content),
            },
            DownForm::RootCa => Self::RootCa(content),
            DownForm::TwinConfirmed => Self::TwinConfirmed(content),
            DownForm::Membership => Self::Membership(content),
            DownForm::MembershipDetail => Self::MembershipDetail(content),
            DownForm::TwinDesired => Self::TwinDesired {
                device: kind
                    .resource
                    .device(route.resource.as_str())
                    .unwrap_or_default()
                    .to_owned(),
                update: content,
            },
            DownForm::Subscription => Self::Subscription {
                on: route.operation == Operation::Subscribe,
                topic: text(&route.resource),
                content,
            },
            DownForm::Publish => Self::Publish {
                topic: text(&route.resource),
                payload: content,
            },
            DownForm::ServiceTarget => Self::ServiceTarget {
                on: route.operation == Operation::Start,
                url: text(&route.resource),
                content,
            },
            DownForm::ServiceCall => Self::ServiceCall {
                method: route.operation.as_str().to_owned(),
                target: text(&route.resource),
                request: content,
            },
            DownForm::UploadAnswer => Self::UploadAnswer {
                origin: route.source,
                failed: route.operation == Operation::Error,
                path: route.resource,
                content,
            },
            DownForm::Application => Self::Application(content),
            DownForm::WatchSync => Self::WatchSync(content),
            DownForm::Job => Self::Job {
                origin: route.source,
                action: route.operation.as_str().to_owned(),
                path: route.resource,
                spec: content,
            },
            DownForm::Volume => Self::Volume {
                operation: route.operation,
                path: route.resource,
                request: content,
            },
            DownForm::Unknown => Self::Unknown { route, content },
        }
    }

    fn write(self) -> (Route, Value) {
        use Operation as Op;
        let kind = kind::first(DOWN, &self.form());
        let mut route = kind.map(MessageKind::route).unwrap_or_default();
        let content = match self {
            Self::Object {
                origin,
                change,
                path,
                object,
            } => {
                (route.source, route.operation, route.resource) = (origin, change.into(), path);
                object
            }
            Self::Answer { path, answer } => {
                route.resource = path;
                answer.write()
            }
            Self::RootCa(content)
            | Self::TwinConfirmed(content)
            | Self::Membership(content)
            | Self::MembershipDetail(content)
            | Self::Application(content)
            | Self::WatchSync(content) => content,
            Self::TwinDesired { device, update } => {
                let path = kind.map(|kind| kind.resource.device_path(&device));
                route.resource = path.unwrap_or_default();
                update
            }
            Self::Publish { topic, payload } => {
                route.resource = topic.into();
                payload
            }
            Self::Subscription { on, topic, content } => {
                route.operation = if on { Op::Subscribe } else { Op::Unsubscribe };
                route.resource = topic.into();
                content
            }
            Self::ServiceTarget { on, url, content } => {
                route.operation = if on { Op::Start } else { Op::Stop };
                route.resource = url.into();
                content
            }
            Self::ServiceCall {
                method,
                target,
                request,
            } => {
                (route.operation, route.resource) = (method.into(), target.into());
                request
            }
            Self::UploadAnswer {
                origin,
                failed,
                path,
                content,
            } => {
                route.operation = if failed { Op::Error } else { Op::Response };
                (route.source, route.resource) = (origin, path);
                content
            }
            Self::Job {
                origin,
                action,
                path,
                spec,
            } => {
                (route.source, route.operation, route.resource) = (origin, action.into(), path);
                spec
            }
            Self::Volume {
                operation,
                path,
                request,
            } => {
                (route.operation, route.resource) = (operation, path);
                request
            }
            Self::Unknown { route, content } => return (route, content),
        };
        (route, content)
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

#[cfg(test)]
mod tests;
