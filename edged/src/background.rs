//! Background tasks of EdgeD, beside the syncs of pods: pulls, hooks and stops, which take long.

use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Spawns background tasks, which run until EdgeD ends. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    tracker: TaskTracker,
    shutdown: CancellationToken,
}

impl Background {
    /// Creates a spawner whose tasks are cancelled with `shutdown`.
    pub(crate) fn new(shutdown: CancellationToken) -> Self {
        Self {
            tracker: TaskTracker::new(),
            shutdown,
        }
    }

    /// Spawns `work` as a task. Its result is `None` if EdgeD ended before it.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        self.tracker.spawn(componentbase::in_span(
            self.shutdown.clone().run_until_cancelled_owned(work),
        ))
    }

    /// Waits for the end of all tasks. Running tasks may spawn more until then.
    pub(crate) async fn finish(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
