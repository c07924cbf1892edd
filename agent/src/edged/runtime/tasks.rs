//! containerd's own events. Versions before 1.7 have none in CRI, and this service on the same socket tells all that CRI would.
//!
//! Source: containerd 1.6, `services/events/service.go` and `filters/parser.go`.

use std::time::Duration;

use tokio::sync::Notify;
use tonic::{Code, Streaming};
use wire::containerd::{
    CRI,
    events::{Envelope, SubscribeRequest},
};

use super::{CallError, Result, Runtime, lost};
use crate::rt::Backoff;

/// The largest event that is read; one of a task takes some hundred bytes.
pub(super) const MAX_EVENT: usize = 64 * 1024;
/// Waits after the stream has ended, or could not be had.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The topics of events that are asked for.
const TOPICS: [&str; 4] = ["/tasks/start", "/tasks/exit", "/tasks/oom", "/tasks/delete"];

impl Runtime {
    /// Wakes `moved` for each event of a task, as soon as it comes, for ever: a stream that ends is asked for again. A runtime without
    /// the service is left alone.
    pub(crate) async fn follow_tasks(&self, moved: &Notify) {
        let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
        loop {
            match self.task_events().await {
                Ok(stream) => {
                    let told = follow(stream, moved).await;
                    if told {
                        backoff.reset();
                    }
                }
                Err(error) if error.status.code() == Code::Unimplemented => {
                    return std::future::pending().await;
                }
                Err(error) => {
                    tracing::debug!(error = &error as &dyn std::error::Error, "no events of tasks");
                }
            }
            tokio::time::sleep(backoff.next(rand::random_range(0.5..1.0))).await;
            // what happened meanwhile was told to nobody
            moved.notify_one();
        }
    }

    /// The stream. The answer may take until the first event, so there is no limit on its time.
    async fn task_events(&self) -> Result<Streaming<Envelope>> {
        const CALL_TIMEOUT: &str = "Events.Subscribe";
        if self.name().await? != lost::CONTAINERD {
            return Err(CallError {
                call: CALL_TIMEOUT,
                status: tonic::Status::unimplemented("it is not containerd"),
            });
        }
        let filters = TOPICS.iter().map(|topic| format!("namespace=={CRI},topic==\"{topic}\"")).collect();
        let answer = self.task_events.clone().subscribe(lost::request(SubscribeRequest { filters })).await;
        answer.map(tonic::Response::into_inner).map_err(|status| CallError { call: CALL_TIMEOUT, status })
    }
}

/// Until the stream ends; whether it told anything.
async fn follow(mut stream: Streaming<Envelope>, moved: &Notify) -> bool {
    let mut told = false;
    loop {
        match stream.message().await {
            Ok(Some(event)) => {
                told = true;
                if event.is_of_task() {
                    moved.notify_one();
                }
            }
            Ok(None) => return told,
            Err(status) => {
                tracing::debug!(%status, "the stream of events of tasks broke");
                return told;
            }
        }
    }
}

#[cfg(test)]
mod tests;
