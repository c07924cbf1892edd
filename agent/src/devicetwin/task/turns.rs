//! Turns: what comes is gathered into one, and told when it is on disk; while one is written the next one gathers.

use std::{mem, sync::Arc};

use kubeapi::store::StoreError;
use tokio::time::Instant;
use tracing::{error, warn};
use wire::{Downstream, topic::DeviceId, twin::INTERNAL};

use super::{
    super::{
        commit::{self, Commit, GatheredTurn},
        core::{Core, Question, Reply, Turn},
        handle::{Command, Done, Refused},
        history::Past,
        work::Work,
    },
    Room, STORE_RETRY_DELAY,
};
use crate::eventbus::Received;
use crate::rt::unix_millis;

impl Room<'_> {
    /// Carries out what other rooms ask. What waits for the disk is older: while it cannot be written, nothing newer is.
    pub(super) async fn commands(&mut self, mut commands: Vec<Command>) {
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
    pub(super) fn gather_again(&mut self) {
        let (works, _) = self.again.take().unzip();
        works.into_iter().flatten().for_each(|work| self.gather(work));
    }

    /// Answers what a device was, beside the work.
    fn answer_history(&self, device: DeviceId, done: Done<Vec<Past>>) {
        let waiting: Vec<Past> = self.history.waiting(&device).cloned().collect();
        let store = self.task.store.clone();
        tokio::spawn(async move {
            let history =
                store.history(&device).await.map(|written| written.into_iter().chain(waiting).collect());
            let why =
                |error: StoreError| Refused::new(INTERNAL, format!("the history cannot be read: {error}"));
            // whoever asked may have left
            let _ = done.send(history.map_err(why));
        });
    }

    /// Carries out what has come, in memory: nobody hears of it before it is on disk.
    pub(super) fn gather(&mut self, work: Work) {
        let (core, now) = (&mut self.core, unix_millis());
        let GatheredTurn { turn, again, follows, count } = &mut self.gathering;
        *count += work.count();
        match work {
            Work::Commands(commands) => {
                commands.into_iter().for_each(|command| core.command(turn, command, now))
            }
            Work::Requests(requests) => {
                requests.iter().for_each(|request| take_request(core, turn, request, now));
                again.push(Work::Requests(requests));
            }
            Work::Message(message) => {
                take_message(core, turn, message.clone(), now);
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
                if let Some(commit) = &mut self.committing {
                    commit.gathered.turn.confirmed(&id, &due);
                }
                self.confirmed.insert(id);
            }
            Work::Remind => core.remind(turn, now),
        }
    }

    /// Begins to write what was gathered, unless something is being written.
    pub(super) async fn start(&mut self) {
        if self.committing.is_none() && self.gathering.count > 0 {
            self.heart.beat();
            let gathered = mem::take(&mut self.gathering);
            let writes = self.task.store.write(gathered.turn.writes(&self.core));
            self.committing = Some(Commit::start(gathered, writes).await);
        }
    }

    /// Waits until all is written, or could not be.
    pub(super) async fn settle(&mut self) {
        self.start().await;
        while self.committing.is_some() {
            let outcome = commit::outcome(&mut self.committing).await;
            self.written(outcome).await;
        }
    }

    /// A turn has been written, or could not be: then what was gathered since, which builds on it, is taken back with it.
    pub(super) async fn written(&mut self, outcome: Result<(), StoreError>) {
        let Some(Commit { gathered, .. }) = self.committing.take() else { return };
        let Err(failure) = outcome else {
            self.core.written(&gathered.turn);
            // what has gathered meanwhile is written while this is told
            self.start().await;
            return self.announce(gathered).await;
        };
        error!(
            error = &failure as &dyn std::error::Error,
            "what devices report cannot be written; it waits or is refused until it can"
        );
        let since = mem::take(&mut self.gathering);
        self.core.take_back(since.turn);
        self.core.take_back(gathered.turn);
        let works: Vec<Work> = gathered.again.into_iter().chain(since.again).collect();
        if !works.is_empty() {
            self.again = Some((works, Instant::now() + STORE_RETRY_DELAY));
        }
        if gathered.follows || since.follows {
            self.task.objects.again_after(STORE_RETRY_DELAY);
        }
    }

    /// What a turn has brought about is on disk: whoever is to hear of it does.
    async fn announce(&mut self, gathered: GatheredTurn) {
        let GatheredTurn { turn, again, .. } = gathered;
        turn.counts.iter().for_each(|count| self.task.counts.add(*count));
        for (topic, body) in turn.publish {
            // one after the other: each may have to wait for room at a broker
            self.heart.beat();
            self.task.bus.publish(topic.to_string(), body).await;
        }
        self.history.add(turn.past);
        if self.history.is_full() {
            self.write_history().await;
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

fn acknowledge(request: Received) {
    if let Received::Message { receipt, .. } = request {
        receipt.give();
    }
}

/// What a broker brings.
fn take_request(core: &mut Core, turn: &mut Turn, request: &Received, now: i64) {
    match request {
        Received::Message { topic, payload, .. } => core.message(turn, topic, payload, now),
        Received::Connected => core.deltas(turn, now),
    }
}

/// What the cloud says of devices, beside objects.
fn take_message(core: &mut Core, turn: &mut Turn, message: Downstream, now: i64) {
    match message {
        Downstream::Membership(content) => core.membership(turn, content, now),
        Downstream::MembershipDetail(content) => core.membership_detail(turn, content, now),
        Downstream::TwinDesired { device, update } => core.wanted(turn, &device, update, now),
        other => warn!(what = other.kind(), "this is not about devices"),
    }
}
