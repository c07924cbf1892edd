//! The one owner of the waiting messages: accepts new ones, sends the oldest, and writes to disk those that wait for too long.

use std::{sync::atomic::Ordering, time::Duration};

use clock::Instant;
use componentbase::Link;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesOrdered};
use limits::Repeated;
use objectstore::StoreError;
use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};
use wire::Message;

use super::{
    Config, Item, Length, MAX_UNSTORED,
    backlog::{Backlog, ChunkPosition},
    memory_queue::{Queue, QueuedMessage},
};
use crate::edgehub::Unreachable;

/// The wait after the store failed.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long the last write may delay the end of the program.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// The most messages that wait in memory while the disk fails; beyond it the oldest are dropped.
const MAX_MESSAGES_WITHOUT_DISK: usize = 512;

/// Sends messages and stores those that wait. The state survives when the future of [`Outbox::run`] is dropped.
pub(crate) struct Outbox<T> {
    config: Config,
    items: mpsc::Receiver<T>,
    link: watch::Receiver<Link>,
    queue: Queue,
    /// `None` until the disk was read.
    backlog: Option<Backlog>,
    /// The oldest messages, which are being sent in order, from the disk or from memory.
    sending: FuturesOrdered<BoxFuture<'static, Sent>>,
    /// How many of the oldest on disk are being sent.
    in_flight_from_disk: usize,
    /// How many of the oldest in memory are being sent.
    in_flight_from_memory: usize,
    /// How many messages in memory are older than those on disk, because they were being sent when the others were written.
    ahead: usize,
    dropped: DroppedCount,
    faults: Repeated,
    length: Length,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Disk,
    Memory,
}

/// The result of sending a message.
type Sent = (Origin, Result<(), Unreachable>);

/// The dropped messages, counted until nothing waits any more.
#[derive(Debug, Default)]
struct DroppedCount {
    count: usize,
    said: Repeated,
}

impl<T: Into<Item>> Outbox<T> {
    pub(super) fn new(config: Config, items: mpsc::Receiver<T>) -> Self {
        let link = config.hub.link();
        let (queue, dropped) = (Queue::default(), DroppedCount::default());
        let length = Length::new(config.what, config.limits.messages);
        let faults = Repeated::default();
        Self {
            config,
            items,
            link,
            queue,
            backlog: None,
            sending: FuturesOrdered::new(),
            in_flight_from_disk: 0,
            in_flight_from_memory: 0,
            ahead: 0,
            dropped,
            faults,
            length,
        }
    }

    /// Returns the length of the outbox.
    pub(crate) fn length(&self) -> Length {
        self.length.clone()
    }

    fn measure(&self) {
        self.length
            .set(self.queue.len() + self.backlog.as_ref().map_or(0, Backlog::len));
    }

    /// Runs until all senders are gone, or EdgeHub has ended. Cancel-safe: the rest is done by the next call, or by
    /// [`Outbox::finish`].
    pub(crate) async fn run(&mut self) {
        while self.backlog.is_none() {
            if let Err(failure) = self.load().await {
                self.log_failure(&failure).await;
            }
        }
        let mut is_fed = true;
        while is_fed || !self.sending.is_empty() || self.queue.len() > 0 {
            if let Err(failure) = self.begin().await {
                self.log_failure(&failure).await;
            }
            self.measure();
            let (due, takes) = (self.due(), self.takes());
            clock::select! {
                biased;
                // cancel-safe: the future is kept until it is done
                sent = next_sent(&mut self.sending) => self.handle_sent(sent),
                // cancel-safe: the state is read again
                changed = self.link.changed() => if changed.is_err() { return },
                () = wait(due) => {
                    if let Err(failure) = self.write_due().await {
                        self.log_failure(&failure).await;
                    }
                }
                // cancel-safe: nothing is taken unless this arm wins
                item = self.items.recv(), if is_fed && takes => match item {
                    Some(item) => self.push(item),
                    None => is_fed = false,
                },
            }
        }
    }

    fn push(&mut self, item: T) {
        self.queue.push(
            item.into(),
            self.in_flight_from_memory.max(1),
            clock::Instant::now(),
        );
    }

