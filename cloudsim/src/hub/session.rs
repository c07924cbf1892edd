//! One node's session: sends what the node lacks, and handles its messages in order.

use std::{collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc};

use clock::Instant;
use futures::FutureExt;
use limits::{Repeated, is_stalled};
use tokio::{
    sync::{
        mpsc::{self, Permit},
        oneshot,
    },
    time::sleep_until,
};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};
use wire::{Message, Up, Upstream, lane::needs_ack};

use super::{
    Shared,
    ack_lane::{AckLane, Step},
    end_reason::EndReason,
    handlers::{Helpers, RecordRequest, handle_requests, write_records},
    link::{Reader, Writer},
    oversized::OversizedMessages,
    work_queue::WorkQueue,
};
use crate::{
    controllers::{
        dispatcher::UpstreamDispatcher,
        sync::{Record, Synced, mark_unacknowledged},
    },
    delivery::{Delivery, ObjectRef, Reply},
    mailbox::{Mailbox, ObjectKind, ObjectPath},
    sessions::{Session as Registered, Traffic},
};

/// Requests of the node that wait to be handled. A full queue stops reading from the socket, which slows the node down.
const REQUEST_QUEUE: usize = 32;
/// The capacity of the channels for answers and acknowledgements.
const ANSWER_QUEUE: usize = 32;
/// The most messages in the lane while one of them is repeated; otherwise an object is read only when it can be sent.
const MAX_LANE_WHILE_REPEATING: usize = 256;

/// Runs until the connection ends or the session's token is cancelled. Returns the reason, and the tasks that still handle and record
/// what has arrived.
pub(super) async fn run(
    node: &str,
    ends: (Reader, Writer),
    shared: &Shared,
    registered: &Registered,
) -> (EndReason, Helpers) {
    // opened before anything is read from the API, so that no change is missed
    let mailbox = shared.mailboxes.open(node);
    serve(node, ends, shared, &mailbox, registered).await
}

async fn serve(
    node: &str,
    (reader, writer): (Reader, Writer),
    shared: &Shared,
    mailbox: &Mailbox,
    registered: &Registered,
) -> (EndReason, Helpers) {
    let (requests, waiting) = mpsc::channel(REQUEST_QUEUE);
    let (answers, replies) = mpsc::channel(ANSWER_QUEUE);
    let (records, to_write) = mpsc::channel(ANSWER_QUEUE);
    let dispatcher =
        UpstreamDispatcher::open(node.to_owned(), shared.controllers.clone(), &answers);
    let helpers = Helpers::spawn(
        node,
        handle_requests(Box::new(dispatcher), waiting, answers),
        write_records(node.to_owned(), shared.records.clone(), to_write),
    );
    let mut session = Box::new(Session {
        node,
        shared,
        writer,
        lane: AckLane::new(shared.limits.acknowledgement),
        early: Some(Vec::new()),
        synced: Synced::default(),
        work_queue: WorkQueue::new(BTreeSet::new()),
        unread: Repeated::default(),
        oversized: OversizedMessages::new(shared.limits.max_sent_message),
        heard: clock::Instant::now(),
        records,
        traffic: registered.traffic.clone(),
    });
    let running = session.run(reader, mailbox, &requests, replies, registered);
    // dropping it drops what it holds
    let ended = AssertUnwindSafe(running)
        .catch_unwind()
        .await
        .unwrap_or(EndReason::Panicked);
    // the senders are dropped here: requests that have arrived are still handled, acknowledgements still recorded
    (ended, helpers)
}

/// Reads what the node has acknowledged, in a task of its own: others wait for the same read, and this node may be slow. For a
/// re-enrolled node all of it is marked unacknowledged.
fn load(
    shared: &Shared,
    node: &str,
    new_certificate: Option<Vec<u8>>,
) -> AbortOnDropHandle<Result<Synced, kube::Error>> {
    let (records, sessions, node) = (
        shared.records.clone(),
        shared.sessions.clone(),
        node.to_owned(),
    );
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut synced = records.load(&node).await?;
        if let Some(certificate) = new_certificate {
            // an older session may have written records since the certificate was issued
            records.mark_unacknowledged(&node).await?;
            mark_unacknowledged(&mut synced);
            sessions.reenrolled_nodes().remove(&node, &certificate);
        }
        Ok(synced)
    }))
}

