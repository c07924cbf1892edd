//! The one owner of the devices. It works in batches: it applies requests in memory, commits the changes, and only then
//! answers, publishes and acknowledges. While one batch is written the next one is gathered. Beside them it sends reports to
//! the cloud.

mod batches;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use componentbase::{Heartbeat, Link, Part, PartError};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use wire::{Message, topic::DeviceId};

use super::{
    cloud_reports::{ReportOutcome, report, request_members},
    commit::{Commit, GatheredBatch, outcome},
    core::{Batch, Core, PendingReport},
    counts::RequestCounts,
    handle::{Catalogue, Command},
    history::History,
    objects::Objects,
    store::DeviceStore,
    work::Work,
};
use crate::{
    edgehub::EdgeHub,
    eventbus::{Bus, Requests},
    metamanager::CloudMessages,
};

/// The most requests of one batch, and so of one commit: enough that the sync of the disk no longer matters.
const MAX_BATCH: usize = 256;
/// The most reports that wait for the cloud's confirmation.
const MAX_CONCURRENT_REPORTS: usize = 16;
/// The wait after the store failed.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How often the cloud's confirmations are written.
const CONFIRMED_WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// How long the disk and the brokers may take at the end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The task that [`super::new`] builds.
pub struct Task {
    pub(super) store: DeviceStore,
    pub(super) objects: Objects,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) requests: Requests,
    pub(super) messages: CloudMessages,
    pub(super) bus: Bus,
    pub(super) hub: EdgeHub,
    pub(super) node: String,
    pub(super) catalogue: watch::Sender<Option<Arc<Catalogue>>>,
    pub(super) counts: Arc<RequestCounts>,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl Task {
    /// Runs until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        self.run_restartable(&Heartbeat::unmonitored(), shutdown)
            .await;
    }

    /// Runs until `shutdown`. The future may be dropped at any point and the method called again: it starts with what is
    /// stored. Callers with an open request get an error.
    async fn run_restartable(&mut self, heartbeat: &Heartbeat, shutdown: CancellationToken) {
        heartbeat.beat();
        self.objects.restart_after(Duration::ZERO);
        let (core, history) = clock::select! {
            // cancel-safe: nothing was changed yet
            () = shutdown.cancelled() => return,
            loaded = load(&self.store, &self.node) => loaded,
        };
        let mut worker = Worker {
            core,
            history,
            task: self,
            heartbeat,
            confirmed: BTreeSet::new(),
            retry: None,
            gathering: GatheredBatch::default(),
            committing: None,
        };
        clock::select! {
            // cancel-safe: callers learn that the module has ended, or send again
            () = shutdown.cancelled() => {}
            () = worker.work() => {}
        }
        // messages about a batch that is being written would not be sent after a restart
        if timeout(SHUTDOWN_TIMEOUT, worker.write_remaining())
            .await
            .is_err()
        {
            warn!(
                "failed to write all device messages in time; unacknowledged messages are sent again"
            );
        }
    }
}

impl Part for Task {
    async fn run(
        &mut self,
        heartbeat: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        Box::pin(self.run_restartable(&heartbeat, shutdown)).await;
        Ok(())
    }
}

/// Reads what is stored.
async fn load(store: &DeviceStore, node: &str) -> (Core, History) {
    loop {
        match tokio::try_join!(store.load(), store.chunks()) {
            Ok((devices, chunks)) => {
                return (
                    Core::new(node, devices, Message::new_id),
                    History::new(chunks),
                );
            }
            Err(failure) => {
                error!(
                    error = &failure as &dyn std::error::Error,
                    "failed to read stored devices; retrying"
                );
                tokio::time::sleep(STORE_RETRY_DELAY).await;
            }
        }
    }
}

/// The task while it runs.
struct Worker<'a> {
    core: Core,
    history: History,
    task: &'a mut Task,
    heartbeat: &'a Heartbeat,
    /// Devices whose confirmations of the cloud are not written yet.
    confirmed: BTreeSet<DeviceId>,
    /// Work that its sender does not send again soon and that could not be written, and when it is retried. Newer work waits.
    retry: Option<(Vec<Work>, Instant)>,
    /// The batch that gathers requests.
    gathering: GatheredBatch,
    /// The batch that is being written.
    committing: Option<Commit>,
}