    /// Reports whether another message is accepted: while the disk fails, publishers that wait for it are not relieved.
    fn takes(&self) -> bool {
        self.queue.len() < MAX_MESSAGES_WITHOUT_DISK || !self.queue.has_receipts(0)
    }

    /// Returns the time until messages have to be written. Those that are being sent stay in memory for as long as their publishers can
    /// wait; later ones may have to wait for their answers.
    fn due(&self) -> Option<Duration> {
        let (now, from) = (clock::Instant::now(), self.in_flight_from_memory);
        let of_unsent = if self.queue.len() <= from {
            None
        } else if self.queue.has_receipts(from) {
            // it would be on its way if it could
            Some(Duration::ZERO)
        } else {
            self.queue.due(now)
        };
        of_unsent.into_iter().chain(self.in_flight_due(now)).min()
    }

    /// Returns the time until a message that is being sent has to be written, because its publisher waits.
    fn in_flight_due(&self, now: Instant) -> Option<Duration> {
        let in_flight = (0..self.in_flight_from_memory).map_while(|number| self.queue.nth(number));
        in_flight
            .filter_map(|message| message.receipt_due(now))
            .min()
    }

    /// Writes what is due, together with what came meanwhile.
    async fn write_due(&mut self) -> Result<(), StoreError> {
        while !self.queue.is_full()
            && let Ok(item) = self.items.try_recv()
        {
            self.push(item);
        }
        if self
            .in_flight_due(clock::Instant::now())
            .is_some_and(|due| due.is_zero())
        {
            // they are sent again from the disk, under the same ids
            self.resend_in_flight();
        }
        self.flush().await
    }

