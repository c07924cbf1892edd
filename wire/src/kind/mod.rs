//! The table of messages: which messages there are, with their routes, contents and answers.
//!
//! [`crate::Up`] and [`crate::Down`] decode and encode by it, and the specification in `spec/` is generated from it. A new kind of
//! message is a row here; the compiler then names the places that handle it.

use serde_json::Value;

use crate::{Group, Operation, ResourcePath, ResourceType, Route, Source, path::ObjectRef};

mod down;
#[cfg(feature = "spec")]
pub mod schema;
mod up;

pub use self::{
    down::{DOWN, DownForm},
    up::{UP, UpForm},
};

/// A kind of message.
#[derive(Debug)]
pub struct MessageKind<F: 'static> {
    /// The name, unique among the kinds of both directions.
    pub name: &'static str,
    /// What the message is for, a sentence.
    pub summary: &'static str,
    /// How the message is decoded.
    pub form: F,
    /// The modules that send it; empty if any may. The first is the one of messages that are created here.
    pub sources: &'static [Source],
    /// The group of modules that it is for; `None` if any may be.
    pub group: Option<Group>,
    /// The operations; empty if any may be.
    pub operations: &'static [Operation],
    /// The resource.
    pub resource: Resource,
    /// The contents that it may have.
    pub content: &'static [Content],
    /// The kinds that answer it, besides the acknowledgement of [`crate::lane`].
    pub replies: &'static [&'static str],
    /// When the sender sends it again.
    pub resent: Resent,
    /// The programs that send it.
    pub users: Users,
}

/// The resource of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The field is absent.
    Absent,
    /// A fixed text.
    Exact(&'static str),
    /// `<namespace>/<type>/<name>`.
    Namespaced(ResourceType),
    /// `null/<type>/<name>`.
    Cluster(ResourceType),
    /// The path of any object or collection.
    AnyObject,
    /// `device/<id>` and this suffix.
    Device(&'static str),
    /// Any text; the value describes its form.
    Any(&'static str),
}

/// The prefix of [`Resource::Device`].
const DEVICE: &str = "device/";

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// `null`.
    Null,
    /// `null`, and a message with any other content is of another kind.
    OnlyNull,
    /// This text.
    Text(&'static str),
    /// This text, and a message with any other content is of another kind.
    Only(&'static str),
    /// Any text; the value describes it.
    AnyText(&'static str),
    /// A Kubernetes object of this apiVersion and kind.
    Object(&'static str, &'static str),
    /// A Kubernetes object of any kind.
    AnyObject,
    /// A value of this shape.
    Json(Shape),
    /// JSON of this shape as text in a string.
    JsonText(Shape),
    /// JSON of this shape, in base64.
    Base64(Shape),
}

/// The shapes of contents that are no Kubernetes objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// [`crate::ObjectResp`].
    ObjectResp,
    /// `{"ErrStatus": metav1.Status}`.
    ErrStatus,
    /// A strategic merge patch of a status.
    StatusPatch,
    /// `metav1.DeleteOptions`.
    DeleteOptions,
    /// An event with a patch for it.
    EventPatch,
    /// [`crate::twin::MembershipQuestion`].
    MembershipQuestion,
    /// [`crate::twin::MembershipUpdate`].
    MembershipUpdate,
    /// [`crate::twin::MembershipList`].
    MembershipList,
    /// [`crate::twin::TwinUpdate`].
    TwinUpdate,
    /// [`crate::twin::StateResult`].
    StateResult,
    /// [`crate::bus::Terms`].
    Terms,
    /// `{"base64": …}`, the form of [`crate::bus::Payload::Bytes`].
    Base64Payload,
    /// [`crate::bus::ServiceRequest`].
    ServiceRequest,
    /// [`crate::bus::ServiceResponse`].
    ServiceResponse,
    /// [`crate::bus::LocalCall`].
    LocalCall,
    /// [`crate::application::Application`].
    Application,
    /// [`crate::application::Watches`].
    Watches,
    /// The spec of a node job.
    JobSpec,
    /// The outcome of an action of a node job.
    ActionStatus,
    /// A task before KubeEdge 1.21.
    Task,
    /// The outcome of a task's step.
    TaskStatus,
    /// A request of CSI in the JSON form of protobuf.
    CsiRequest,
    /// A response of CSI in the JSON form of protobuf.
    CsiResponse,
}

/// When the sender of a message sends it again. Messages of the cloud that [`crate::lane::needs_ack`] names follow [`crate::lane`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resent {
    /// Once: nobody waits for an answer.
    Never,
    /// The sender waits for the answer, this many seconds at most, and then fails. Its caller may send another message.
    Fails(u16),
    /// With the same id after this many seconds without an answer.
    SameId(u16),
    /// A message with the current state follows after this many seconds.
    Periodic(u16),
    /// By our agent with the same id until the cloud has answered; by `EdgeCore` never.
    UntilAnswered,
}

/// The programs that send a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// KubeEdge since this minor version (0.3 is the oldest that was examined), and this project's programs.
    Since(&'static str),
    /// KubeEdge from the first to the second minor version; later ones accept it.
    Until(&'static str, &'static str),
    /// This project's programs, to each other.
    Outrigger,
    /// No known program. Such a message is decoded as its form says; it is not in the specification.
    Nobody,
}

impl Resource {
    fn matches(&self, path: &ResourcePath, object: Option<&ObjectRef<'_>>) -> bool {
        let is = |kind: &ResourceType, namespaced: bool| {
            object.is_some_and(|object| {
                object.kind == *kind
                    && object.name.is_some()
                    && object.namespace.is_some() == namespaced
            })
        };
        match self {
            Self::Absent => path.is_empty(),
            Self::Exact(text) => path.as_str() == *text,
            Self::Namespaced(kind) => is(kind, true),
            Self::Cluster(kind) => is(kind, false),
            Self::AnyObject => object.is_some(),
            Self::Device(_) => self.device(path.as_str()).is_some(),
            Self::Any(_) => true,
        }
    }

    /// Returns the device in a path of the form [`Resource::Device`].
    pub(crate) fn device<'p>(&self, path: &'p str) -> Option<&'p str> {
        let Self::Device(suffix) = self else {
            return None;
        };
        path.strip_prefix(DEVICE)?.strip_suffix(suffix)
    }

    /// Returns the path of a device, if this is [`Resource::Device`].
    pub(crate) fn device_path(&self, device: &str) -> ResourcePath {
        match self {
            Self::Device(suffix) => format!("{DEVICE}{device}{suffix}").into(),
            _ => ResourcePath::default(),
        }
    }

    /// Returns the pattern, with variable parts in braces.
    pub fn pattern(&self) -> String {
        match self {
            Self::Absent => String::new(),
            Self::Exact(text) | Self::Any(text) => (*text).to_owned(),
            Self::Namespaced(kind) => format!("{{namespace}}/{kind}/{{name}}"),
            Self::Cluster(kind) => format!("{}/{kind}/{{name}}", crate::CLUSTER),
            Self::AnyObject => "{namespace}/{type}/{name}".to_owned(),
            Self::Device(suffix) => format!("{DEVICE}{{device}}{suffix}"),
        }
    }
}