struct Session<'a> {
    node: &'a str,
    shared: &'a Shared,
    writer: Writer,
    lane: AckLane,
    /// Deliveries that wait until the acknowledged state is loaded; the work queue is not used before.
    early: Option<Vec<Delivery>>,
    /// What the node has acknowledged.
    synced: Synced,
    /// Objects to look at when the lane is free.
    work_queue: WorkQueue,
    /// Objects that could not be read; a damaged object stays so.
    unread: Repeated,
    /// Messages that are larger than the node accepts.
    oversized: OversizedMessages,
    heard: Instant,
    records: mpsc::Sender<RecordRequest>,
    traffic: Arc<Traffic>,
}

impl Session<'_> {
    async fn run(
        &mut self,
        mut reader: Reader,
        mailbox: &Mailbox,
        requests: &mpsc::Sender<Box<Message>>,
        mut replies: mpsc::Receiver<Box<Reply>>,
        registered: &Registered,
    ) -> EndReason {
        let (shared, node, records) = (self.shared, self.node, self.records.clone());
        let keepalive = shared.limits.keepalive;
        let mut faults = shared.faults.changes();
        // a task of its own: when all nodes come back at once it takes time, and they must be served meanwhile
        let mut loading = load(shared, node, registered.new_certificate.clone());
        let mut place: Option<Permit<'_, Box<Message>>> = None;
        loop {
            let next = match self.advance().await {
                Ok(next) => next,
                Err(ended) => return ended,
            };
            let silent = self.heard + keepalive;
            let done = clock::select! {
                // Biased: the order only makes runs repeatable. Nothing is starved: a node that sends much fills the queue of its
                // requests, and is then not read.
                biased;
                // cancel-safe: a cancelled token stays cancelled
                () = registered.token.cancelled() => {
                    let (code, reason) = registered.close_reason();
                    self.send_close(code, reason).await;
                    return EndReason::Replaced;
                }
                // cancel-safe: the task goes on
                loaded = &mut loading, if self.early.is_some() => match loaded {
                    Ok(Ok(synced)) => Box::pin(self.begin(synced)).await,
                    Ok(Err(error)) => Err(EndReason::Records(error)),
                    Err(error) => Err(EndReason::Failed(error)),
                },
                // cancel-safe: an answer is taken only when this arm wins
                Some(reply) = replies.recv(), if self.early.as_ref().is_none_or(|early| early.len() < ANSWER_QUEUE) => {
                    Box::pin(self.answer(*reply)).await
                }
                // cancel-safe: a closed channel stays closed. Their readers end before the session only by a panic
                () = requests.closed() => Err(EndReason::Panicked),
                () = records.closed() => Err(EndReason::Panicked),
                // cancel-safe: no permit is lost, and nothing is read without one
                reserved = requests.reserve(), if place.is_none() => {
                    place = reserved.ok();
                    Ok(())
                }
                // cancel-safe: frames stay in the socket until they are whole
                message = reader.next(), if place.is_some() => Box::pin(self.handle_received(message, &mut place)).await,
                // cancel-safe: a change that is not seen stays; the sender lives in the faults
                _ = faults.changed() => Ok(()),
                // cancel-safe: an unseen wake-up stays
                () = mailbox.changed(), if self.early.is_none() => {
                    self.work_queue.add(mailbox.take());
                    Ok(())
                }
                // cancel-safe: sleeping holds no data
                () = sleep_until(next.unwrap_or(silent).min(silent)) => {
                    if is_stalled(keepalive, clock::Instant::now().saturating_duration_since(self.heard)) {
                        // this process stood still itself: what the node sent may not have been read
                        self.heard = clock::Instant::now();
                    }
                    if clock::Instant::now() >= self.heard + keepalive { Err(EndReason::Silent(keepalive)) } else { Ok(()) }
                }
            };
            if let Err(ended) = done {
                if let EndReason::Malformed(error) = &ended {
                    self.send_close(CloseCode::Invalid, &error.to_string())
                        .await;
                }
                return ended;
            }
        }
    }

    /// Starts sending, with what the node has acknowledged.
    async fn begin(&mut self, synced: Synced) -> Result<(), EndReason> {
        let mut todo = self.shared.controllers.edge.everything(self.node, &synced);
        todo.extend(self.shared.controllers.devices.everything(self.node));
        (self.synced, self.work_queue) = (synced, WorkQueue::new(todo));
        for delivery in self.early.take().unwrap_or_default() {
            self.answer(Reply::Acknowledged(delivery)).await?;
        }
        Ok(())
    }

    async fn answer(&mut self, reply: Reply) -> Result<(), EndReason> {
        let delivery = match reply {
            Reply::Direct(message) => return self.send(&message).await,
            Reply::Acknowledged(delivery) => delivery,
        };
        if let Some(early) = &mut self.early {
            early.push(delivery);
            return Ok(());
        }
        // what could not be recorded is not sent: the node asks again
        if self.is_announced(&delivery).await {
            self.enqueue(delivery).await
        } else {
            Ok(())
        }
    }

    /// Sends what can be sent; returns when to call it again.
    async fn advance(&mut self) -> Result<Option<Instant>, EndReason> {
        let next = if self.early.is_some() {
            None
        } else {
            self.work().await?
        };
        self.traffic.queue(self.lane.len() + self.work_queue.len());
        let arrives = self.writer.flush().await?;
        Ok(next.into_iter().chain(arrives).min())
    }

    async fn work(&mut self) -> Result<Option<Instant>, EndReason> {
        loop {
            let until = match self.lane.step(clock::Instant::now()) {
                Step::Send(message) => {
                    self.send(&message).await?;
                    continue;
                }
                Step::Wait(until) => Some(until),
                Step::Idle => None,
            };
            // an unacknowledged message does not keep other messages from the node
            let is_stuck = self.lane.is_repeating() && self.lane.len() < MAX_LANE_WHILE_REPEATING;
            if until.is_some() && !is_stuck {
                return Ok(until);
            }
            let Some(path) = self.work_queue.next(clock::Instant::now()) else {
                return Ok(until.into_iter().chain(self.work_queue.due()).min());
            };
            // boxed: it runs rarely, and every session would keep space for it
            match Box::pin(self.update(&path)).await {
                Ok(replies) => {
                    if !self.send_all(replies).await? {
                        self.work_queue.retry_later(path, clock::Instant::now());
                    }
                }
                Err(error) => {
                    if let Some(times) = self.unread.count(&path.to_string(), clock::Instant::now())
                    {
                        warn!(
                            node = self.node,
                            %path,
                            times,
                            error = &error as &dyn std::error::Error,
                            "failed to read object; retrying; node keeps its current version"
                        );
                    }
                    self.work_queue.retry_later(path, clock::Instant::now());
                }
            }
        }
    }

    /// Returns the messages that the node lacks for the object at `path`.
    async fn update(&mut self, path: &ObjectPath) -> Result<Vec<Reply>, kube::Error> {
        match path.kind {
            ObjectKind::Device | ObjectKind::DeviceModel => {
                let update = self
                    .shared
                    .controllers
                    .devices
                    .update(self.node, path, &self.synced)
                    .await?;
                if update.again {
                    self.work_queue.follow(path.clone());
                }
                Ok(update.replies)
            }
            ObjectKind::Node
            | ObjectKind::ConfigMap
            | ObjectKind::Secret
            | ObjectKind::Access
            | ObjectKind::Pod => {
                let deliveries = self
                    .shared
                    .controllers
                    .edge
                    .deliveries(self.node, path, &self.synced)
                    .await?;
                Ok(deliveries.into_iter().map(Reply::Acknowledged).collect())
            }
        }
    }

    /// Sends replies. Returns false as [`Self::offer`] does.
    async fn send_all(&mut self, replies: Vec<Reply>) -> Result<bool, EndReason> {
        let mut deliveries = Vec::new();
        for reply in replies {
            match reply {
                Reply::Direct(message) => self.send(&message).await?,
                Reply::Acknowledged(delivery) => deliveries.push(delivery),
            }
        }
        self.offer(deliveries).await
    }

    /// Puts deliveries into the lane, except the deletion of the node itself. As in CloudCore, a node that is deleted while it is
    /// connected is disconnected and not told: EdgeCore would delete its own Node, and would then report no status and evict no pod until
    /// it is restarted.
    ///
    /// Returns false if a record could not be written; the object must then be looked at again.
    async fn offer(&mut self, deliveries: Vec<Delivery>) -> Result<bool, EndReason> {
        let replaced = deliveries
            .iter()
            .any(|delivery| !deletes_own_node(delivery));
        for delivery in deliveries {
            if !deletes_own_node(&delivery) {
                if !self.is_announced(&delivery).await {
                    return Ok(false);
                }
                self.enqueue(delivery).await?;
                continue;
            }
            if let Some(object) = delivery.object {
                self.synced.remove(&object.uid);
                // another machine may have the name by now
                mark_unacknowledged(&mut self.synced);
                let _ = self.records.send((Record::Dropped(object), None)).await;
            }
            if self.work_queue.is_initial_sync_done() && !replaced {
                return Err(EndReason::Deleted);
            }
        }
        Ok(true)
    }

    /// Records that the node may hold the object before it is sent for the first time. Otherwise the node could not be told of the
    /// object's deletion if this process ends before the acknowledgement. Returns false if that failed.
    async fn is_announced(&mut self, delivery: &Delivery) -> bool {
        let Some(object) = &delivery.object else {
            return true;
        };
        if delivery.revision.is_none() || self.synced.contains_key(&object.uid) {
            return true;
        }
        let (written, waiting) = oneshot::channel();
        let sent = self
            .records
            .send((Record::Sent(object.clone()), Some(written)))
            .await;
        if sent.is_err() || waiting.await.is_err() {
            return false;
        }
        self.synced
            .insert(object.uid.clone(), (object.path.clone(), 0));
        true
    }

    /// Puts a message into the lane. A message that no node acknowledges, because its name contains a word that KubeEdge looks for, is
    /// instead sent once in each session.
    async fn enqueue(&mut self, delivery: Delivery) -> Result<(), EndReason> {
        if needs_ack(&delivery.message) {
            self.lane.offer(delivery);
            return Ok(());
        }
        self.send(&delivery.message).await?;
        match (delivery.object, delivery.revision) {
            (Some(object), Some(revision)) => {
                self.synced.insert(object.uid, (object.path, revision));
            }
            (Some(object), None) => {
                self.release(&object);
                let _ = self.records.send((Record::Dropped(object), None)).await;
            }
            (None, _) => {}
        }
        Ok(())
    }

    async fn handle_received(
        &mut self,
        message: Result<Option<Message>, EndReason>,
        place: &mut Option<Permit<'_, Box<Message>>>,
    ) -> Result<(), EndReason> {
        let message = message?;
        self.heard = clock::Instant::now();
        let Some(message) = message else {
            return Ok(());
        };
        let up = Up::from(message);
        if let Upstream::Ack { .. } = up.body {
            self.acknowledge(&up.header.parent_msg_id).await;
        } else if !matches!(up.body, Upstream::Keepalive(_) | Upstream::Shutdown)
            && let Some(place) = place.take()
        {
            place.send(Box::new(up.into()));
        }
        Ok(())
    }

    async fn acknowledge(&mut self, id: &str) {
        let Some(Delivery {
            object, revision, ..
        }) = self.lane.acknowledge(id)
        else {
            return debug!(node = self.node, id, "unexpected acknowledgement ignored");
        };
        let Some(object) = object else { return };
        let record = match revision {
            Some(revision) => {
                self.synced
                    .insert(object.uid.clone(), (object.path.clone(), revision));
                Record::Holds(object, revision)
            }
            None => {
                self.release(&object);
                Record::Dropped(object)
            }
        };
        // closed only if the write failed: the object is then sent again after the next connection
        let _ = self.records.send((record, None)).await;
    }

    /// Handles the acknowledged deletion of an object; a successor of the same name is next.
    fn release(&mut self, object: &ObjectRef) {
        self.synced.remove(&object.uid);
        self.work_queue.finish_deletion(&object.path);
    }

    /// Sends a message, or reports that it is larger than the node accepts. Its sender may wait for an answer in vain, and other messages
    /// follow.
    async fn send(&mut self, message: &Message) -> Result<(), EndReason> {
        let Some(bytes) = self
            .writer
            .send(message, self.shared.limits.max_sent_message)
            .await?
        else {
            return Ok(());
        };
        let skipped = self.lane.acknowledge(&message.header.msg_id);
        let object = skipped.and_then(|delivery| delivery.object);
        let events = self.shared.controllers.devices.events();
        self.oversized
            .report(events, self.node, message, object.as_ref(), bytes);
        Ok(())
    }

    async fn send_close(&mut self, code: CloseCode, reason: &str) {
        self.writer.send_close(code, reason).await;
    }
}

/// Reports whether the delivery is the deletion of the node's own Node; no node gets that of another.
fn deletes_own_node(delivery: &Delivery) -> bool {
    delivery.revision.is_none()
        && delivery
            .object
            .as_ref()
            .is_some_and(|object| object.path.kind == ObjectKind::Node)
}
