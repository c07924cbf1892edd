//! The one owner of what waits: takes what comes, sends what is oldest, writes what waits for too long.

use std::{sync::atomic::Ordering, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesOrdered};
use kubeapi::store::StoreError;
use tokio::sync::{mpsc, watch};
use tracing::{error, warn};
use wire::Message;

use super::{
    Config, Item, Length,
    backlog::{Backlog, Place},
    waiting::{Queue, Waiting},
};
use crate::{
    edgehub::{Link, Unreachable},
    rt::{Repeated, now},
};

/// After the store failed.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Writing what waits must not hold up the end of the program.
const LAST_WRITE: Duration = Duration::from_secs(2);
/// Where the disk takes nothing, so many wait in memory; then the oldest are dropped.
const WITHOUT_DISK: usize = 512;

/// Sends what it is given, and keeps what waits. Its parts stay where they are when [`Outbox::run`] is dropped.
pub(crate) struct Outbox<T> {
    config: Config,
    items: mpsc::Receiver<T>,
    link: watch::Receiver<Link>,
    queue: Queue,
    /// `None` until the disk was read.
    backlog: Option<Backlog>,
    /// The oldest of all, on their way, in their order: from the disk or from memory.
    sending: FuturesOrdered<BoxFuture<'static, Sent>>,
    /// How many of the oldest on disk are on their way.
    from_disk: usize,
    /// How many of the oldest in memory are on their way.
    from_memory: usize,
    /// So many in memory are older than what is on disk: they were on their way when the others were written.
    ahead: usize,
    dropped: Dropped,
    faults: Repeated,
    length: Length,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Disk,
    Memory,
}

/// What became of one that was on its way.
type Sent = (Origin, Result<(), Unreachable>);

/// What was dropped, until nothing waits any more.
#[derive(Debug, Default)]
struct Dropped {
    count: usize,
    said: Repeated,
}

impl<T: Into<Item>> Outbox<T> {
    pub(super) fn new(config: Config, items: mpsc::Receiver<T>) -> Self {
        let link = config.hub.link();
        let (queue, dropped) = (Queue::default(), Dropped::default());
        let length = Length::new(config.what, config.limits.messages);
        let faults = Repeated::default();
        Self {
            config,
            items,
            link,
            queue,
            backlog: None,
            sending: FuturesOrdered::new(),
            from_disk: 0,
            from_memory: 0,
            ahead: 0,
            dropped,
            faults,
            length,
        }
    }

    /// How much waits in it.
    pub(crate) fn length(&self) -> Length {
        self.length.clone()
    }

    fn measure(&self) {
        self.length.set(self.queue.len() + self.backlog.as_ref().map_or(0, Backlog::len));
    }

    /// Runs until nobody has anything to send any more, or EdgeHub has ended. Cancel-safe: what is not done is done by the next
    /// call, or by [`Outbox::finish`].
    pub(crate) async fn run(&mut self) {
        while self.backlog.is_none() {
            if let Err(failure) = self.load().await {
                self.failed(&failure).await;
            }
        }
        let mut is_fed = true;
        while is_fed || !self.sending.is_empty() || self.queue.len() > 0 {
            if let Err(failure) = self.begin().await {
                self.failed(&failure).await;
            }
            self.measure();
            // what is on its way stays in memory; what comes after it may have to wait for its answers
            let due = self.queue.due(now()).filter(|_| self.queue.len() > self.from_memory);
            tokio::select! {
                biased;
                // cancel-safe: it is kept until it is done
                sent = sent(&mut self.sending) => self.sent(sent),
                // cancel-safe: the state is read again
                changed = self.link.changed() => if changed.is_err() { return },
                () = wait(due) => {
                    if let Err(failure) = self.flush().await {
                        self.failed(&failure).await;
                    }
                }
                // cancel-safe: nothing is taken unless this arm wins
                item = self.items.recv(), if is_fed => match item {
                    Some(item) => self.queue.push(item.into(), self.from_memory.max(1), now()),
                    None => is_fed = false,
                },
            }
        }
    }

