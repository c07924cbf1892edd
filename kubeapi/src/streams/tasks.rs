//! Connections that have become something else than HTTP: they end with the server that took them.

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The tasks of one server, in the extensions of its requests. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    shutdown: CancellationToken,
    tracker: TaskTracker,
}

impl Tasks {
    /// Tasks that end with `shutdown`, and are waited for by `tracker`.
    pub(crate) fn new(shutdown: CancellationToken, tracker: TaskTracker) -> Self {
        Self { shutdown, tracker }
    }

    /// Waits for the server's end.
    pub(crate) async fn ended(&self) {
        self.shutdown.cancelled().await;
    }

    /// Runs `work` until it or the server ends.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = work => {}
            }
        });
    }
}
