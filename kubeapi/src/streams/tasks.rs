//! Tasks of upgraded connections, which end with their server.

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The tasks of one server, in the extensions of its requests. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    shutdown: CancellationToken,
    tracker: TaskTracker,
}

impl Tasks {
    /// Makes tasks that end with `shutdown` and are awaited by `tracker`.
    pub(crate) fn new(shutdown: CancellationToken, tracker: TaskTracker) -> Self {
        Self { shutdown, tracker }
    }

    /// Waits until the server shuts down.
    pub(crate) async fn wait_shutdown(&self) {
        self.shutdown.cancelled().await;
    }

    /// Spawns `work`, which runs until it or the server ends.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tracker.spawn(async move {
            clock::select! {
                () = shutdown.cancelled() => {}
                () = work => {}
            }
        });
    }
}
