//! The broker itself: all sessions, subscriptions and retained messages, owned by one task and changed in turns.
//!
//! In come commands of connections and of this process, out go bytes for outboxes and changes for the disk. No socket, no
//! clock and no file is touched here: [`Core::begin`] says what time it is, and what a turn wrote leaves with
//! [`Core::flush`], after its changes were committed.

mod acknowledge;
mod ahead;
mod close;
mod command;
mod connect;
mod deliver;
mod due;
mod held;
mod hold;
mod local;
mod local_receiver;
mod publish;
mod quota;
mod restore;
mod session;
mod subscribe;
mod timers;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
};

use bytes::BytesMut;
use limits::Repeated;

use self::{command::Flow, held::Queue, local_receiver::LocalReceiver, session::Session, timers::Timers};
pub(crate) use self::{
    command::{BATCHES, Batch, Command, Done},
    connect::effective_keep_alive,
};
use crate::{
    access::Access,
    codec::{Packet, encode},
    config::Limits,
    counters::Counters,
    error::PublishError,
    index::{Found, Index},
    outbox::Outbox,
    reason::{Fault, Reason},
    retained::Retained,
    store::Changes,
};

/// All state.
#[derive(Debug)]
pub(crate) struct Core {
    limits: Limits,
    access: Access,
    counters: Arc<Counters>,
    /// What was told of sessions that went.
    told: Repeated,
    clients: HashMap<Arc<str>, u64>,
    sessions: HashMap<u64, Session>,
    /// Connection to session.
    connections: HashMap<u64, u64>,
    locals: HashMap<u64, LocalReceiver>,
    index: Index,
    retained: Retained,
    /// Publishers that wait for a subscriber.
    held: BTreeMap<u64, Queue>,
    /// Weight of what is held.
    held_bytes: usize,
    /// Whether there may be room for what is held.
    room: bool,
    timers: Timers,
    /// Whether there is a disk.
    durable: bool,
    changes: Changes,
    /// Sessions with bytes of this turn.
    dirty: HashSet<u64>,
    /// Connections that end with this turn.
    leaving: Vec<(Arc<Outbox>, BytesMut)>,
    /// Sessions whose client is to be cut off.
    slow: Vec<u64>,
    answers: Vec<(Done, Result<(), PublishError>)>,
    found: Found,
    next_id: u64,
    sequence: u64,
    shared_turn: usize,
    queued_bytes: usize,
    now: u64,
}

impl Core {
    /// An empty broker; `durable` if its changes are written to a disk.
    pub(crate) fn new(limits: Limits, access: Access, counters: Arc<Counters>, durable: bool) -> Self {
        let retained = Retained::new(limits.retained_messages, limits.retained_bytes);
        Self {
            limits,
            access,
            counters,
            told: Repeated::default(),
            clients: HashMap::new(),
            sessions: HashMap::new(),
            connections: HashMap::new(),
            locals: HashMap::new(),
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
            now: 0,
        }
    }

    /// A turn begins at `now`, milliseconds since 1970.
    pub(crate) fn begin(&mut self, now: u64) {
        self.now = now;
        self.fire();
    }

    /// Does what it is asked.
    pub(crate) fn handle(&mut self, command: Command) {
        match command {
            Command::Connect { connection, connect, certificate, peer, outbox } => {
                self.connect((connection, peer), &connect, certificate, outbox);
            }
            Command::Packets(batch) => self.batch(batch),
            Command::Closed { connection, fault } => self.closed(connection, fault),
            Command::Drained { connection } => {
                if let Some(session) = self.connections.get(&connection) {
                    self.pump(*session);
                }
            }
            Command::Publish { message, done } => self.publish_local(message, done),
            Command::Subscribe { filter, receiver, done } => {
                // Nobody waits for it any more: nothing is lost.
                let _ = done.send(self.subscribe_local(filter, receiver));
            }
            Command::Filter { receiver, filter, on, done } => {
                match on {
                    true => self.add_local(receiver, filter),
                    false => self.remove_local(receiver, &filter),
                }
                let _ = done.send(());
            }
        }
    }

    /// What the turn left: publishers that waited, clients that did not keep up.
    pub(crate) fn finish(&mut self) {
        self.retry_held();
        while let Some(session) = self.slow.pop() {
            Counters::count(&self.counters.slow);
            self.fail(
                session,
                Fault::new(Reason::QuotaExceeded, "the client does not keep up with its messages"),
            );
        }
    }

    /// The changes that must be on disk before [`Core::flush`]; none if nothing waits for them.
    pub(crate) fn changes(&mut self) -> Option<Changes> {
        if self.changes.is_empty() {
            return None;
        }
        if !self.changes.urgent && !self.timers.commit_due(self.now) {
            self.timers.commit_later(self.now);
            return None;
        }
        self.timers.committed();
        Some(std::mem::take(&mut self.changes))
    }

    /// All changes, urgent or not.
    pub(crate) fn last_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Lets go what the turn wrote.
    pub(crate) fn flush(&mut self) {
        let hard = 2 * self.limits.buffered_bytes + self.limits.retained_bytes;
        let mut lost = Vec::new();
        for id in self.dirty.drain() {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
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
            // Whoever stopped waiting does not want the answer.
            let _ = done.send(answer);
        }
        // They ask and do not read: the next turn cuts them off.
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

    /// Whether the bytes of this turn are worth sending before more is done.
    pub(crate) fn is_heavy(&self) -> bool {
        self.dirty
            .iter()
            .filter_map(|id| self.sessions.get(id)?.connection.as_ref())
            .any(|connection| connection.staged.len() * 4 > self.limits.buffered_bytes)
    }

    /// When [`Core::begin`] is due again, if nothing comes before; milliseconds since 1970.
    pub(crate) fn wake(&self) -> Option<u64> {
        let more = !self.slow.is_empty() || self.room && !self.held.is_empty();
        if more { Some(self.now) } else { self.timers.next() }
    }

    /// There may be room with a receiver in this process.
    pub(crate) fn local_room(&mut self) {
        self.room = true;
    }

    /// The broker stops: every client is told, and what they left is published.
    pub(crate) fn shut_down(&mut self) {
        let connected: Vec<u64> = self.connections.values().copied().collect();
        for session in connected {
            self.fail(session, Fault::new(Reason::ServerShuttingDown, "the broker stops"));
        }
    }

    /// Does what `packet` asks on behalf of `id`.
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
        if let Some(connection) = self.sessions.get_mut(&id).and_then(|session| session.connection.as_mut()) {
            write(connection);
            self.dirty.insert(id);
        }
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
