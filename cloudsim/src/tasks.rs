//! The tasks of a cloud that run as long as it does. One that panics would be missed by everyone who relies on it, as a controller that
//! has silently ended: the cloud is then to be stopped. What serves one node or one request is not among them: it ends alone.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt;
use tokio::sync::SetOnce;
use tokio_util::task::TaskTracker;

#[cfg(panic = "abort")]
compile_error!(
    "a panic must end one session of cloudsim alone: build it without `panic = \"abort\"`, as with `--release`"
);

/// A task panicked: a defect of this program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} panicked: {message}; please report this with the log")]
pub struct TaskPanicked {
    /// The task: a controller as on the command line, or a server or part of the cloud.
    pub name: &'static str,
    /// The message that it panicked with.
    pub message: String,
}

/// Tasks by name; clones are the same tasks.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    panicked: Arc<SetOnce<TaskPanicked>>,
}

impl Tasks {
    /// Starts a task. The first of all that panics is what [`Self::panicked`] tells.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let tasks = self.clone();
        self.tracker.spawn(async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                tasks.fail(name, panic_message(panic.as_ref()));
            }
        });
    }

    /// Tells of a task that others have seen ending by a panic.
    pub fn fail(&self, name: &'static str, message: String) {
        let panicked = TaskPanicked { name, message };
        // an earlier one is likely to be the cause
        let _ = self.panicked.set(panicked.clone());
        tracing::error!(error = &panicked as &dyn std::error::Error, "a task of the cloud has failed");
    }

    /// Waits for the first panic of a task.
    pub async fn panicked(&self) -> TaskPanicked {
        self.panicked.wait().await.clone()
    }

    /// No more tasks are to come: [`Self::wait`] ends with those there are.
    pub fn close(&self) {
        self.tracker.close();
    }

    /// Waits until all tasks have ended, after [`Self::close`].
    ///
    /// # Errors
    /// The first panic of a task, whenever it was.
    pub async fn wait(&self) -> Result<(), TaskPanicked> {
        self.tracker.wait().await;
        self.panicked.get().cloned().map_or(Ok(()), Err)
    }
}

/// The message that a task panicked with; empty where it is no text.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_task_that_panics_is_told_by_name_and_the_others_go_on() {
        let tasks = Tasks::default();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        tasks.spawn("steady", async { sender.send(()).expect("somebody waits") });
        tasks.spawn("ended", async {});
        tasks.spawn("job", async { panic!("number {}", 7) });
        let panicked = tasks.panicked().await;
        assert_eq!(panicked, TaskPanicked { name: "job", message: "number 7".into() });
        tasks.fail("later", String::new());
        assert_eq!(tasks.panicked().await, panicked);
        receiver.await.expect("it goes on");
        tasks.close();
        assert_eq!(tasks.wait().await, Err(panicked));
    }
}