    /// Writes what waits, at the end of the program.
    pub(crate) async fn finish(&mut self) {
        while let Ok(item) = self.items.try_recv() {
            self.queue.push(item.into(), self.from_memory.max(1), now());
        }
        // it is sent by the next run, once more if it was written just now
        self.call_back();
        let written = async {
            if self.backlog.is_none() {
                self.load().await?;
            }
            self.flush().await
        };
        match tokio::time::timeout(LAST_WRITE, written).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                let what = self.config.what;
                error!(
                    what,
                    error = &failure as &dyn std::error::Error,
                    "what waited for the cloud is not on disk"
                );
            }
            Err(_) => {
                error!(what = self.config.what, "what waited for the cloud is not on disk: it took too long")
            }
        }
    }

    async fn load(&mut self) -> Result<(), StoreError> {
        let Config { what, limits, store, .. } = &self.config;
        self.backlog = Some(Backlog::load(store.clone(), what, *limits).await?);
        Ok(())
    }

    /// Begins to send what is oldest, where there is a connection.
    async fn begin(&mut self) -> Result<(), StoreError> {
        if *self.link.borrow_and_update() == Link::Down {
            return Ok(());
        }
        while self.sending.len() < self.config.at_once {
            let Some((origin, message)) = self.next().await? else { break };
            match origin {
                Origin::Disk => self.from_disk += 1,
                Origin::Memory => self.from_memory += 1,
            }
            let sending = self.config.deliver.send(message);
            self.sending.push_back(async move { (origin, sending.await) }.boxed());
        }
        if self.sending.is_empty() {
            self.dropped = Dropped::default();
        }
        Ok(())
    }

    /// The oldest that is not on its way yet; `None` where it has to wait for those that are.
    async fn next(&mut self) -> Result<Option<(Origin, Message)>, StoreError> {
        if self.ahead == 0
            && let Some(backlog) = self.backlog.as_mut().filter(|backlog| !backlog.is_empty())
        {
            // of the oldest chunk alone: what comes after it is read when it is done with
            let message = match self.from_disk {
                0 => backlog.first().await?,
                number => return Ok(backlog.after_first(number).map(|message| (Origin::Disk, message))),
            };
            if let Some(message) = message {
                return Ok(Some((Origin::Disk, message)));
            }
        }
        let is_theirs = self.ahead == 0 || self.from_memory < self.ahead;
        let waiting = self.queue.nth(self.from_memory).filter(|_| is_theirs);
        Ok(waiting.map(|waiting| (Origin::Memory, waiting.item.message.clone())))
    }

    fn sent(&mut self, (origin, sent): Sent) {
        // there was no connection: this one, and what came after it, again
        if sent.is_err() {
            return self.call_back();
        }
        match origin {
            Origin::Disk => {
                self.from_disk = self.from_disk.saturating_sub(1);
                if let Some(backlog) = &mut self.backlog {
                    backlog.sent();
                }
            }
            Origin::Memory => {
                self.from_memory = self.from_memory.saturating_sub(1);
                self.ahead = self.ahead.saturating_sub(1);
                self.queue.pop(now()).into_iter().for_each(keep);
            }
        }
    }

    /// What is on its way is sent once more.
    fn call_back(&mut self) {
        self.sending = FuturesOrdered::new();
        self.from_disk = 0;
        self.from_memory = 0;
    }

    /// Writes all that waits in memory, but for what is on its way.
    async fn flush(&mut self) -> Result<(), StoreError> {
        if self.ahead > 0 && self.from_memory == 0 {
            let mut first = self.queue.texts(0);
            first.truncate(self.ahead);
            self.write(&first, Place::Front).await?;
            for _ in 0..std::mem::take(&mut self.ahead) {
                self.queue.pop(now()).into_iter().for_each(keep);
            }
        }
        let from = self.from_memory;
        self.write(&self.queue.texts(from), Place::Back).await?;
        self.queue.take(from, now()).into_iter().for_each(keep);
        self.ahead = from;
        Ok(())
    }

    async fn write(&mut self, messages: &[String], place: Place) -> Result<(), StoreError> {
        let Some(backlog) = self.backlog.as_mut().filter(|_| !messages.is_empty()) else { return Ok(()) };
        match backlog.push(messages, place).await {
            Ok(dropped) => {
                // what was on its way may be among what was dropped
                if self.from_disk > 0 && !backlog.is_read() {
                    self.call_back();
                }
                self.dropped(dropped);
            }
            Err(failure) => {
                self.make_room();
                return Err(failure);
            }
        }
        Ok(())
    }

    /// The disk takes nothing.
    fn make_room(&mut self) {
        let over = self.queue.len().saturating_sub(WITHOUT_DISK);
        if over > 0 {
            self.call_back();
            self.ahead = 0;
        }
        for _ in 0..over {
            self.queue.pop(now());
        }
        self.dropped(over);
    }

    fn dropped(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.dropped.count += count;
        self.config.dropped.fetch_add(count as u64, Ordering::Relaxed);
        if self.dropped.said.count("full", now()).is_some() {
            let (what, dropped) = (self.config.what, self.dropped.count);
            warn!(what, dropped, "too much waits for the cloud: the oldest are dropped");
        }
    }

    async fn failed(&mut self, failure: &StoreError) {
        if let Some(times) = self.faults.count(&failure.to_string(), now()) {
            let (what, error) = (self.config.what, failure as &dyn std::error::Error);
            error!(what, times, error, "what waits for the cloud cannot be read or written");
        }
        tokio::time::sleep(STORE_RETRY_DELAY).await;
    }
}

fn keep(waiting: Waiting) {
    if let Some(kept) = waiting.item.kept {
        kept();
    }
}

async fn sent(sending: &mut FuturesOrdered<BoxFuture<'static, Sent>>) -> Sent {
    match sending.next().await {
        Some(sent) => sent,
        None => std::future::pending().await,
    }
}

async fn wait(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep(due).await,
        None => std::future::pending().await,
    }
}

impl<T> std::fmt::Debug for Outbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox")
            .field("queue", &self.queue)
            .field("backlog", &self.backlog)
            .finish_non_exhaustive()
    }
}
