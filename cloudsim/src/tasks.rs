//! The tasks that run as long as the cloud. If one panics, everything that relies on it silently stops working, so the cloud must be
//! stopped. Tasks for one node or one request are not among them: they end alone. Neither is the work of a controller for one object.

use std::{any::Any, borrow::Cow, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt;
use tokio::sync::SetOnce;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[cfg(panic = "abort")]
compile_error!(
    "a panic must end one session of cloudsim alone: build it without `panic = \"abort\"`, as with `--release`"
);

/// A task panicked, which is a defect of this program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} panicked: {message}; please report this with the log")]
pub struct TaskPanicked {
    /// The name of the task: a controller as on the command line, or a server or part of the cloud.
    pub name: Cow<'static, str>,
    /// The panic message.
    pub message: String,
}

/// A set of named tasks, and the token that ends them; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    panicked: Arc<SetOnce<TaskPanicked>>,
    shutdown: CancellationToken,
}

impl Tasks {
    /// Starts a task. [`Self::wait_panicked`] returns the first panic of all tasks.
    pub fn spawn(
        &self,
        name: impl Into<Cow<'static, str>>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let (tasks, name) = (self.clone(), name.into());
        self.tracker.spawn(async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                tasks.fail(name, panic_message(panic.as_ref()));
            }
        });
    }

    /// Records a panic of a task that was observed elsewhere.
    pub fn fail(&self, name: impl Into<Cow<'static, str>>, message: String) {
        let panicked = TaskPanicked {
            name: name.into(),
            message,
        };
        // an earlier panic is likely to be the cause
        let _ = self.panicked.set(panicked.clone());
        tracing::error!(
            error = &panicked as &dyn std::error::Error,
            "cloudsim task failed"
        );
    }

    /// Waits for the first panic of a task.
    pub async fn wait_panicked(&self) -> TaskPanicked {
        self.panicked.wait().await.clone()
    }

    /// Returns a set whose end can be waited for alone; a panic is one of this set as well.
    pub fn nested(&self) -> Self {
        Self {
            tracker: TaskTracker::new(),
            ..self.clone()
        }
    }

    /// Returns the token that stops the tasks.
    pub fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }

    /// Returns a token that is cancelled with that of all tasks.
    pub fn child_token(&self) -> CancellationToken {
        self.shutdown.child_token()
    }

    /// Declares that no more tasks will start, so that [`Self::wait`] can end.
    pub fn close(&self) {
        self.tracker.close();
    }

    /// Waits until all tasks have ended; call [`Self::close`] first.
    ///
    /// # Errors
    /// Returns the first panic of a task, whenever it was.
    pub async fn wait(&self) -> Result<(), TaskPanicked> {
        self.tracker.wait().await;
        self.panicked.get().cloned().map_or(Ok(()), Err)
    }
}

/// Returns the message of a panic; empty if it is not text.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
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
        let panicked = tasks.wait_panicked().await;
        assert_eq!(
            panicked,
            TaskPanicked {
                name: "job".into(),
                message: "number 7".into()
            }
        );
        tasks.fail("later", String::new());
        assert_eq!(tasks.wait_panicked().await, panicked);
        receiver.await.expect("it goes on");
        tasks.close();
        assert_eq!(tasks.wait().await, Err(panicked));
    }
}
