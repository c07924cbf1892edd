//! containerd's task events. Versions before 1.7 have no CRI events, and this service on the same socket reports all that CRI
//! would.
//!
//! Source: containerd 1.6, `services/events/service.go` and `filters/parser.go`.

use std::time::Duration;

use componentbase::Backoff;
use tokio::sync::Notify;
use tonic::{Code, Streaming};
use wire::containerd::{
    CRI,
    events::{Envelope, SubscribeRequest},
};

use super::{CallError, Result, Runtime, lost_tasks};

/// Maximum size of an event in bytes; a task's event takes some hundred bytes.
pub(super) const MAX_EVENT_BYTES: usize = 64 * 1024;
/// Delay before subscribing again, doubled up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The topics that are subscribed to.
const TOPICS: [&str; 4] = ["/tasks/start", "/tasks/exit", "/tasks/oom", "/tasks/delete"];

impl Runtime {
    /// Notifies `changed` of each task event. Never returns: a stream that ends is subscribed to again. A runtime without this
    /// service is not asked again.
    pub(crate) async fn follow_tasks(&self, changed: &Notify) {
        let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
        loop {
            match self.task_events().await {
                Ok(stream) => {
                    let received_any = notify_of_events(stream, changed).await;
                    if received_any {
                        backoff.reset();
                    }
                }
                Err(error) if error.status.code() == Code::Unimplemented => {
                    return std::future::pending().await;
                }
                Err(error) => {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "failed to subscribe to task events"
                    );
                }
            }
            tokio::time::sleep(backoff.next(clock::rng().random_range(0.5..1.0))).await;
            // events between the two subscriptions are missed
            changed.notify_one();
        }
    }

    /// Subscribes to task events. There is no timeout, as the response may take until the first event.
    async fn task_events(&self) -> Result<Streaming<Envelope>> {
        const CALL: &str = "Events.Subscribe";
        if self.name().await? != lost_tasks::CONTAINERD {
            return Err(CallError {
                call: CALL,
                status: tonic::Status::unimplemented("it is not containerd"),
            });
        }
        let filters = TOPICS
            .iter()
            .map(|topic| format!("namespace=={CRI},topic==\"{topic}\""))
            .collect();
        let answer = self
            .task_events
            .clone()
            .subscribe(lost_tasks::task_request(SubscribeRequest { filters }))
            .await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| CallError { call: CALL, status })
    }
}

/// Notifies `changed` of each event until the stream ends, and reports whether there was any.
async fn notify_of_events(mut stream: Streaming<Envelope>, changed: &Notify) -> bool {
    let mut received_any = false;
    loop {
        match stream.message().await {
            Ok(Some(event)) => {
                received_any = true;
                if event.is_of_task() {
                    changed.notify_one();
                }
            }
            Ok(None) => return received_any,
            Err(status) => {
                tracing::debug!(%status, "stream of task events interrupted");
                return received_any;
            }
        }
    }
}

#[cfg(test)]
mod tests;
