//! The broker's state machine: all sessions, subscriptions and retained messages, owned by one task and changed in rounds.
//!
//! Inputs are commands of connections and of this process; outputs are bytes for outboxes and changes for the disk. It uses no socket, no
//! clock and no file: [`Core::begin`] sets the time, and [`Core::flush`] sends what a round wrote, after its changes were committed.

mod acknowledge;
mod ahead;
mod close;
mod command;
mod confirm;
mod connect;
mod deliver;
mod due;
mod held;
mod hold;
mod kept;
mod local;
mod local_receiver;
mod publish;
mod quota;
mod recount;
mod restore;
mod session;
mod subscribe;
mod take_overs;
mod timers;
mod unconfirmed;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
};

use bytes::BytesMut;
use limits::Repeated;

use self::{
    command::Flow,
    held::Queue,
    kept::Kept,
    local_receiver::LocalReceiver,
    session::Session,
    take_overs::TakeOvers,
    timers::Timers,
    unconfirmed::{Confirming, Unconfirmed},
};
pub(crate) use self::{
    command::{BATCHES, Batch, Command, Done},
    connect::effective_keep_alive,
};
use crate::{
    access::Access,
    codec::{Packet, encode},
    config::Limits,
    confirmation::Confirmations,
    counters::Counters,
    error::PublishError,
    index::{Found, Index},
    outbox::Outbox,
    reason::{Fault, Reason},
    retained::Retained,
    store::Changes,
};

/// The state of the broker.
#[derive(Debug)]
pub(crate) struct Core {
    limits: Limits,
    access: Access,
    counters: Arc<Counters>,
    /// Limits the log lines about evicted sessions.
    told: Repeated,
    /// Clients that take over each other's connections.
    take_overs: TakeOvers,
    clients: HashMap<Arc<str>, u64>,
    sessions: HashMap<u64, Session>,
    /// The session of each connection.
    connections: HashMap<u64, u64>,
    locals: HashMap<u64, LocalReceiver>,
    /// What receivers have confirmed.
    confirmations: Arc<Confirmations>,
    /// The messages that receivers have not confirmed yet, by token.
    unconfirmed: HashMap<u64, Unconfirmed>,
    /// The message above QoS 0 that is being routed.
    confirming: Option<Confirming>,
    index: Index,
    retained: Retained,
    /// The publishers that wait for a subscriber.
    held: BTreeMap<u64, Queue>,
    /// The weight of all waiting packets.
    held_bytes: usize,
    /// Whether there may be room for waiting packets.
    room: bool,
    timers: Timers,
    /// Whether changes are written to a disk.
    durable: bool,
    changes: Changes,
    /// The sessions for which this round has written bytes.
    dirty: HashSet<u64>,
    /// The connections that end with this round.
    leaving: Vec<(Arc<Outbox>, BytesMut)>,
    /// The sessions whose client is to be cut off because it is too slow.
    slow: Vec<u64>,
    answers: Vec<(Done, Result<(), PublishError>)>,
    found: Found,
    next_id: u64,
    sequence: u64,
    shared_turn: usize,
    queued_bytes: usize,
    /// What sessions keep besides queued messages.
    kept: Kept,
    now: u64,
}

impl Core {
    /// Creates an empty broker. `durable` says whether its changes are written to a disk.
    pub(crate) fn new(
        limits: Limits,
        access: Access,
        counters: Arc<Counters>,
        confirmations: Arc<Confirmations>,
        durable: bool,
    ) -> Self {
        let retained = Retained::new(limits.retained_messages, limits.retained_bytes);
        Self {
            limits,
            access,
            counters,
            told: Repeated::default(),
            take_overs: TakeOvers::default(),
            clients: HashMap::new(),
            sessions: HashMap::new(),
            connections: HashMap::new(),
            locals: HashMap::new(),
            confirmations,
            unconfirmed: HashMap::new(),
            confirming: None,
            index: Index::default(),
            retained,
            held: BTreeMap::new(),
            held_bytes: 0,
            room: false,
            timers: Timers::default(),
            durable,
            changes: Changes::default(),
            dirty: HashSet::new(),
            leaving: Vec::new(),
            slow: Vec::new(),
            answers: Vec::new(),
            found: Found::default(),
            next_id: 0,
            sequence: 0,
            shared_turn: 0,
            queued_bytes: 0,
            kept: Kept::default(),
            now: 0,
        }
    }

    /// Begins a round at `now`, milliseconds since 1970.
    pub(crate) fn begin(&mut self, now: u64) {
        self.now = now;
        self.fire();
        self.take_confirmations();
    }

    /// Carries out a command.
    pub(crate) fn handle(&mut self, command: Command) {
        match command {
            Command::Connect {
                connection,
                connect,
                certificate,
                peer,
                outbox,
            } => {
                self.connect(connection, peer, &connect, certificate, outbox);
            }
            Command::Packets(batch) => self.batch(batch),
            Command::Closed { connection, fault } => self.close(connection, fault),
            Command::Drained { connection } => {
                if let Some(session) = self.connections.get(&connection) {
                    self.pump(*session);
                }
            }
            Command::Publish { message, done } => self.publish_local(message, done),
            Command::Subscribe {
                filter,
                receiver,
                confirms,
                done,
            } => {
                // If nobody waits for the answer any more, nothing is lost.
                let _ = done.send(self.subscribe_local(filter, receiver, confirms));
            }
            Command::Filter {
                receiver,
                filter,
                on,
                done,
            } => {
                match on {
                    true => self.add_local(receiver, filter),
                    false => self.remove_local(receiver, &filter),
                }
                let _ = done.send(());
            }
        }
    }

