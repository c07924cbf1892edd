//! Reasons to sync pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::Notify;

/// Triggers that wait to be taken. The controller takes them at once and merges those of one pod, so that a full channel is
/// only a short wait for whoever triggers.
pub(crate) const MAX_TRIGGERS: usize = 1024;

/// A reason to sync pods.
#[derive(Clone, Debug)]
pub(crate) enum Trigger {
    /// Sync one pod.
    Pod(ObjectRef<Pod>),
    /// Sync all pods: something may have been missed.
    All,
    /// Sync none: the sender wants to know that triggers are taken.
    Echo(Arc<Notify>),
}

impl Trigger {
    /// The reason to sync this pod.
    pub(crate) fn of(pod: &Pod) -> Self {
        Self::Pod(ObjectRef::from_obj(pod))
    }
}