    /// Writes the waiting messages to disk at the end of the program.
    pub(crate) async fn finish(&mut self) {
        while let Ok(item) = self.items.try_recv() {
            self.push(item);
        }
        // the next run sends it, once more if it was just written to the connection
        self.resend_in_flight();
        let written = async {
            if self.backlog.is_none() {
                self.load().await?;
            }
            self.flush().await
        };
        match tokio::time::timeout(FINAL_WRITE_TIMEOUT, written).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                let what = self.config.what;
                error!(
                    what,
                    error = &failure as &dyn std::error::Error,
                    "failed to write queued messages for the cloud to disk"
                );
            }
            Err(_) => {
                error!(
                    what = self.config.what,
                    "failed to write queued messages to disk in time"
                )
            }
        }
    }

    async fn load(&mut self) -> Result<(), StoreError> {
        let Config {
            what,
            limits,
            store,
            ..
        } = &self.config;
        self.backlog = Some(Backlog::load(store.clone(), what, *limits).await?);
        Ok(())
    }

    /// Starts to send the oldest messages if there is a connection.
    async fn begin(&mut self) -> Result<(), StoreError> {
        if *self.link.borrow_and_update() == Link::Down {
            return Ok(());
        }
        while self.sending.len() < self.config.max_concurrent {
            let Some((origin, message)) = self.next().await? else {
                break;
            };
            match origin {
                Origin::Disk => self.in_flight_from_disk += 1,
                Origin::Memory => self.in_flight_from_memory += 1,
            }
            let sending = self.config.deliver.send(message);
            self.sending
                .push_back(async move { (origin, sending.await) }.boxed());
        }
        if self.sending.is_empty() {
            self.dropped = DroppedCount::default();
        }
        Ok(())
    }

    /// Returns the oldest message that is not being sent yet; `None` if it has to wait for those that are.
    async fn next(&mut self) -> Result<Option<(Origin, Message)>, StoreError> {
        if self.ahead == 0
            && let Some(backlog) = self.backlog.as_mut().filter(|backlog| !backlog.is_empty())
        {
            // from the oldest chunk only: the next one is read when this one is done
            let message = match self.in_flight_from_disk {
                0 => backlog.first().await?,
                number => {
                    return Ok(backlog
                        .after_first(number)
                        .map(|message| (Origin::Disk, message)));
                }
            };
            if let Some(message) = message {
                return Ok(Some((Origin::Disk, message)));
            }
        }
        let is_theirs = self.ahead == 0 || self.in_flight_from_memory < self.ahead;
        let waiting = self
            .queue
            .nth(self.in_flight_from_memory)
            .filter(|_| is_theirs);
        let waiting = waiting
            .filter(|waiting| !waiting.has_receipt() || self.in_flight_from_memory < MAX_UNSTORED);
        Ok(waiting.map(|waiting| (Origin::Memory, waiting.item.message.clone())))
    }

    fn handle_sent(&mut self, (origin, sent): Sent) {
        // there was no connection: this message and all later ones are sent again
        if sent.is_err() {
            return self.resend_in_flight();
        }
        match origin {
            Origin::Disk => {
                self.in_flight_from_disk = self.in_flight_from_disk.saturating_sub(1);
                if let Some(backlog) = &mut self.backlog {
                    backlog.remove_sent();
                }
            }
            Origin::Memory => {
                self.in_flight_from_memory = self.in_flight_from_memory.saturating_sub(1);
                self.ahead = self.ahead.saturating_sub(1);
                self.queue
                    .pop(clock::Instant::now())
                    .into_iter()
                    .for_each(notify_stored);
            }
        }
    }

    /// Resends the messages that are being sent.
    fn resend_in_flight(&mut self) {
        self.sending = FuturesOrdered::new();
        self.in_flight_from_disk = 0;
        self.in_flight_from_memory = 0;
    }

    /// Writes all messages in memory that are not being sent.
    async fn flush(&mut self) -> Result<(), StoreError> {
        if self.ahead > 0 && self.in_flight_from_memory == 0 {
            let mut first = self.queue.texts(0);
            first.truncate(self.ahead);
            self.write(&first, ChunkPosition::Front).await?;
            for _ in 0..std::mem::take(&mut self.ahead) {
                self.queue
                    .pop(clock::Instant::now())
                    .into_iter()
                    .for_each(notify_stored);
            }
        }
        let from = self.in_flight_from_memory;
        self.write(&self.queue.texts(from), ChunkPosition::Back)
            .await?;
        self.queue
            .take(from, clock::Instant::now())
            .into_iter()
            .for_each(notify_stored);
        self.ahead = from;
        Ok(())
    }

    async fn write(&mut self, messages: &[String], place: ChunkPosition) -> Result<(), StoreError> {
        let Some(backlog) = self.backlog.as_mut().filter(|_| !messages.is_empty()) else {
            return Ok(());
        };
        match backlog.push(messages, place).await {
            Ok(dropped) => {
                if self.faults.recover() {
                    info!(
                        what = self.config.what,
                        "writes to the queue for the cloud restored"
                    );
                }
                // messages that are being sent may be among the dropped ones
                if self.in_flight_from_disk > 0 && !backlog.is_read() {
                    self.resend_in_flight();
                }
                self.count_dropped(dropped);
            }
            Err(failure) => {
                self.drop_oldest();
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Drops the oldest messages in memory while the disk fails, unless publishers keep some until they are stored.
    fn drop_oldest(&mut self) {
        if self.queue.has_receipts(0) {
            return;
        }
        let over = self.queue.len().saturating_sub(MAX_MESSAGES_WITHOUT_DISK);
        if over > 0 {
            self.resend_in_flight();
            self.ahead = 0;
        }
        for _ in 0..over {
            self.queue.pop(clock::Instant::now());
        }
        self.count_dropped(over);
    }

    fn count_dropped(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.dropped.count += count;
        self.config
            .dropped
            .fetch_add(count as u64, Ordering::Relaxed);
        if self
            .dropped
            .said
            .count("full", clock::Instant::now())
            .is_some()
        {
            let (what, dropped) = (self.config.what, self.dropped.count);
            warn!(
                what,
                dropped, "queue for the cloud is full; oldest messages dropped"
            );
        }
    }

    async fn log_failure(&mut self, failure: &StoreError) {
        if let Some(times) = self
            .faults
            .count(&failure.to_string(), clock::Instant::now())
        {
            let (what, error) = (self.config.what, failure as &dyn std::error::Error);
            error!(
                what,
                times, error, "failed to read or write queued messages for the cloud; retrying"
            );
        }
        tokio::time::sleep(STORE_RETRY_DELAY).await;
    }
}

fn notify_stored(waiting: QueuedMessage) {
    if let Some(on_stored) = waiting.item.on_stored {
        on_stored();
    }
}

async fn next_sent(sending: &mut FuturesOrdered<BoxFuture<'static, Sent>>) -> Sent {
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
