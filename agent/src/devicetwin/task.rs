//! The one owner of the devices. It works in turns: takes what has come, commits what has changed, and only then answers,
//! publishes and acknowledges. While one turn is written the next one gathers. Beside them it tells the cloud what that does not
//! know yet.

use std::{collections::BTreeSet, mem, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use kubeapi::store::StoreError;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use wire::{Downstream, Message, topic::DeviceId, twin::INTERNAL};

use super::{
    core::{Core, Due, Question, Reply, Turn},
    counts::Counts,
    handle::{Catalogue, Command, Done, Refused},
    history::{History, Past},
    kept::Kept,
    objects::{Objects, Seen},
    tell::{Told, ask_for_members, tell},
    writing::{Begun, Writing, written},
};
use crate::{
    edgehub::{EdgeHub, Link, now_ms},
    eventbus::{Bus, Received, Requests},
    metamanager::CloudMessages,
};

/// Requests of one turn, and so of one commit: enough that the sync of the disk no longer matters.
const TURN: usize = 256;
/// Reports that wait for the cloud's confirmation.
const AT_ONCE: usize = 16;
/// After the store failed.
const RETRY: Duration = Duration::from_secs(1);
/// How often it is written what the cloud has confirmed.
const NOTES: Duration = Duration::from_secs(5);
/// How long the disk and the brokers may take at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// See [`super::new`].
pub struct Task {
    pub(super) kept: Kept,
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

/// What has come.
pub(super) enum Work {
    Commands(Vec<Command>),
    Requests(Vec<Received>),
    Message(Downstream),
    Seen(Seen),
    Confirmed(DeviceId, Due),
    /// Some time has passed.
    Remind,
}

impl Task {
    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let (core, history) = tokio::select! {
            // cancel-safe, both: nothing was changed yet
            () = shutdown.cancelled() => return,
            loaded = load(&self.kept, &self.node) => loaded,
        };
        let mut room = Room {
            core,
            history,
            task: self,
            confirmed: BTreeSet::new(),
            again: None,
            gathering: Begun::default(),
            writing: None,
        };
        tokio::select! {
            // cancel-safe, both: whoever asked learns that the room has ended, or sends again
            () = shutdown.cancelled() => {}
            () = room.work() => {}
        }
        // whoever is to hear of what is on its way to the disk would not hear of it after a restart
        if timeout(LAST_WORDS, room.settle()).await.is_ok() {
            room.note_confirmed().await;
            room.note_history().await;
        }
    }
}

/// What is stored.
async fn load(kept: &Kept, node: &str) -> (Core, History) {
    loop {
        match tokio::try_join!(kept.load(), kept.chunks()) {
            Ok((devices, chunks)) => {
                return (Core::new(node, devices, Message::new_id), History::new(chunks));
            }
            Err(failure) => {
                error!(error = &failure as &dyn std::error::Error, "the stored devices cannot be read");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

impl Work {
    /// How much of a turn it fills.
    fn count(&self) -> usize {
        match self {
            Self::Commands(commands) => commands.len(),
            Self::Requests(requests) => requests.len(),
            Self::Message(_) | Self::Seen(_) | Self::Confirmed(..) | Self::Remind => 1,
        }
    }
}

/// The task at work.
struct Room {
    core: Core,
    history: History,
    task: Task,
    /// Devices of which the store does not know yet that the cloud has confirmed what they are.
    confirmed: BTreeSet<DeviceId>,
    /// What nobody sends again soon and could not be written, and when it is tried again. What would come after it waits.
    again: Option<(Vec<Work>, Instant)>,
    /// The turn that takes what comes.
    gathering: Begun,
    /// The one before it.
    writing: Option<Writing>,
}

impl Room {
    async fn work(&mut self) {
        let mut link = self.task.hub.link();
        link.mark_changed();
        let mut online = false;
        let (mut under_way, mut resting, mut questions) =
            (FuturesUnordered::new(), FuturesUnordered::new(), FuturesUnordered::new());
        let mut busy = BTreeSet::new();
        let mut notes = interval(NOTES);
        notes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.start().await;
            while online && under_way.len() < AT_ONCE {
                let Some(id) = self.core.next_due(&busy) else { break };
                let Some(due) = self.due(&id) else { continue };
                busy.insert(id.clone());
                under_way.push(tell(self.task.hub.clone(), id, due));
            }
            let (mut commands, mut requests) = (Vec::new(), Vec::new());
            let again = self.again.as_ref().map(|(_, at)| *at);
            let left = TURN.saturating_sub(self.gathering.count);
            let work = tokio::select! {
                // cancel-safe: the outcome stays until it is taken
                outcome = written(&mut self.writing) => {
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
                    Told::Confirmed(due) => {
                        busy.remove(&id);
                        Work::Confirmed(id, due)
                    }
                    Told::Again(wait) => {
                        resting.push(rest(id, wait));
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
                    self.settle().await;
                    self.note_confirmed().await;
                    self.note_history().await;
                    Work::Remind
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
            match work {
                Work::Commands(commands) => self.commands(commands).await,
                work => self.gather(work),
            }
        }
    }

    /// What the cloud is to be told of a device: nothing that is not on disk.
    fn due(&mut self, id: &DeviceId) -> Option<Due> {
        let writing = self.writing.as_ref().map(|writing| &writing.begun.turn);
        let unwritten: Vec<&Turn> = writing.into_iter().chain([&self.gathering.turn]).collect();
        self.core.due(id, &unwritten, now_ms())
    }

    /// Carries out what other rooms ask. What waits for the disk is older: while it cannot be written, nothing newer is.
    async fn commands(&mut self, mut commands: Vec<Command>) {
        if self.again.is_some() {
            self.gather_again();
            self.settle().await;
        }
        if self.again.is_some() {
            let why = Refused::unwritten();
            commands = commands.into_iter().filter_map(|command| command.question_or(&why)).collect();
        }
        self.gather(Work::Commands(commands));
    }

    /// Takes up once more what could not be written.
    fn gather_again(&mut self) {
        let (works, _) = self.again.take().unzip();
        works.into_iter().flatten().for_each(|work| self.gather(work));
    }

    /// Writes what the cloud has confirmed. Where that is lost the cloud is told once more, so it need not be written at once.
    async fn note_confirmed(&mut self) {
        let devices = self.confirmed.iter().filter_map(|id| Some((id, Some(self.core.device(id)?))));
        match self.task.kept.write(devices).await {
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
    async fn note_history(&mut self) {
        while let Some((number, chunk, over)) = self.history.chunk(now_ms()) {
            if let Err(failure) = self.task.kept.write_chunk(number, &chunk, &over).await {
                warn!(error = &failure as &dyn std::error::Error, "the history of devices cannot be written");
                return;
            }
            self.history.written(&chunk, &over);
        }
    }

    /// Answers what a device was, beside the work.
    fn answer_history(&self, device: DeviceId, done: Done<Vec<Past>>) {
        let waiting: Vec<Past> = self.history.waiting(&device).cloned().collect();
        let kept = self.task.kept.clone();
        tokio::spawn(async move {
            let history =
                kept.history(&device).await.map(|written| written.into_iter().chain(waiting).collect());
            let why =
                |error: StoreError| Refused::new(INTERNAL, format!("the history cannot be read: {error}"));
            // whoever asked may have left
            let _ = done.send(history.map_err(why));
        });
    }

    /// Carries out what has come, in memory: nobody hears of it before it is on disk.
    fn gather(&mut self, work: Work) {
        let (core, now) = (&mut self.core, now_ms());
        let Begun { turn, again, follows, count } = &mut self.gathering;
        *count += work.count();
        match work {
            Work::Commands(commands) => {
                commands.into_iter().for_each(|command| core.command(turn, command, now))
            }
            Work::Requests(requests) => {
                requests.iter().for_each(|request| asked(core, turn, request, now));
                again.push(Work::Requests(requests));
            }
            Work::Message(message) => {
                said(core, turn, message.clone(), now);
                again.push(Work::Message(message));
            }
            Work::Seen(found) => {
                found.apply(core, turn, now);
                // the first catalogue is told even where it is empty
                turn.catalogue |= self.task.catalogue.borrow().is_none();
                *follows = true;
            }
            Work::Confirmed(id, due) => {
                core.confirmed(turn, &id, &due);
                if let Some(writing) = &mut self.writing {
                    writing.begun.turn.confirmed(&id, &due);
                }
                self.confirmed.insert(id);
            }
            Work::Remind => core.remind(turn, now),
        }
    }

    /// Begins to write what was gathered, unless something is being written.
    async fn start(&mut self) {
        if self.writing.is_none() && self.gathering.count > 0 {
            let begun = mem::take(&mut self.gathering);
            let writes = self.task.kept.write(begun.turn.writes(&self.core));
            self.writing = Some(Writing::start(begun, writes).await);
        }
    }

    /// Waits until all is written, or could not be.
    async fn settle(&mut self) {
        self.start().await;
        while self.writing.is_some() {
            let outcome = written(&mut self.writing).await;
            self.written(outcome).await;
        }
    }

    /// A turn has been written, or could not be: then what was gathered since, which builds on it, is taken back with it.
    async fn written(&mut self, outcome: Result<(), StoreError>) {
        let Some(Writing { begun, .. }) = self.writing.take() else { return };
        let Err(failure) = outcome else {
            self.core.written(&begun.turn);
            // what has gathered meanwhile is written while this is told
            self.start().await;
            return self.tell(begun).await;
        };
        error!(
            error = &failure as &dyn std::error::Error,
            "what devices report cannot be written; it waits or is refused until it can"
        );
        let since = mem::take(&mut self.gathering);
        self.core.take_back(since.turn);
        self.core.take_back(begun.turn);
        let works: Vec<Work> = begun.again.into_iter().chain(since.again).collect();
        if !works.is_empty() {
            self.again = Some((works, Instant::now() + RETRY));
        }
        if begun.follows || since.follows {
            self.task.objects.again_after(RETRY);
        }
    }

    /// What a turn has brought about is on disk: whoever is to hear of it does.
    async fn tell(&mut self, begun: Begun) {
        let Begun { turn, again, .. } = begun;
        turn.counts.iter().for_each(|count| self.task.counts.add(*count));
        for (topic, body) in turn.publish {
            self.task.bus.publish(topic.to_string(), body).await;
        }
        self.history.add(turn.past);
        if self.history.is_full() {
            self.note_history().await;
        }
        turn.replies.into_iter().for_each(Reply::send);
        for Question { device, done } in turn.questions {
            match device {
                Ok(device) => self.answer_history(device, done),
                // whoever asked may have left
                Err(refused) => drop(done.send(Err(refused))),
            }
        }
        for work in again {
            if let Work::Requests(requests) = work {
                requests.into_iter().for_each(acknowledge);
            }
        }
        if turn.catalogue {
            self.task.catalogue.send_replace(Some(Arc::new(self.core.catalogue().clone())));
        }
    }
}

/// Waits for a time, for ever where there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn acknowledge(request: Received) {
    if let Received::Message { receipt, .. } = request {
        receipt.give();
    }
}

/// What a broker brings.
fn asked(core: &mut Core, turn: &mut Turn, request: &Received, now: i64) {
    match request {
        Received::Message { topic, payload, .. } => core.message(turn, topic, payload, now),
        Received::Connected => core.deltas(turn, now),
    }
}

/// What the cloud says of devices, beside objects.
fn said(core: &mut Core, turn: &mut Turn, message: Downstream, now: i64) {
    match message {
        Downstream::Membership(content) => core.membership(turn, content, now),
        Downstream::MembershipDetail(content) => core.membership_detail(turn, content, now),
        Downstream::TwinDesired { device, update } => core.wanted(turn, &device, update, now),
        other => warn!(message = ?other, "this is not about devices"),
    }
}

async fn rest(id: DeviceId, wait: Duration) -> DeviceId {
    tokio::time::sleep(wait).await;
    id
}
