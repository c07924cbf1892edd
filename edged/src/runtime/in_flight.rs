//! Calls that create or start something run to their end even if their caller is dropped. A runtime whose caller disconnects in
//! the middle of such a call aborts it and may leave a part of the result that it does not know itself. An agent that shuts down
//! waits for these calls.

use std::time::Duration;

use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tonic::Status;

use super::{CallError, Result};

/// How long a shutdown waits for calls: several times what a start takes on a slow machine, and less than a service manager waits
/// before it kills the agent.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// Calls in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlightCalls {
    tasks: TaskTracker,
    cancel: CancellationToken,
}

impl InFlightCalls {
    /// Runs `call` as a task and returns its result. If the caller is dropped, the call continues.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let call = self.tasks.spawn(componentbase::in_span(
            self.cancel.clone().run_until_cancelled_owned(call),
        ));
        let gone = || CallError {
            call: name,
            status: Status::cancelled("the agent ends"),
        };
        call.await.ok().flatten().unwrap_or_else(|| Err(gone()))
    }

    /// Waits for all calls to end, for at most [`FINISH_TIMEOUT`].
    pub(super) async fn finish(&self) {
        self.tasks.close();
        if tokio::time::timeout(FINISH_TIMEOUT, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("container runtime not responding; pending calls cancelled");
        }
    }

    /// Returns a guard that cancels all calls when it is dropped.
    pub(super) fn cancel_when_dropped(&self) -> DropGuard {
        self.cancel.clone().drop_guard()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn dropped_call_runs_to_its_end() {
        let calls = InFlightCalls::default();
        let (answer, asked) = oneshot::channel::<()>();
        let (told, heard) = oneshot::channel();
        let mut waiting = Box::pin(calls.run("StartContainer", async move {
            let _ = asked.await;
            let _ = told.send("started");
            Ok(())
        }));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(waiting);
        answer.send(()).unwrap();
        calls.finish().await;
        assert_eq!(heard.await, Ok("started"));
    }

    #[tokio::test]
    async fn guard_cancels_calls_in_progress() {
        let calls = InFlightCalls::default();
        let guard = calls.cancel_when_dropped();
        let mut waiting =
            Box::pin(calls.run("StartContainer", std::future::pending::<Result<()>>()));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(guard);
        assert!(
            waiting
                .await
                .is_err_and(|error| error.message() == "the agent ends")
        );
    }
}
