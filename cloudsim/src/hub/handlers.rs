//! The two helper tasks of a session: one handles the node's requests, the other writes the sync records. Both end when their queue is
//! closed and empty.

use std::time::Duration;

use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;
use wire::Message;

use super::pending_acks::PendingAcks;
use crate::{
    controllers::{
        dispatcher::UpstreamDispatcher,
        sync::{Record, SyncRecords},
    },
    delivery::Reply,
};

/// How long the helper tasks may take for what has arrived once their session has ended; shorter than the drain of a stopping cloud.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// The two helper tasks of a session; dropping them ends them.
pub(super) struct Helpers {
    node: String,
    tasks: [AbortOnDropHandle<()>; 2],
}

impl Helpers {
    /// Starts the tasks for the session of `node`.
    pub(super) fn spawn(
        node: &str,
        requests: impl Future<Output = ()> + Send + 'static,
        records: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let tasks = [tokio::spawn(requests), tokio::spawn(records)].map(AbortOnDropHandle::new);
        Self {
            node: node.to_owned(),
            tasks,
        }
    }

    /// Waits until what has arrived is handled and recorded. Tasks that take longer are ended: the node sends again what was not answered.
    pub(super) async fn finish(self) {
        let (node, until) = (self.node, Instant::now() + FINISH_TIMEOUT);
        for task in self.tasks {
            match timeout_at(until, task).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(node, %error, "session task failed"),
                Err(_) => {
                    warn!(node, limit = ?FINISH_TIMEOUT, "message handling of an ended session timed out; node will resend the messages");
                }
            }
        }
    }
}

/// A record to write, and the channel of the task that waits for it.
pub(super) type RecordRequest = (Record, Option<oneshot::Sender<()>>);

/// Handles the node's requests one after the other, so that a later patch never overtakes an earlier one.
pub(super) async fn handle_requests(
    mut dispatcher: Box<UpstreamDispatcher>,
    mut requests: mpsc::Receiver<Box<Message>>,
    answers: mpsc::Sender<Box<Reply>>,
) {
    loop {
        let request = clock::select! {
            // cancel-safe: a request is taken only when this arm wins
            request = requests.recv() => request,
            // cancel-safe: it waits for one watch after the other
            () = dispatcher.forget_panicked() => None,
        };
        let Some(request) = request else { break };
        for reply in Box::pin(dispatcher.dispatch(*request)).await {
            // nobody reads the answers of a session that has ended; the node asks again
            let _ = answers.send(Box::new(reply)).await;
        }
    }
}

/// Writes sync records and notifies the tasks that wait for one; on failure it drops their channel. An acknowledgement that is not recorded
/// is sent again at the next connection.
pub(super) async fn write_records(
    node: String,
    records: SyncRecords,
    mut entries: mpsc::Receiver<RecordRequest>,
) {
    let mut pending_acks = PendingAcks::default();
    loop {
        let due = pending_acks.due();
        // The order does not matter: neither branch delays the other for long.
        let (record, waiting) = clock::select! {
            // cancel-safe: an entry is taken only when this arm wins
            entry = entries.recv() => match entry {
                Some((Record::Holds(object, revision), None)) => {
                    pending_acks.holds(object, revision, Instant::now());
                    continue;
                }
                Some(entry) => entry,
                None => break,
            },
            // cancel-safe: sleeping holds no data
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => match pending_acks.next() {
                Some(record) => (record, None),
                None => continue,
            },
        };
        if let Record::Dropped(object) = &record {
            pending_acks.forget(&object.uid);
        }
        let written = Box::pin(write(&node, &records, &record)).await;
        if let Some(waiting) = waiting.filter(|_| written) {
            // the session may have ended
            let _ = waiting.send(());
        }
    }
    while let Some(record) = pending_acks.next() {
        Box::pin(write(&node, &records, &record)).await;
    }
}

/// Writes a record; returns whether it succeeded.
async fn write(node: &str, records: &SyncRecords, record: &Record) -> bool {
    let written = records.write(node, record).await;
    if let Err(error) = &written {
        let error = error as &dyn std::error::Error;
        warn!(node, %record, error, "failed to write sync record");
    }
    written.is_ok()
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_never_ends_is_ended_and_the_other_one_has_the_time_to_finish() {
        let (held, ended) = oneshot::channel::<()>();
        let (done, written) = oneshot::channel();
        let never = async move {
            let _held = held;
            pending::<()>().await;
        };
        let slow = async move {
            tokio::time::sleep(FINISH_TIMEOUT / 2).await;
            let _ = done.send(());
        };
        let begun = Instant::now();
        Helpers::spawn("edge-1", never, slow).finish().await;
        assert!(begun.elapsed() <= FINISH_TIMEOUT + Duration::from_millis(10));
        assert!(written.await.is_ok(), "the records are written");
        assert!(
            ended.await.is_err(),
            "what the endless task held is dropped"
        );
    }
}
