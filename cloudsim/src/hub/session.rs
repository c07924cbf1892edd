//! One node's session: what it lacks goes down one by one, what it says is carried out in its order.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::mpsc::{self, Permit},
    time::sleep_until,
};
use tokio_tungstenite::tungstenite::{self, protocol::frame::coding::CloseCode};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use wire::{Message, Up, Upstream};

use super::{
    Shared,
    lane::{AckLane, Parcel, Step},
    transport::{Reader, Writer},
};
use crate::{
    controllers::{
        device::Devices,
        dynamic::Dynamic,
        edge::{Edge, Reply},
        sync::{Record, SyncRecords, Synced},
    },
    mailbox::{Mailbox, ObjectKind, ObjectPath},
};

/// Requests of the node that wait for their turn. A full queue stops reading from the socket: the node is slowed down.
const REQUESTS: usize = 32;
/// Answers and acknowledgements on their way to the next step.
const QUEUE: usize = 32;
/// After the API failed; it is in this process or near it.
const RETRY: Duration = Duration::from_secs(1);

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("this cloud stops, or the node has connected anew")]
    Replaced,
    #[error("the node closed the connection")]
    Closed,
    #[error("no message within {0:?}; the link is dead")]
    Silent(Duration),
    #[error("the socket failed: {0}")]
    Socket(#[source] Box<tungstenite::Error>),
    #[error("a message could not be written within {0:?}; the link is stalled")]
    Stalled(Duration),
    #[error("the node sent a malformed message: {0}")]
    Malformed(#[source] wire::json::DecodeError),
    #[error("the node sent a malformed frame: {0}")]
    Frame(#[source] wire::frame::FrameError),
    #[error("the QUIC connection failed: {0}")]
    Stream(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the bookkeeping could not be read: {0}")]
    Records(#[source] kube::Error),
    #[error("the node was deleted")]
    Deleted,
}

/// Runs until the connection ends or `token` is cancelled.
pub(super) async fn run(
    node: &str,
    ends: (Reader, Writer),
    shared: &Shared,
    token: CancellationToken,
) -> Ended {
    // opened before anything is read from the API: no change falls between
    let mailbox = shared.mailboxes.open(node);
    let ended = match shared.records.load(node).await {
        Ok(synced) => serve(node, ends, shared, &mailbox, synced, token).await,
        Err(error) => Ended::Records(error),
    };
    shared.mailboxes.close(node, &mailbox);
    ended
}

async fn serve(
    node: &str,
    (reader, writer): (Reader, Writer),
    shared: &Shared,
    mailbox: &Arc<Mailbox>,
    synced: Synced,
    token: CancellationToken,
) -> Ended {
    let (requests, waiting) = mpsc::channel(REQUESTS);
    let (answers, replies) = mpsc::channel(QUEUE);
    let (records, to_write) = mpsc::channel(QUEUE);
    let clerk = tokio::spawn(carry_out(
        node.to_owned(),
        (shared.edge.clone(), shared.dynamic.clone(), shared.devices.clone()),
        waiting,
        answers,
    ));
    let recorder = tokio::spawn(write_down(node.to_owned(), shared.records.clone(), to_write));
    let mut todo = shared.edge.everything(node, &synced);
    todo.extend(shared.devices.everything(node));
    let session = Session {
        node,
        shared,
        writer,
        lane: AckLane::new(shared.limits.acknowledgement),
        synced,
        todo,
        looked: false,
        retry: None,
        heard: Instant::now(),
        records,
    };
    let ended = session.run(reader, mailbox, &requests, replies, token).await;
    // requests that arrived are still carried out, acknowledgements still written down
    drop(requests);
    for task in [clerk, recorder] {
        if let Err(error) = task.await {
            warn!(node, %error, "a session's task failed");
        }
    }
    ended
}

struct Session<'a> {
    node: &'a str,
    shared: &'a Shared,
    writer: Writer,
    lane: AckLane,
    /// What the node has acknowledged.
    synced: Synced,
    /// What to look at when the lane is free: an object's newest state is read when its turn comes.
    todo: BTreeSet<ObjectPath>,
    /// Everything that was to do at the beginning has been looked at.
    looked: bool,
    /// When to go on with `todo` after the API failed.
    retry: Option<Instant>,
    heard: Instant,
    records: mpsc::Sender<Record>,
}

impl Session<'_> {
    async fn run(
        mut self,
        mut reader: Reader,
        mailbox: &Mailbox,
        requests: &mpsc::Sender<Message>,
        mut replies: mpsc::Receiver<Reply>,
        token: CancellationToken,
    ) -> Ended {
        let keepalive = self.shared.limits.keepalive;
        let mut place: Option<Permit<'_, Message>> = None;
        loop {
            let next = match self.advance().await {
                Ok(next) => next,
                Err(ended) => return ended,
            };
            let silent = self.heard + keepalive;
            let done = tokio::select! {
                // cancel-safe: a cancelled token stays cancelled
                () = token.cancelled() => {
                    self.farewell(CloseCode::Away, "the cloud stops, or this node has connected anew").await;
                    return Ended::Replaced;
                }
                // cancel-safe: no place is lost, and nothing is read without one
                reserved = requests.reserve(), if place.is_none() => {
                    place = reserved.ok();
                    Ok(())
                }
                // cancel-safe: frames stay in the socket until they are whole
                message = reader.next(), if place.is_some() => self.received(message, &mut place).await,
                // cancel-safe: an unseen wake-up stays
                () = mailbox.changed() => {
                    self.todo.extend(mailbox.take());
                    Ok(())
                }
                // cancel-safe: an answer is taken only when this arm wins
                Some(reply) = replies.recv() => match reply {
                    Reply::Direct(message) => self.send(&message).await,
                    Reply::Acknowledged(parcel) => {
                        self.lane.offer(parcel);
                        Ok(())
                    }
                },
                // cancel-safe: sleeping holds no data
                () = sleep_until(next.unwrap_or(silent).min(silent).into()) => {
                    if self.heard.elapsed() >= keepalive { Err(Ended::Silent(keepalive)) } else { Ok(()) }
                }
            };
            if let Err(ended) = done {
                if let Ended::Malformed(error) = &ended {
                    self.farewell(CloseCode::Invalid, &error.to_string()).await;
                }
                return ended;
            }
        }
    }

    /// Sends what can be sent; answers when to look again.
    async fn advance(&mut self) -> Result<Option<Instant>, Ended> {
        loop {
            match self.lane.step(Instant::now()) {
                Step::Send(message) => self.send(&message).await?,
                Step::Wait(until) => return Ok(Some(until)),
                Step::Idle => {}
            }
            if !self.lane.is_empty() {
                continue;
            }
            if let Some(retry) = self.retry.filter(|retry| Instant::now() < *retry) {
                return Ok(Some(retry));
            }
            self.retry = None;
            let Some(path) = self.todo.pop_first() else {
                self.looked = true;
                return Ok(None);
            };
            match self.look(&path).await {
                Ok(replies) => self.tell(replies).await?,
                Err(error) => {
                    warn!(
                        node = self.node,
                        ?path,
                        error = &error as &dyn std::error::Error,
                        "an object could not be read"
                    );
                    self.todo.insert(path);
                    self.retry = Some(Instant::now() + RETRY);
                }
            }
        }
    }

    /// What the node lacks of the object at `path`.
    async fn look(&mut self, path: &ObjectPath) -> Result<Vec<Reply>, kube::Error> {
        match path.kind {
            ObjectKind::Device | ObjectKind::DeviceModel => {
                let look = self.shared.devices.look(self.node, path, &self.synced).await?;
                if look.again {
                    self.todo.insert(path.clone());
                }
                Ok(look.replies)
            }
            ObjectKind::Node
            | ObjectKind::ConfigMap
            | ObjectKind::Secret
            | ObjectKind::Access
            | ObjectKind::Pod => {
                let parcels = self.shared.edge.parcels(self.node, path, &self.synced).await?;
                Ok(parcels.into_iter().map(Reply::Acknowledged).collect())
            }
        }
    }

    async fn tell(&mut self, replies: Vec<Reply>) -> Result<(), Ended> {
        let mut parcels = Vec::new();
        for reply in replies {
            match reply {
                Reply::Direct(message) => self.send(&message).await?,
                Reply::Acknowledged(parcel) => parcels.push(parcel),
            }
        }
        self.offer(parcels).await
    }

    /// Hands over to the lane, but for the deletion of the node itself. As CloudCore: a node that is deleted while it is
    /// connected is disconnected and not told. EdgeCore would delete its own Node, without which it reports no status and
    /// evicts no pod until it is started anew.
    async fn offer(&mut self, parcels: Vec<Parcel>) -> Result<(), Ended> {
        let replaced = parcels.iter().any(|parcel| !is_own_end(parcel));
        for parcel in parcels {
            if !is_own_end(&parcel) {
                self.lane.offer(parcel);
                continue;
            }
            if let Some(subject) = parcel.subject {
                self.synced.remove(&subject.uid);
                let _ = self.records.send(Record::Dropped(subject)).await;
            }
            if self.looked && !replaced {
                return Err(Ended::Deleted);
            }
        }
        Ok(())
    }

    async fn received(
        &mut self,
        message: Result<Option<Message>, Ended>,
        place: &mut Option<Permit<'_, Message>>,
    ) -> Result<(), Ended> {
        let message = message?;
        self.heard = Instant::now();
        let Some(message) = message else { return Ok(()) };
        let up = Up::from(message);
        match &up.body {
            Upstream::Keepalive(_) | Upstream::Shutdown => {}
            Upstream::Ack { .. } => self.acknowledged(&up.header.parent_msg_id).await,
            _ => {
                if let Some(place) = place.take() {
                    place.send(up.into());
                }
            }
        }
        Ok(())
    }

    async fn acknowledged(&mut self, id: &str) {
        let Some(Parcel { subject, revision, .. }) = self.lane.acknowledged(id) else {
            return debug!(node = self.node, id, "an acknowledgement that nothing waits for");
        };
        let Some(subject) = subject else { return };
        let record = match revision {
            Some(revision) => {
                self.synced.insert(subject.uid.clone(), (subject.path.clone(), revision));
                Record::Holds(subject, revision)
            }
            None => {
                self.synced.remove(&subject.uid);
                Record::Dropped(subject)
            }
        };
        // closed only when the recorder failed: the node is then told again after the next connection
        let _ = self.records.send(record).await;
    }

    async fn send(&mut self, message: &Message) -> Result<(), Ended> {
        self.writer.send(message, self.shared.limits.write).await
    }

    async fn farewell(&mut self, code: CloseCode, reason: &str) {
        self.writer.farewell(code, reason, self.shared.limits.write).await;
    }
}

/// Whether this tells a node that it is deleted; no node hears of another.
fn is_own_end(parcel: &Parcel) -> bool {
    parcel.revision.is_none()
        && parcel.subject.as_ref().is_some_and(|subject| subject.path.kind == ObjectKind::Node)
}

/// Carries the node's requests out, one after the other: a later patch never overtakes an earlier one.
async fn carry_out(
    node: String,
    (edge, dynamic, devices): (Edge, Dynamic, Devices),
    mut requests: mpsc::Receiver<Message>,
    answers: mpsc::Sender<Reply>,
) {
    let mut dynamic = dynamic.open(&node, answers.clone());
    while let Some(request) = requests.recv().await {
        let replies = match Up::from(request) {
            Up { header, body: Upstream::Application(content) } => {
                dynamic.call(&header, &content).await.into_iter().collect()
            }
            Up { header, body: Upstream::WatchSync(content) } => {
                dynamic.keep(&header, &content).await.into_iter().collect()
            }
            Up { header, body: Upstream::MembershipDetail(_) } => devices.members(&node, &header),
            Up { header, body: Upstream::Device { path, update } } => {
                vec![devices.report(&node, &header, &path, &update).await]
            }
            other => edge.handle(&node, other.into()).await.into_iter().collect::<Vec<_>>(),
        };
        for reply in replies {
            // nobody reads answers of a session that has ended; the node asks again
            let _ = answers.send(reply).await;
        }
    }
}

/// Keeps the bookkeeping. What is not written down is sent again at the next connection, and acknowledged again.
async fn write_down(node: String, records: SyncRecords, mut acknowledged: mpsc::Receiver<Record>) {
    while let Some(record) = acknowledged.recv().await {
        if let Err(error) = records.write(&node, &record).await {
            warn!(
                node,
                ?record,
                error = &error as &dyn std::error::Error,
                "an acknowledgement could not be written down"
            );
        }
    }
}
