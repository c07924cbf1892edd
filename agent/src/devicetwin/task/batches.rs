//! Batches: requests are gathered into one, and answered when it is on disk; while one is written the next one is gathered.

use std::{mem, sync::Arc};

use objectstore::StoreError;
use tokio::time::Instant;
use tracing::{error, warn};
use wire::{Downstream, topic::DeviceId, twin::INTERNAL};

use super::{
    super::{
        commit::{self, Commit, GatheredBatch},
        core::{Batch, Core, HistoryQuery, Reply},
        handle::{Command, RequestError, Responder},
        history::HistoryEntry,
        work::Work,
    },
    STORE_RETRY_DELAY, Worker,
};
use crate::eventbus::Received;

impl Worker<'_> {
    /// Executes requests of other modules. Work that waits for the disk is older: while it cannot be written, nothing newer is
    /// accepted.
    pub(super) async fn commands(&mut self, mut commands: Vec<Command>) {
        if self.retry.is_some() {
            self.gather_again();
            self.flush().await;
        }
        if self.retry.is_some() {
            let why = RequestError::unwritten();
            commands = commands
                .into_iter()
                .filter_map(|command| command.query_or_fail(&why))
                .collect();
        }
        self.gather(Work::Commands(commands));
    }

    /// Retries what could not be written.
    pub(super) fn gather_again(&mut self) {
        let (works, _) = self.retry.take().unzip();
        works
            .into_iter()
            .flatten()
            .for_each(|work| self.gather(work));
    }

    /// Answers a query for the history in a task of its own.
    fn answer_history(&self, device: DeviceId, responder: Responder<Vec<HistoryEntry>>) {
        let waiting: Vec<HistoryEntry> = self.history.waiting(&device).cloned().collect();
        let store = self.task.store.clone();
        componentbase::spawn(async move {
            let history = store
                .history(&device)
                .await
                .map(|written| written.into_iter().chain(waiting).collect());
            let why = |error: StoreError| {
                RequestError::new(
                    INTERNAL,
                    format!("cannot read the device's history from the database: {error}"),
                )
            };
            // the receiver may be gone
            let _ = responder.send(history.map_err(why));
        });
    }

    /// Applies work in memory; nothing is sent before it is on disk.
    pub(super) fn gather(&mut self, work: Work) {
        let (core, now) = (&mut self.core, clock::unix_millis());
        let GatheredBatch {
            batch,
            retry,
            has_objects,
            count,
        } = &mut self.gathering;
        *count += work.count();
        match work {
            Work::Commands(commands) => commands
                .into_iter()
                .for_each(|command| core.command(batch, command, now)),
            Work::Requests(requests) => {
                requests
                    .iter()
                    .for_each(|request| take_request(core, batch, request, now));
                retry.push(Work::Requests(requests));
            }
            Work::Message(message) => {
                take_message(core, batch, message.clone(), now);
                retry.push(Work::Message(message));
            }
            Work::Objects(found) => {
                found.apply(core, batch, now);
                // the first catalogue is published even if it is empty
                batch.catalogue |= self.task.catalogue.borrow().is_none();
                *has_objects = true;
            }
            Work::Confirmed(id, due) => {
                core.confirm_report(batch, &id, &due);
                if let Some(commit) = &mut self.committing {
                    commit.gathered.batch.confirm(&id, &due);
                }
                self.confirmed.insert(id);
            }
            Work::Remind => core.remind(batch, now),
        }
    }

    /// Starts to write what was gathered, unless a write is running.
    pub(super) async fn start(&mut self) {
        if self.committing.is_none() && self.gathering.count > 0 {
            self.heartbeat.beat();
            let gathered = mem::take(&mut self.gathering);
            let writes = self.task.store.write(gathered.batch.writes(&self.core));
            self.committing = Some(Commit::start(gathered, writes).await);
        }
    }

    /// Waits until everything is written, or could not be.
    pub(super) async fn flush(&mut self) {
        self.start().await;
        while self.committing.is_some() {
            let outcome = commit::outcome(&mut self.committing).await;
            self.handle_written(outcome).await;
        }
    }

    /// Handles the end of a write. After an error, what was gathered since builds on the lost batch and is rolled back with it.
    pub(super) async fn handle_written(&mut self, outcome: Result<(), StoreError>) {
        let Some(Commit { gathered, .. }) = self.committing.take() else {
            return;
        };
        let Err(failure) = outcome else {
            self.core.mark_written(&gathered.batch);
            // what was gathered meanwhile is written while the messages are sent
            self.start().await;
            return self.announce(gathered).await;
        };
        error!(
            error = &failure as &dyn std::error::Error,
            "failed to write device reports; reports wait or are refused until a write succeeds"
        );
        let since = mem::take(&mut self.gathering);
        self.core.roll_back(since.batch);
        self.core.roll_back(gathered.batch);
        let works: Vec<Work> = gathered.retry.into_iter().chain(since.retry).collect();
        if !works.is_empty() {
            self.retry = Some((works, Instant::now() + STORE_RETRY_DELAY));
        }
        if gathered.has_objects || since.has_objects {
            self.task.objects.restart_after(STORE_RETRY_DELAY);
        }
    }

    /// Sends the messages of a batch that is on disk.
    async fn announce(&mut self, gathered: GatheredBatch) {
        let GatheredBatch { batch, retry, .. } = gathered;
        batch
            .counts
            .iter()
            .for_each(|count| self.task.counts.add(*count));
        for (topic, body) in batch.publish {
            // one after the other: each may have to wait for space at a broker
            self.heartbeat.beat();
            self.task.bus.publish(topic.to_string(), body).await;
        }
        self.history.add(batch.past);
        if self.history.is_full() {
            self.write_history().await;
        }
        batch.replies.into_iter().for_each(Reply::send);
        for HistoryQuery { device, responder } in batch.history_queries {
            match device {
                Ok(device) => self.answer_history(device, responder),
                // the receiver may be gone
                Err(refused) => drop(responder.send(Err(refused))),
            }
        }
        for work in retry {
            if let Work::Requests(requests) = work {
                requests.into_iter().for_each(acknowledge);
            }
        }
        if batch.catalogue {
            self.task
                .catalogue
                .send_replace(Some(Arc::new(self.core.catalogue().clone())));
        }
    }
}

fn acknowledge(request: Received) {
    if let Received::Message { receipt, .. } = request {
        receipt.acknowledge();
    }
}

/// Applies an event of a broker.
fn take_request(core: &mut Core, batch: &mut Batch, request: &Received, now: i64) {
    match request {
        Received::Message { topic, payload, .. } => core.message(batch, topic, payload, now),
        Received::Connected => core.send_all_deltas(batch, now),
    }
}

/// Applies a message of the cloud other than an object.
fn take_message(core: &mut Core, batch: &mut Batch, message: Downstream, now: i64) {
    match message {
        Downstream::Membership(content) => core.membership(batch, content, now),
        Downstream::MembershipDetail(content) => core.membership_detail(batch, content, now),
        Downstream::TwinDesired { device, update } => {
            core.apply_cloud_twin(batch, &device, update, now)
        }
        other => warn!(
            what = other.form().as_str(),
            "message ignored: not about devices"
        ),
    }
}