impl<F> MessageKind<F> {
    fn matches(&self, route: &Route, object: Option<&ObjectRef<'_>>, content: &Value) -> bool {
        (self.sources.is_empty() || self.sources.contains(&route.source))
            && self
                .group
                .as_ref()
                .is_none_or(|group| *group == route.group)
            && (self.operations.is_empty() || self.operations.contains(&route.operation))
            && self.resource.matches(&route.resource, object)
            && match self.content {
                [Content::Only(text)] => content.as_str() == Some(text),
                [Content::OnlyNull] => content.is_null(),
                _ => true,
            }
    }

    /// Returns the route of a message of this kind: of its choices the first, and the resource if that is fixed.
    pub fn route(&self) -> Route {
        let resource = match &self.resource {
            Resource::Exact(text) => ResourcePath::from(*text),
            _ => ResourcePath::default(),
        };
        Route {
            source: self.sources.first().cloned().unwrap_or_default(),
            destination: String::new(),
            group: self.group.clone().unwrap_or_default(),
            operation: self.operations.first().cloned().unwrap_or_default(),
            resource,
        }
    }
}

/// Returns the kind of a message, the first of the table whose route it has.
pub fn find<'t, F>(
    table: &'t [MessageKind<F>],
    route: &Route,
    content: &Value,
) -> Option<&'t MessageKind<F>> {
    if !route.destination.is_empty() {
        return None;
    }
    let object = route.resource.as_object();
    table
        .iter()
        .find(|kind| kind.matches(route, object.as_ref(), content))
}

/// Returns the first kind of this form; new messages have its route.
pub(crate) fn first<'t, F: PartialEq>(
    table: &'t [MessageKind<F>],
    form: &F,
) -> Option<&'t MessageKind<F>> {
    table.iter().find(|kind| kind.form == *form)
}

macro_rules! forms {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = $text] $variant,)*
        }

        impl $name {
            /// Returns the form's name, for logs that must not show any content.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}
use forms;

/// A table of kinds. A row reads: name, form, summary; the route (sources, group, operations, resource); the content, what answers it, when
/// it is sent again, and by whom.
macro_rules! kinds {
    ($(#[$doc:meta])* $table:ident of $forms:ident {
        $($name:literal $form:ident $summary:literal
            from [$($source:expr),*] to $group:expr, [$($operation:expr),*] of $resource:expr;
            has [$($content:expr),*], replies [$($reply:literal),*], $resent:expr, $users:expr;)*
    }) => {
        $(#[$doc])*
        pub static $table: &[MessageKind<$forms>] = &[$(MessageKind {
            name: $name,
            summary: $summary,
            form: $forms::$form,
            sources: &[$($source),*],
            group: $group,
            operations: &[$($operation),*],
            resource: $resource,
            content: &[$($content),*],
            replies: &[$($reply),*],
            resent: $resent,
            users: $users,
        }),*];
    };
}
use kinds;

#[cfg(test)]
mod tests;
