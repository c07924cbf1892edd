//! The one owner of the devices. It works in turns: takes what has come, commits what has changed, and only then answers,
//! publishes and acknowledges. Between turns it tells the cloud what that does not know yet.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use kubeapi::store::StoreError;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
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
enum Work {
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
        let mut room = Room { core, history, task: self, confirmed: BTreeSet::new(), again: None };
        tokio::select! {
            // cancel-safe, both: whoever asked learns that the room has ended, or sends again
            () = shutdown.cancelled() => {}
            () = room.work() => {}
        }
        room.note_confirmed().await;
        room.note_history().await;
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

/// The task at work.
struct Room {
    core: Core,
    history: History,
    task: Task,
    /// Devices of which the store does not know yet that the cloud has confirmed what they are.
    confirmed: BTreeSet<DeviceId>,
    /// What nobody sends again soon and could not be written, and when it is tried again. What would come after it waits.
    again: Option<(Work, Instant)>,
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
            while online && under_way.len() < AT_ONCE {
                let Some(id) = self.core.next_due(&busy) else { break };
                let Some(due) = self.core.due(&id, now_ms()) else { continue };
                busy.insert(id.clone());
                under_way.push(tell(self.task.hub.clone(), id, due));
            }
            let (mut commands, mut requests) = (Vec::new(), Vec::new());
            let again = self.again.as_ref().map(|(_, at)| *at);
            let work = tokio::select! {
                // cancel-safe, all: nothing is taken unless the arm wins
                count = self.task.commands.recv_many(&mut commands, TURN) => {
                    if count == 0 {
                        return;
                    }
                    Work::Commands(commands)
                }
                true = self.task.requests.next(&mut requests, TURN), if again.is_none() => Work::Requests(requests),
                Some(message) = self.task.messages.next(), if again.is_none() => Work::Message(message),
                // cancel-safe: the work is taken afterwards
                () = at(again) => match self.again.take() {
                    Some((work, _)) => work,
                    None => continue,
                },
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
                work => self.turn(work).await,
            }
        }
    }

    /// Carries out what other rooms ask. What waits for the disk is older: while it cannot be written, nothing newer is.
    async fn commands(&mut self, mut commands: Vec<Command>) {
        if let Some((older, _)) = self.again.take() {
            self.turn(older).await;
        }
        if self.again.is_some() {
            let why = Refused::unwritten();
            commands = commands.into_iter().filter_map(|command| command.question_or(&why)).collect();
        }
        self.turn(Work::Commands(commands)).await;
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

    /// Carries out what has come: all of it is on disk when anybody hears of it.
    async fn turn(&mut self, work: Work) {
        let core = &mut self.core;
        let mut turn = Turn::default();
        let (mut again, mut follows) = (None, false);
        let now = now_ms();
        match work {
            Work::Commands(commands) => {
                commands.into_iter().for_each(|command| core.command(&mut turn, command, now))
            }
            Work::Requests(requests) => {
                requests.iter().for_each(|request| asked(core, &mut turn, request, now));
                again = Some(Work::Requests(requests));
            }
            Work::Message(message) => {
                said(core, &mut turn, message.clone(), now);
                again = Some(Work::Message(message));
            }
            Work::Seen(found) => {
                found.apply(core, &mut turn, now);
                // the first catalogue is told even where it is empty
                turn.catalogue |= self.task.catalogue.borrow().is_none();
                follows = true;
            }
            Work::Confirmed(id, due) => {
                core.confirmed(&mut turn, &id, &due);
                self.confirmed.insert(id);
            }
            Work::Remind => core.remind(&mut turn, now),
        }
        if let Err(failure) = self.task.kept.write(turn.writes(core)).await {
            error!(
                error = &failure as &dyn std::error::Error,
                "what devices report cannot be written; it waits or is refused until it can"
            );
            core.take_back(turn);
            if let Some(work) = again {
                self.again = Some((work, Instant::now() + RETRY));
            }
            // what the objects say is read again
            if follows {
                self.task.objects.again_after(RETRY);
            }
            return;
        }
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
        if let Some(Work::Requests(requests)) = again {
            requests.into_iter().for_each(acknowledge);
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
