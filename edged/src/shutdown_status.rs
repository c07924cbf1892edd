//! Whether the node is shutting down, and the texts of the pods that end because of that, which are the kubelet's.

use std::sync::Arc;

use tokio::sync::watch;

/// Reason of the status of a pod that was terminated by a shutdown.
pub(crate) const TERMINATED_REASON: &str = "Terminated";
/// Its message.
pub(crate) const TERMINATED_MESSAGE: &str =
    "Pod was terminated in response to imminent node shutdown.";
/// Reason of the status of a pod that came during a shutdown.
pub(crate) const NOT_ADMITTED_REASON: &str = "NodeShutdown";
/// Its message.
pub(crate) const NOT_ADMITTED_MESSAGE: &str = "Pod was rejected as the node is shutting down.";
/// Why the node is not ready.
pub(crate) const NODE_MESSAGE: &str = "node is shutting down";

/// Whether the node is shutting down. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShutdownStatus(Arc<watch::Sender<bool>>);

impl ShutdownStatus {
    /// Reports whether the node is shutting down.
    pub(crate) fn is_shutting_down(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns a receiver that is notified of changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }

    /// Sets whether the node is shutting down.
    pub(crate) fn set(&self, shutting_down: bool) {
        self.0.send_replace(shutting_down);
    }
}
