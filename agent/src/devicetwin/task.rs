//! The one owner of the devices. It works in turns: takes what has come, commits what has changed, and only then answers,
//! publishes and acknowledges. While one turn is written the next one gathers. Beside them it tells the cloud what that does not
//! know yet.

mod turns;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use wire::{Message, topic::DeviceId};

use super::{
    cloud_reports::{ReportOutcome, ask_for_members, report},
    commit::{Commit, GatheredTurn, outcome},
    core::{Core, Due, Turn},
    counts::Counts,
    handle::{Catalogue, Command},
    history::History,
    objects::Objects,
    store::DeviceStore,
    work::Work,
};
use crate::{
    edgehub::{EdgeHub, Link},
    eventbus::{Bus, Requests},
    metamanager::CloudMessages,
    rt::{Heart, Part, PartError, unix_millis},
};

/// Requests of one turn, and so of one commit: enough that the sync of the disk no longer matters.
const MAX_TURN: usize = 256;
/// Reports that wait for the cloud's confirmation.
const MAX_CONCURRENT_REPORTS: usize = 16;
/// After the store failed.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How often it is written what the cloud has confirmed.
const CONFIRMED_WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// How long the disk and the brokers may take at the end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// See [`super::new`].
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
    pub(super) counts: Arc<Counts>,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Task {
    /// Runs until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        self.run_again(&Heart::unheard(), shutdown).await;
    }

    /// The same for whoever may drop it in its middle, and call it again: it begins with what is stored. Whoever has asked meanwhile
    /// learns that there is no answer.
    async fn run_again(&mut self, heart: &Heart, shutdown: CancellationToken) {
        heart.beat();
        self.objects.again_after(Duration::ZERO);
        let (core, history) = tokio::select! {
            // cancel-safe, both: nothing was changed yet
            () = shutdown.cancelled() => return,
            loaded = load(&self.store, &self.node) => loaded,
        };
        let mut room = Room {
            core,
            history,
            task: self,
            heart,
            confirmed: BTreeSet::new(),
            again: None,
            gathering: GatheredTurn::default(),
            committing: None,
        };
        tokio::select! {
            // cancel-safe, both: whoever asked learns that the room has ended, or sends again
            () = shutdown.cancelled() => {}
            () = room.work() => {}
        }
        // whoever is to hear of what is on its way to the disk would not hear of it after a restart
        if timeout(SHUTDOWN_TIMEOUT, room.write_remaining()).await.is_err() {
            warn!("not all that devices have said was written; what was not acknowledged is said again");
        }
    }
}

impl Part for Task {
    async fn run(&mut self, heart: Heart, shutdown: CancellationToken) -> Result<(), PartError> {
        Box::pin(self.run_again(&heart, shutdown)).await;
        Ok(())
    }
}

/// What is stored.
async fn load(store: &DeviceStore, node: &str) -> (Core, History) {
    loop {
        match tokio::try_join!(store.load(), store.chunks()) {
            Ok((devices, chunks)) => {
                return (Core::new(node, devices, Message::new_id), History::new(chunks));
            }
            Err(failure) => {
                error!(error = &failure as &dyn std::error::Error, "the stored devices cannot be read");
                tokio::time::sleep(STORE_RETRY_DELAY).await;
            }
        }
    }
}

/// The task at work.
struct Room<'a> {
    core: Core,
    history: History,
    task: &'a mut Task,
    heart: &'a Heart,
    /// Devices of which the store does not know yet that the cloud has confirmed what they are.
    confirmed: BTreeSet<DeviceId>,
    /// What nobody sends again soon and could not be written, and when it is tried again. What would come after it waits.
    again: Option<(Vec<Work>, Instant)>,
    /// The turn that takes what comes.
    gathering: GatheredTurn,
    /// The one before it.
    committing: Option<Commit>,
}

