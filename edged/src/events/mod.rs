//! Records events of pods and of the node. Nobody waits for them: if more than [`QUEUE_CAPACITY`] wait to be written, the newest
//! are lost. Written events are the API's, which keeps them while the cloud is unreachable.

mod build;
pub(crate) mod reason;
mod write;

use std::{borrow::Cow, fmt};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use tokio::sync::mpsc;

pub use self::write::run;

/// Maximum number of events that wait to be written, more than a node records at once. Further ones are lost.
const QUEUE_CAPACITY: usize = 512;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Something expected happened.
    Normal,
    /// Something needs attention.
    Warning,
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        })
    }
}

/// An event of an object that has not been written yet.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingEvent {
    object: ObjectReference,
    event_type: EventType,
    reason: Cow<'static, str>,
    message: String,
    at: Timestamp,
}

/// Records events. Cheap to clone. They are boxed, as a channel reserves space for many.
#[derive(Clone, Debug)]
pub struct Recorder(Option<mpsc::Sender<Box<PendingEvent>>>);

/// Returns a recorder and the queue from which [`run`] writes its events.
pub fn recorder() -> (Recorder, mpsc::Receiver<Box<PendingEvent>>) {
    let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
    (Recorder(Some(sender)), receiver)
}

impl Recorder {
    /// Returns a recorder that discards all events.
    pub fn disabled() -> Self {
        Self(None)
    }

    /// Records an event of the pod.
    pub fn pod(
        &self,
        pod: &Pod,
        event_type: EventType,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) {
        self.record(pod, None, event_type, reason.into(), message);
    }

    /// Records an event of a container of the pod.
    pub fn container(
        &self,
        pod: &Pod,
        container: &str,
        event_type: EventType,
        reason: &'static str,
        message: String,
    ) {
        self.record(
            pod,
            Some(field_path(pod, container)),
            event_type,
            reason.into(),
            message,
        );
    }

    /// Records an event of the node. Its uid is its name, as in the kubelet's events.
    pub fn node(&self, name: &str, event_type: EventType, reason: &'static str, message: String) {
        let object = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Node".into()),
            name: Some(name.to_owned()),
            uid: Some(name.to_owned()),
            ..ObjectReference::default()
        };
        self.send(object, event_type, reason.into(), message);
    }

    fn record(
        &self,
        pod: &Pod,
        field_path: Option<String>,
        event_type: EventType,
        reason: Cow<'static, str>,
        message: String,
    ) {
        let meta = &pod.metadata;
        let object = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            field_path,
        };
        self.send(object, event_type, reason, message);
    }

    fn send(
        &self,
        object: ObjectReference,
        event_type: EventType,
        reason: Cow<'static, str>,
        message: String,
    ) {
        if let Some(sender) = &self.0 {
            // An event is lost if the queue is full or closed, see the head of this file.
            let event = PendingEvent {
                object,
                event_type,
                reason,
                message,
                at: clock::now(),
            };
            let _ = sender.try_send(Box::new(event));
        }
    }
}

fn field_path(pod: &Pod, container: &str) -> String {
    let spec = pod.spec.as_ref();
    let is_init = spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten())
        .any(|c| c.name == container);
    let mut ephemeral = spec
        .iter()
        .flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    let list = if is_init {
        "initContainers"
    } else if ephemeral.any(|c| c.name == container) {
        "ephemeralContainers"
    } else {
        "containers"
    };
    format!("spec.{list}{{{container}}}")
}
