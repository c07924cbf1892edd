//! Work of EdgeD that goes on beside the syncs of pods, such as pulls, hooks and stops, which take long.

use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Where that work runs, until EdgeD ends. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    tracker: TaskTracker,
    shutdown: CancellationToken,
}

impl Background {
    /// Work that ends with `shutdown`.
    pub(crate) fn until(shutdown: CancellationToken) -> Self {
        Self { tracker: TaskTracker::new(), shutdown }
    }

    /// Runs `work` as a task of its own. Its result is `None` where EdgeD ended before it.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        self.tracker.spawn(self.shutdown.clone().run_until_cancelled_owned(work))
    }

    /// Waits for the end of all work. More of it may be spawned until then, by what runs already.
    pub(crate) async fn finish(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