impl Room<'_> {
    async fn work(&mut self) {
        let mut link = self.task.hub.link();
        link.mark_changed();
        let mut online = false;
        let (mut under_way, mut resting, mut questions) =
            (FuturesUnordered::new(), FuturesUnordered::new(), FuturesUnordered::new());
        let (mut busy, mut notes) = (BTreeSet::new(), every(CONFIRMED_WRITE_INTERVAL));
        loop {
            self.start().await;
            while online && under_way.len() < MAX_CONCURRENT_REPORTS {
                let Some((id, due)) = self.next_due(&busy) else { break };
                busy.insert(id.clone());
                under_way.push(report(self.task.hub.clone(), id, due));
            }
            let (mut commands, mut requests) = (Vec::new(), Vec::new());
            let again = self.again.as_ref().map(|(_, at)| *at);
            let left = MAX_TURN.saturating_sub(self.gathering.count);
            // what is being written has the deadline that it began with
            let rest = self.committing.is_none().then(|| self.heart.rest());
            let work = tokio::select! {
                // cancel-safe: the outcome stays until it is taken
                outcome = outcome(&mut self.committing) => {
                    self.written(outcome).await;
                    continue;
                }
                // cancel-safe, all: nothing is taken unless the arm wins
                count = self.task.commands.recv_many(&mut commands, left), if left > 0 => {
                    if count == 0 {
                        return;
                    }
                    Work::Commands(commands)
                }
                true = self.task.requests.next(&mut requests, left), if left > 0 && again.is_none() => Work::Requests(requests),
                Some(message) = self.task.messages.next(), if left > 0 && again.is_none() => Work::Message(message),
                // cancel-safe: the work is taken afterwards
                () = at(again) => {
                    self.gather_again();
                    continue;
                }
                // cancel-safe: what was not returned is returned by the next call
                seen = self.task.objects.next(), if again.is_none() => Work::Seen(seen),
                // cancel-safe, all: futures stay in the set until they are done
                Some((id, told)) = under_way.next() => match told {
                    ReportOutcome::Confirmed(due) => {
                        busy.remove(&id);
                        Work::Confirmed(id, due)
                    }
                    ReportOutcome::RetryAfter(wait) => {
                        resting.push(rested(id, wait));
                        continue;
                    }
                },
                Some(id) = resting.next() => {
                    busy.remove(&id);
                    continue;
                }
                Some(()) = questions.next() => continue,
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
                    // one of an earlier connection is not answered any more
                    questions.clear();
                    if online {
                        questions.push(ask_for_members(self.task.hub.clone(), self.task.node.clone()));
                    }
                    continue;
                }
            };
            drop(rest);
            self.take(work).await;
        }
    }

    /// Does what has come.
    async fn take(&mut self, work: Work) {
        match work {
            Work::Commands(commands) => self.commands(commands).await,
            work => self.gather(work),
        }
    }

    /// A device that is none of `busy`, and what the cloud is to be told of it: nothing that is not on disk.
    fn next_due(&mut self, busy: &BTreeSet<DeviceId>) -> Option<(DeviceId, Due)> {
        let writing = self.committing.as_ref().map(|commit| &commit.gathered.turn);
        let unwritten: Vec<&Turn> = writing.into_iter().chain([&self.gathering.turn]).collect();
        loop {
            let id = self.core.next_due(busy)?;
            if let Some(due) = self.core.due(&id, &unwritten, unix_millis()) {
                return Some((id, due));
            }
        }
    }

    /// Writes all that is to be noted beside the turns, after them.
    async fn write_remaining(&mut self) {
        self.settle().await;
        self.write_confirmed().await;
        self.write_history().await;
    }

    /// Writes what the cloud has confirmed. Where that is lost the cloud is told once more, so it need not be written at once.
    async fn write_confirmed(&mut self) {
        let devices = self.confirmed.iter().filter_map(|id| Some((id, Some(self.core.device(id)?))));
        match self.task.store.write(devices).await {
            Ok(()) => self.confirmed.clear(),
            Err(failure) => {
                warn!(
                    error = &failure as &dyn std::error::Error,
                    "what the cloud has confirmed cannot be written"
                );
            }
        }
    }

    /// Writes what values have been.
    async fn write_history(&mut self) {
        while let Some((number, chunk, over)) = self.history.chunk(unix_millis()) {
            if let Err(failure) = self.task.store.write_chunk(number, &chunk, &over).await {
                warn!(error = &failure as &dyn std::error::Error, "the history of devices cannot be written");
                return;
            }
            self.history.written(&chunk, &over);
        }
    }
}

fn every(time: Duration) -> Interval {
    let mut ticks = interval(time);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits for a time, for ever where there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn rested(id: DeviceId, wait: Duration) -> DeviceId {
    tokio::time::sleep(wait).await;
    id
}
