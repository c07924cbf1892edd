//! One node's session: what it lacks goes down one by one, what it says is carried out in its order.

use std::{collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use futures::FutureExt;
use limits::Repeated;
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
    ended::Ended,
    handlers::{Entry, carry_out, write_down},
    link::{Reader, Writer},
    work_queue::WorkQueue,
};
use crate::{
    controllers::sync::{Record, Synced, doubt},
    delivery::{Delivery, ObjectRef, Reply},
    faults::now,
    mailbox::{Mailbox, ObjectKind, ObjectPath},
    sessions::{Session as Registered, Traffic},
};

/// Requests of the node that wait for their turn. A full queue stops reading from the socket: the node is slowed down.
const REQUEST_QUEUE: usize = 32;
/// Answers and acknowledgements on their way to the next step.
const ANSWER_QUEUE: usize = 32;
/// Messages in the lane, at most, while one of them is repeated in vain; else an object's state is read when its turn comes.
const MAX_LANE_WHILE_REPEATING: usize = 256;

/// Runs until the connection ends or the session's token is cancelled.
pub(super) async fn run(
    node: &str,
    ends: (Reader, Writer),
    shared: &Shared,
    registered: &Registered,
) -> Ended {
    // opened before anything is read from the API: no change falls between
    let mailbox = shared.mailboxes.open(node);
    serve(node, ends, shared, &mailbox, registered).await
}

async fn serve(
    node: &str,
    (reader, writer): (Reader, Writer),
    shared: &Shared,
    mailbox: &Mailbox,
    registered: &Registered,
) -> Ended {
    let (requests, waiting) = mpsc::channel(REQUEST_QUEUE);
    let (answers, replies) = mpsc::channel(ANSWER_QUEUE);
    let (records, to_write) = mpsc::channel(ANSWER_QUEUE);
    let clerk = tokio::spawn(carry_out(node.to_owned(), shared.controllers.clone(), waiting, answers));
    let recorder = tokio::spawn(write_down(node.to_owned(), shared.records.clone(), to_write));
    let session = Session {
        node,
        shared,
        writer,
        lane: AckLane::new(shared.limits.acknowledgement),
        early: Some(Vec::new()),
        synced: Synced::new(),
        work_queue: WorkQueue::new(BTreeSet::new()),
        unread: Repeated::default(),
        heard: now(),
        records,
        traffic: registered.traffic.clone(),
    };
    let running = session.run(reader, mailbox, &requests, replies, registered);
    // what it holds is dropped with it
    let ended = AssertUnwindSafe(running).catch_unwind().await.unwrap_or(Ended::Panicked);
    // requests that arrived are still carried out, acknowledgements still written down
    drop(requests);
    for task in [clerk, recorder] {
        if let Err(error) = task.await {
            warn!(node, %error, "a session's task failed");
        }
    }
    ended
}

/// Reads what the node has acknowledged; a task of its own, since others wait for the same reading, and this node may be slow.
/// Of a node that begins anew, all is in doubt.
fn load(
    shared: &Shared,
    node: &str,
    begins: Option<Vec<u8>>,
) -> AbortOnDropHandle<Result<Synced, kube::Error>> {
    let (records, sessions, node) = (shared.records.clone(), shared.sessions.clone(), node.to_owned());
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut synced = records.load(&node).await?;
        if let Some(certificate) = begins {
            // an older session may have written something down since the certificate was given
            records.doubt(&node).await?;
            doubt(&mut synced);
            sessions.reenrolled().remove(&node, &certificate);
        }
        Ok(synced)
    }))
}

struct Session<'a> {
    node: &'a str,
    shared: &'a Shared,
    writer: Writer,
    lane: AckLane,
    /// What waits for the lane until it is known what the node has acknowledged; nothing of the work queue is looked at before.
    early: Option<Vec<Delivery>>,
    /// What the node has acknowledged.
    synced: Synced,
    /// What to look at when the lane is free.
    work_queue: WorkQueue,
    /// What could not be looked at: a damaged object stays so.
    unread: Repeated,
    heard: Instant,
    records: mpsc::Sender<Entry>,
    traffic: Arc<Traffic>,
}

