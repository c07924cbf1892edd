//! Calls that make or start something, and are finished although nobody waits for them any more. A runtime whose caller goes away
//! in the middle of such a call gives it up where it stands, and may leave a half of it that it does not know of itself: so an
//! agent that is asked to end lets them come to their end.

use std::time::Duration;

use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tonic::Status;

use super::{CallError, Result};

/// How long an agent that ends waits for them: several times what a start takes on a slow machine, and less than whoever ends
/// it waits before killing it.
const LAST: Duration = Duration::from_secs(10);

/// The calls that are under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    under_way: TaskTracker,
    cut: CancellationToken,
}

impl Calls {
    /// The answer; given up by the caller, the call goes on.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let call = self.under_way.spawn(self.cut.clone().run_until_cancelled_owned(call));
        let gone = || CallError { call: name, status: Status::cancelled("the agent ends") };
        call.await.ok().flatten().unwrap_or_else(|| Err(gone()))
    }

    /// Waits for all of them, but not for one that hangs.
    pub(super) async fn finish(&self) {
        self.under_way.close();
        if tokio::time::timeout(LAST, self.under_way.wait()).await.is_err() {
            tracing::warn!("the container runtime does not answer: calls are cut off");
        }
    }

    /// Cuts off what is under way then.
    pub(super) fn cut_when_dropped(&self) -> DropGuard {
        self.cut.clone().drop_guard()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_is_finished() {
        let calls = Calls::default();
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
    async fn an_agent_that_is_killed_finishes_nothing() {
        let calls = Calls::default();
        let guard = calls.cut_when_dropped();
        let mut waiting = Box::pin(calls.run("StartContainer", std::future::pending::<Result<()>>()));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(guard);
        assert!(waiting.await.is_err_and(|error| error.message() == "the agent ends"));
    }
}
