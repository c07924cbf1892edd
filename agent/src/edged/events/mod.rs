//! Events of pods and of the node, beside their statuses. Nobody waits for them: where more than [`MAX_WAITING`] wait to be written,
//! the newest are lost. What was written is the API's, which keeps it while the cloud is away.

pub(crate) mod reason;
mod series;
mod write;

use std::{borrow::Cow, fmt};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use tokio::sync::mpsc;

pub(crate) use self::write::run;

/// Events that wait to be written. More than a node makes at once; beyond them they are lost.
const MAX_WAITING: usize = 512;

/// Whether somebody should care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Severity {
    /// As it should be.
    Normal,
    /// Not as it should be.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        })
    }
}

/// Something that happened to an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Occurrence {
    object: ObjectReference,
    severity: Severity,
    reason: Cow<'static, str>,
    message: String,
    at: Timestamp,
}

/// Takes events; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Recorder(Option<mpsc::Sender<Occurrence>>);

/// A recorder, and what [`run`] reads from it.
pub(crate) fn recorder() -> (Recorder, mpsc::Receiver<Occurrence>) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    (Recorder(Some(sender)), receiver)
}

impl Recorder {
    /// A recorder that records nothing.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Something happened to the pod.
    pub(crate) fn pod(
        &self,
        pod: &Pod,
        severity: Severity,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) {
        self.record(pod, None, severity, reason.into(), message);
    }

    /// Something happened to a container of the pod.
    pub(crate) fn container(
        &self,
        pod: &Pod,
        container: &str,
        severity: Severity,
        reason: &'static str,
        message: String,
    ) {
        self.record(pod, Some(field_path(pod, container)), severity, reason.into(), message);
    }

    /// Something happened to the node. Its name stands for its UID, as in the kubelet's events.
    pub(crate) fn node(&self, name: &str, severity: Severity, reason: &'static str, message: String) {
        let object = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Node".into()),
            name: Some(name.to_owned()),
            uid: Some(name.to_owned()),
            ..ObjectReference::default()
        };
        self.send(object, severity, reason.into(), message);
    }

    fn record(
        &self,
        pod: &Pod,
        field_path: Option<String>,
        severity: Severity,
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
        self.send(object, severity, reason, message);
    }

    fn send(&self, object: ObjectReference, severity: Severity, reason: Cow<'static, str>, message: String) {
        if let Some(sender) = &self.0 {
            // Full or closed: see the head of this file.
            let _ = sender.try_send(Occurrence { object, severity, reason, message, at: Timestamp::now() });
        }
    }
}

fn field_path(pod: &Pod, container: &str) -> String {
    let spec = pod.spec.as_ref();
    let is_init =
        spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).any(|c| c.name == container);
    let mut ephemeral = spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    let list = if is_init {
        "initContainers"
    } else if ephemeral.any(|c| c.name == container) {
        "ephemeralContainers"
    } else {
        "containers"
    };
    format!("spec.{list}{{{container}}}")
}