    /// Finishes a round: retries waiting publishers and cuts off slow clients.
    pub(crate) fn finish(&mut self) {
        self.retry_held();
        while let Some(session) = self.slow.pop() {
            Counters::count(&self.counters.slow);
            self.fail(
                session,
                Fault::new(
                    Reason::QuotaExceeded,
                    "the client does not keep up with its messages",
                ),
            );
        }
    }

    /// Returns the changes that must be on disk before [`Core::flush`]; `None` if nothing waits for them.
    pub(crate) fn changes(&mut self) -> Option<Changes> {
        if self.changes.is_empty() {
            return None;
        }
        if !self.changes.urgent && !self.timers.commit_due(self.now) {
            self.timers.commit_later(self.now);
            return None;
        }
        self.timers.handle_commit();
        Some(std::mem::take(&mut self.changes))
    }

    /// Returns all changes, urgent or not.
    pub(crate) fn last_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Sends the bytes and answers of the round.
    pub(crate) fn flush(&mut self) {
        let hard = 2 * self.limits.buffered_bytes + self.limits.retained_bytes;
        let mut lost = Vec::new();
        for id in self.dirty.drain() {
            let Some(session) = self.sessions.get_mut(&id) else {
                continue;
            };
            if let Some(connection) = &mut session.connection {
                if connection.staged.len() + connection.outbox.waiting() > hard {
                    lost.push(id);
                } else if !connection.staged.is_empty() {
                    connection.outbox.push(&mut connection.staged);
                }
            }
        }
        for (outbox, mut staged) in self.leaving.drain(..) {
            if !staged.is_empty() {
                outbox.push(&mut staged);
            }
            outbox.close();
        }
        for (done, answer) in self.answers.drain(..) {
            // A caller that stopped waiting does not need the answer.
            let _ = done.send(answer);
        }
        // These clients send requests and do not read the answers: the next round cuts them off.
        self.slow.append(&mut lost);
        self.measure();
    }

    fn measure(&self) {
        let set = |counter: &std::sync::atomic::AtomicU64, value: usize| {
            counter.store(value as u64, Ordering::Relaxed)
        };
        set(&self.counters.connections, self.connections.len());
        set(&self.counters.sessions, self.sessions.len());
        set(&self.counters.retained, self.retained.len());
        set(&self.counters.queued_bytes, self.queued_bytes);
    }

    /// Reports whether the round has written so much that it should be sent before more is done.
    pub(crate) fn is_heavy(&self) -> bool {
        self.dirty
            .iter()
            .filter_map(|id| self.sessions.get(id)?.connection.as_ref())
            .any(|connection| connection.staged.len() * 4 > self.limits.buffered_bytes)
    }

    /// Returns when [`Core::begin`] is due again if no command arrives; milliseconds since 1970.
    pub(crate) fn wake(&self) -> Option<u64> {
        let more = !self.slow.is_empty() || self.room && !self.held.is_empty();
        if more {
            Some(self.now)
        } else {
            self.timers.next()
        }
    }

    /// Records that a receiver in this process may have room.
    pub(crate) fn local_room(&mut self) {
        self.room = true;
    }

    /// Shuts the broker down: it notifies every client and publishes the wills.
    pub(crate) fn shut_down(&mut self) {
        let connected: Vec<u64> = self.connections.values().copied().collect();
        for session in connected {
            self.fail(
                session,
                Fault::new(Reason::ServerShuttingDown, "the broker stops"),
            );
        }
    }

    /// Processes `packet` on behalf of session `id`.
    fn packet(&mut self, id: u64, packet: &Packet) -> Result<Flow, Fault> {
        match packet {
            Packet::Publish(publish) => return self.publish(id, publish),
            Packet::PubAck(ack) => self.puback(id, *ack),
            Packet::PubRec(ack) => self.pubrec(id, *ack),
            Packet::PubRel(ack) => self.pubrel(id, *ack),
            Packet::PubComp(ack) => self.pubcomp(id, *ack),
            Packet::Subscribe(subscribe) => self.subscribe(id, subscribe)?,
            Packet::Unsubscribe(unsubscribe) => self.unsubscribe(id, unsubscribe)?,
            Packet::PingReq => self.pong(id),
            Packet::Disconnect(disconnect) => self.disconnect(id, *disconnect)?,
            Packet::Connect(_) => return Err(Fault::protocol("a second CONNECT")),
            Packet::Auth => return Err(Fault::protocol("authentication without a method")),
        }
        Ok(Flow::Done)
    }

    /// Answers PINGREQ.
    fn pong(&mut self, id: u64) {
        self.write(id, |connection| encode::pingresp(&mut connection.staged));
    }

    /// Writes to a session's connection, if it has one.
    fn write(&mut self, id: u64, write: impl FnOnce(&mut session::Connection)) {
        if let Some(connection) = self
            .sessions
            .get_mut(&id)
            .and_then(|session| session.connection.as_mut())
        {
            write(connection);
            self.dirty.insert(id);
        }
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
