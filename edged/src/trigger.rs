//! Triggers of pod syncs.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::Notify;

/// Capacity of the channel of triggers. The controller takes them at once and merges those of one pod, so a sender waits only
/// briefly if it is full.
pub(crate) const MAX_TRIGGERS: usize = 1024;

/// A trigger of pod syncs.
#[derive(Clone, Debug)]
pub(crate) enum Trigger {
    /// Sync one pod.
    Pod(ObjectRef<Pod>),
    /// Sync all pods: something may have been missed.
    All,
    /// Sync no pod; notifies the sender that triggers are taken.
    Echo(Arc<Notify>),
}

impl Trigger {
    /// Returns the trigger of this pod.
    pub(crate) fn of(pod: &Pod) -> Self {
        Self::Pod(ObjectRef::from_obj(pod))
    }
}