impl Worker<'_> {
    async fn work(&mut self) {
        let mut link = self.task.hub.link();
        link.mark_changed();
        let mut online = false;
        let (mut under_way, mut resting, mut member_requests) = (
            FuturesUnordered::new(),
            FuturesUnordered::new(),
            FuturesUnordered::new(),
        );
        let (mut busy, mut notes) = (BTreeSet::new(), ticker(CONFIRMED_WRITE_INTERVAL));
        loop {
            self.start().await;
            while online && under_way.len() < MAX_CONCURRENT_REPORTS {
                let Some((id, due)) = self.next_due(&busy) else {
                    break;
                };
                busy.insert(id.clone());
                under_way.push(report(self.task.hub.clone(), id, due));
            }
            let (mut commands, mut requests) = (Vec::new(), Vec::new());
            let retry = self.retry.as_ref().map(|(_, at)| *at);
            let left = MAX_BATCH.saturating_sub(self.gathering.count);
            // the batch that is being written keeps its own deadline
            let rest = self.committing.is_none().then(|| self.heartbeat.idle());
            let work = clock::select! {
                // cancel-safe: the outcome stays until it is taken
                outcome = outcome(&mut self.committing) => {
                    self.handle_written(outcome).await;
                    continue;
                }
                // cancel-safe: nothing is taken unless the arm wins
                count = self.task.commands.recv_many(&mut commands, left), if left > 0 => {
                    if count == 0 {
                        return;
                    }
                    Work::Commands(commands)
                }
                true = self.task.requests.next(&mut requests, left), if left > 0 && retry.is_none() => Work::Requests(requests),
                Some(message) = self.task.messages.next(), if left > 0 && retry.is_none() => Work::Message(message),
                // cancel-safe: the work is taken afterwards
                () = sleep_until_or_forever(retry) => {
                    self.gather_again();
                    continue;
                }
                // cancel-safe: what was not returned is returned by the next call
                seen = self.task.objects.next(), if retry.is_none() => Work::Objects(seen),
                // cancel-safe: futures stay in the set until they are done
                Some((id, told)) = under_way.next() => match told {
                    ReportOutcome::Confirmed(due) => {
                        busy.remove(&id);
                        Work::Confirmed(id, due)
                    }
                    ReportOutcome::RetryAfter(wait) => {
                        resting.push(after(id, wait));
                        continue;
                    }
                },
                Some(id) = resting.next() => {
                    busy.remove(&id);
                    continue;
                }
                Some(()) = member_requests.next() => continue,
                // cancel-safe: an interval keeps its ticks
                _ = notes.tick() => {
                    drop(rest);
                    self.write_remaining().await;
                    self.take(Work::Remind).await;
                    continue;
                }
                // cancel-safe: the newest state is read
                Ok(()) = link.changed() => {
                    online = *link.borrow_and_update() != Link::Down;
                    // a query of an earlier connection is not answered any more
                    member_requests.clear();
                    if online {
                        member_requests.push(request_members(self.task.hub.clone(), self.task.node.clone()));
                    }
                    continue;
                }
            };
            drop(rest);
            self.take(work).await;
        }
    }

    /// Applies work.
    async fn take(&mut self, work: Work) {
        match work {
            Work::Commands(commands) => self.commands(commands).await,
            work => self.gather(work),
        }
    }

    /// Returns a device that is not in `busy`, and its report, which has only what is on disk.
    fn next_due(&mut self, busy: &BTreeSet<DeviceId>) -> Option<(DeviceId, PendingReport)> {
        let writing = self
            .committing
            .as_ref()
            .map(|commit| &commit.gathered.batch);
        let unwritten: Vec<&Batch> = writing.into_iter().chain([&self.gathering.batch]).collect();
        loop {
            let id = self.core.next_due(busy)?;
            if let Some(due) = self.core.due(&id, &unwritten, clock::unix_millis()) {
                return Some((id, due));
            }
        }
    }

    /// Writes everything outside the batches, after them.
    async fn write_remaining(&mut self) {
        self.flush().await;
        self.write_confirmed().await;
        self.write_history().await;
    }

    /// Writes the cloud's confirmations. A lost one is only reported once more, so they need not be written at once.
    async fn write_confirmed(&mut self) {
        let devices = self
            .confirmed
            .iter()
            .filter_map(|id| Some((id, Some(self.core.device(id)?))));
        match self.task.store.write(devices).await {
            Ok(()) => self.confirmed.clear(),
            Err(failure) => {
                warn!(
                    error = &failure as &dyn std::error::Error,
                    "failed to write the cloud's confirmations of device reports"
                );
            }
        }
    }

    /// Writes the history.
    async fn write_history(&mut self) {
        while let Some((number, chunk, over)) = self.history.chunk(clock::unix_millis()) {
            if let Err(failure) = self.task.store.write_chunk(number, &chunk, &over).await {
                warn!(
                    error = &failure as &dyn std::error::Error,
                    "failed to write the history of devices"
                );
                return;
            }
            self.history.record_written(&chunk, &over);
        }
    }
}

fn ticker(time: Duration) -> Interval {
    let mut ticks = interval(time);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits until a time; for ever if there is none.
async fn sleep_until_or_forever(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn after(id: DeviceId, wait: Duration) -> DeviceId {
    tokio::time::sleep(wait).await;
    id
}