impl Session<'_> {
    async fn run(
        mut self,
        mut reader: Reader,
        mailbox: &Mailbox,
        requests: &mpsc::Sender<Message>,
        mut replies: mpsc::Receiver<Reply>,
        registered: &Registered,
    ) -> Ended {
        let (shared, node, records) = (self.shared, self.node, self.records.clone());
        let keepalive = shared.limits.keepalive;
        let mut faults = shared.faults.changes();
        // beside the rest: where all nodes come back at once it takes its time, and they want to be heard
        let mut loading = load(shared, node, registered.begins.clone());
        let mut place: Option<Permit<'_, Message>> = None;
        loop {
            let next = match self.advance().await {
                Ok(next) => next,
                Err(ended) => return ended,
            };
            let silent = self.heard + keepalive;
            let done = tokio::select! {
                // The order decides nothing but repeats itself. Nothing is starved: what a node sends fills the queue of its
                // requests, and is then not read; its signs of life hold up nobody's session but its own.
                biased;
                // cancel-safe: a cancelled token stays cancelled
                () = registered.token.cancelled() => {
                    let (code, reason) = registered.close_reason();
                    self.send_close(code, reason).await;
                    return Ended::Replaced;
                }
                // cancel-safe: the task goes on
                loaded = &mut loading, if self.early.is_some() => match loaded {
                    Ok(Ok(synced)) => self.begin(synced).await,
                    Ok(Err(error)) => Err(Ended::Records(error)),
                    Err(error) => Err(Ended::Failed(error)),
                },
                // cancel-safe: an answer is taken only when this arm wins
                Some(reply) = replies.recv(), if self.early.as_ref().is_none_or(|early| early.len() < ANSWER_QUEUE) => {
                    self.answer(reply).await
                }
                // cancel-safe, both: what is closed stays closed. Who reads these ends before the session only by a panic
                () = requests.closed() => Err(Ended::Panicked),
                () = records.closed() => Err(Ended::Panicked),
                // cancel-safe: no place is lost, and nothing is read without one
                reserved = requests.reserve(), if place.is_none() => {
                    place = reserved.ok();
                    Ok(())
                }
                // cancel-safe: frames stay in the socket until they are whole
                message = reader.next(), if place.is_some() => self.received(message, &mut place).await,
                // cancel-safe: a change that is not seen stays; the sender lives in the faults
                _ = faults.changed() => Ok(()),
                // cancel-safe: an unseen wake-up stays
                () = mailbox.changed(), if self.early.is_none() => {
                    self.work_queue.add(mailbox.take());
                    Ok(())
                }
                // cancel-safe: sleeping holds no data
                () = sleep_until(next.unwrap_or(silent).min(silent).into()) => {
                    if now() >= silent { Err(Ended::Silent(keepalive)) } else { Ok(()) }
                }
            };
            if let Err(ended) = done {
                if let Ended::Malformed(error) = &ended {
                    self.send_close(CloseCode::Invalid, &error.to_string()).await;
                }
                return ended;
            }
        }
    }

    /// This is what the node has acknowledged.
    async fn begin(&mut self, synced: Synced) -> Result<(), Ended> {
        let mut todo = self.shared.controllers.edge.everything(self.node, &synced);
        todo.extend(self.shared.controllers.devices.everything(self.node));
        (self.synced, self.work_queue) = (synced, WorkQueue::new(todo));
        for delivery in self.early.take().unwrap_or_default() {
            self.answer(Reply::Acknowledged(delivery)).await?;
        }
        Ok(())
    }

    async fn answer(&mut self, reply: Reply) -> Result<(), Ended> {
        let delivery = match reply {
            Reply::Direct(message) => return self.send(&message).await,
            Reply::Acknowledged(delivery) => delivery,
        };
        if let Some(early) = &mut self.early {
            early.push(delivery);
            return Ok(());
        }
        // unannounced it is not sent: the node asks again
        if self.is_announced(&delivery).await { self.enlist(delivery).await } else { Ok(()) }
    }

    /// Sends what can be sent; answers when to look again.
    async fn advance(&mut self) -> Result<Option<Instant>, Ended> {
        let next = if self.early.is_some() { None } else { self.work().await? };
        self.traffic.queue(self.lane.len() + self.work_queue.len());
        let arrives = self.writer.flush().await?;
        Ok(next.into_iter().chain(arrives).min())
    }

    async fn work(&mut self) -> Result<Option<Instant>, Ended> {
        loop {
            let until = match self.lane.step(now()) {
                Step::Send(message) => {
                    self.send(&message).await?;
                    continue;
                }
                Step::Wait(until) => Some(until),
                Step::Idle => None,
            };
            // what a node does not acknowledge keeps nothing else from it
            let is_stuck = self.lane.is_repeating() && self.lane.len() < MAX_LANE_WHILE_REPEATING;
            if until.is_some() && !is_stuck {
                return Ok(until);
            }
            let Some(path) = self.work_queue.next(now()) else {
                return Ok(until.into_iter().chain(self.work_queue.due()).min());
            };
            match self.update(&path).await {
                Ok(replies) => {
                    if !self.send_all(replies).await? {
                        self.work_queue.put_off(path, now());
                    }
                }
                Err(error) => {
                    if let Some(times) = self.unread.count(&format!("{path:?}"), now()) {
                        warn!(
                            node = self.node,
                            ?path,
                            times,
                            error = &error as &dyn std::error::Error,
                            "an object could not be read; the node keeps what it has of it"
                        );
                    }
                    self.work_queue.put_off(path, now());
                }
            }
        }
    }

    /// What the node lacks of the object at `path`.
    async fn update(&mut self, path: &ObjectPath) -> Result<Vec<Reply>, kube::Error> {
        match path.kind {
            ObjectKind::Device | ObjectKind::DeviceModel => {
                let update = self.shared.controllers.devices.update(self.node, path, &self.synced).await?;
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
                let deliveries =
                    self.shared.controllers.edge.deliveries(self.node, path, &self.synced).await?;
                Ok(deliveries.into_iter().map(Reply::Acknowledged).collect())
            }
        }
    }

    /// False: as [`Self::offer`].
    async fn send_all(&mut self, replies: Vec<Reply>) -> Result<bool, Ended> {
        let mut deliveries = Vec::new();
        for reply in replies {
            match reply {
                Reply::Direct(message) => self.send(&message).await?,
                Reply::Acknowledged(delivery) => deliveries.push(delivery),
            }
        }
        self.offer(deliveries).await
    }

    /// Hands over to the lane, but for the deletion of the node itself. As CloudCore: a node that is deleted while it is
    /// connected is disconnected and not told. EdgeCore would delete its own Node, without which it reports no status and
    /// evicts no pod until it is started anew.
    ///
    /// False: something could not be announced, and all is to be looked at again.
    async fn offer(&mut self, deliveries: Vec<Delivery>) -> Result<bool, Ended> {
        let replaced = deliveries.iter().any(|delivery| !is_own_end(delivery));
        for delivery in deliveries {
            if !is_own_end(&delivery) {
                if !self.is_announced(&delivery).await {
                    return Ok(false);
                }
                self.enlist(delivery).await?;
                continue;
            }
            if let Some(object) = delivery.object {
                self.synced.remove(&object.uid);
                // whoever has the name now may be another machine
                doubt(&mut self.synced);
                let _ = self.records.send((Record::Dropped(object), None)).await;
            }
            if self.work_queue.has_begun() && !replaced {
                return Err(Ended::Deleted);
            }
        }
        Ok(true)
    }

    /// Before an object is sent for the first time it is written down that the node may hold it: with its acknowledgement, this
    /// process may lose that it does, and would never tell the node of the object's end. False: that failed.
    async fn is_announced(&mut self, delivery: &Delivery) -> bool {
        let Some(object) = &delivery.object else { return true };
        if delivery.revision.is_none() || self.synced.contains_key(&object.uid) {
            return true;
        }
        let (written, waiting) = oneshot::channel();
        let sent = self.records.send((Record::Sent(object.clone()), Some(written))).await;
        if sent.is_err() || waiting.await.is_err() {
            return false;
        }
        self.synced.insert(object.uid.clone(), (object.path.clone(), 0));
        true
    }

    /// Puts a message into the lane, but for one that no node acknowledges, whose name has a word in it that KubeEdge looks for. That
    /// one is sent once in each session.
    async fn enlist(&mut self, delivery: Delivery) -> Result<(), Ended> {
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
                self.let_go(&object);
                let _ = self.records.send((Record::Dropped(object), None)).await;
            }
            (None, _) => {}
        }
        Ok(())
    }

    async fn received(
        &mut self,
        message: Result<Option<Message>, Ended>,
        place: &mut Option<Permit<'_, Message>>,
    ) -> Result<(), Ended> {
        let message = message?;
        self.heard = now();
        let Some(message) = message else { return Ok(()) };
        let up = Up::from(message);
        if let Upstream::Ack { .. } = up.body {
            self.acknowledged(&up.header.parent_msg_id).await;
        } else if !matches!(up.body, Upstream::Keepalive(_) | Upstream::Shutdown)
            && let Some(place) = place.take()
        {
            place.send(up.into());
        }
        Ok(())
    }

    async fn acknowledged(&mut self, id: &str) {
        let Some(Delivery { object, revision, .. }) = self.lane.acknowledged(id) else {
            return debug!(node = self.node, id, "an acknowledgement that nothing waits for");
        };
        let Some(object) = object else { return };
        let record = match revision {
            Some(revision) => {
                self.synced.insert(object.uid.clone(), (object.path.clone(), revision));
                Record::Holds(object, revision)
            }
            None => {
                self.let_go(&object);
                Record::Dropped(object)
            }
        };
        // closed only when the recorder failed: the node is then told again after the next connection
        let _ = self.records.send((record, None)).await;
    }

    /// The node has it no more; its successor of the same name is next.
    fn let_go(&mut self, object: &ObjectRef) {
        self.synced.remove(&object.uid);
        self.work_queue.ended(&object.path);
    }

    async fn send(&mut self, message: &Message) -> Result<(), Ended> {
        self.writer.send(message).await
    }

    async fn send_close(&mut self, code: CloseCode, reason: &str) {
        self.writer.send_close(code, reason).await;
    }
}

/// Whether this tells a node that it is deleted; no node hears of another.
fn is_own_end(delivery: &Delivery) -> bool {
    delivery.revision.is_none()
        && delivery.object.as_ref().is_some_and(|object| object.path.kind == ObjectKind::Node)
}
