//! Publishers that wait for a subscriber: above QoS 0 nothing is taken that could not be kept.
//!
//! While a connected subscriber's queue is full, its publishers' packets are held, their acknowledgements with them, and
//! their sockets are not read. A subscriber that makes no room within [`Limits::patience`](crate::Limits::patience) is cut off; a receiver in this process is
//! waited for.

use std::sync::Arc;

use super::{Batch, Core, Done, Flow};
use crate::{
    error::PublishError,
    index::{Entry, Found, Subscriber},
    message::{Message, QoS},
    reason::Fault,
};

/// The place of this process among those that wait: connections count from 1.
const THIS_PROCESS: u64 = 0;

/// What waits for its turn.
#[derive(Debug)]
pub(super) enum Held {
    /// Packets of a connection.
    Batch(Batch, u64),
    /// The end of a connection.
    Closed(Option<Fault>),
    /// A message of this process.
    Local(Message, Done, u64),
}

impl Core {
    /// Deals with packets, unless earlier ones of the same connection wait.
    pub(super) fn batch(&mut self, batch: Batch) {
        if let Some(held) = self.held.get_mut(&batch.connection) {
            return held.push_back(Held::Batch(batch, self.now));
        }
        if let Some(rest) = self.work(batch) {
            self.hold(rest.connection, Held::Batch(rest, self.now));
        }
    }

    /// Notes the end of a connection whose packets wait; false if none do.
    pub(super) fn hold_closed(&mut self, connection: u64, fault: Option<Fault>) -> bool {
        let held = self.held.get_mut(&connection);
        held.map(|held| held.push_back(Held::Closed(fault))).is_some()
    }

    /// A message of this process waits.
    pub(super) fn hold_local(&mut self, message: Message, done: Done) {
        self.hold(THIS_PROCESS, Held::Local(message, done, self.now));
    }

    /// How long a full queue may hold publishers up, milliseconds.
    fn patience(&self) -> u64 {
        self.limits.patience.as_millis() as u64
    }

    fn hold(&mut self, connection: u64, held: Held) {
        self.held.entry(connection).or_default().push_back(held);
        self.watch_held();
    }

    /// While anybody waits, it is looked at now and then whether that was for too long.
    pub(super) fn watch_held(&mut self) {
        if !self.held.is_empty() {
            self.timers.watch(self.now, self.patience() / 4);
        }
    }

    /// Deals with packets until one must wait; what is left is returned.
    fn work(&mut self, mut batch: Batch) -> Option<Batch> {
        while let Some(packet) = batch.packets.front() {
            let id = *self.connections.get(&batch.connection)?;
            match self.packet(id, packet) {
                Ok(Flow::Done) => drop(batch.packets.pop_front()),
                Ok(Flow::Wait) => return Some(batch),
                Err(fault) => {
                    self.fail(id, fault);
                    return None;
                }
            }
        }
        None
    }

    /// Tries again what waited, if there may be room now.
    pub(super) fn retry_held(&mut self) {
        if !std::mem::take(&mut self.room) || self.held.is_empty() {
            return;
        }
        for connection in self.held.keys().copied().collect::<Vec<_>>() {
            self.retry(connection);
        }
    }

    fn retry(&mut self, connection: u64) {
        // Taken out, so that it does not hold itself up.
        let Some(mut queue) = self.held.remove(&connection) else { return };
        while let Some(held) = queue.pop_front() {
            let again = match held {
                Held::Batch(batch, since) => {
                    self.lose_patience(batch.packets.front().and_then(message_of), since, connection);
                    let before = batch.packets.len();
                    self.work(batch).map(|rest| self.still_held(rest, before, since))
                }
                Held::Closed(fault) => {
                    self.closed(connection, fault);
                    None
                }
                Held::Local(message, done, since) => self.retry_local(message, done, since),
            };
            if let Some(held) = again {
                queue.push_front(held);
                self.held.insert(connection, queue);
                return;
            }
        }
    }

    /// What still waits; patience begins anew with each packet.
    fn still_held(&self, rest: Batch, before: usize, since: u64) -> Held {
        if rest.packets.len() == before {
            return Held::Batch(rest, since);
        }
        Held::Batch(rest, self.now)
    }

    fn retry_local(&mut self, message: Message, done: Done, since: u64) -> Option<Held> {
        if self.must_wait(&message, None) {
            if since + self.patience() > self.now {
                return Some(Held::Local(message, done, since));
            }
            self.answers.push((done, Err(PublishError::Full)));
            return None;
        }
        self.accept(&Arc::new(message), None);
        self.answers.push((done, Ok(())));
        None
    }

    /// Cuts off the subscribers that have held a publisher up for too long.
    fn lose_patience(&mut self, topic: Option<Arc<str>>, since: u64, connection: u64) {
        let Some(topic) = topic else { return };
        if since + self.patience() > self.now {
            return;
        }
        let message = Message::new(topic, bytes::Bytes::new(), QoS::AtLeastOnce, false);
        let from = self.connections.get(&connection).copied();
        for who in self.without_room(&message, from) {
            if let Subscriber::Session(id) = who
                && !self.slow.contains(&id)
            {
                self.slow.push(id);
            }
        }
    }

    /// Whether a subscriber has no room for `message` and is worth waiting for.
    pub(super) fn must_wait(&mut self, message: &Message, from: Option<u64>) -> bool {
        !self.without_room(message, from).is_empty()
    }

    /// The subscribers that hold `message` up. One that waits itself, the publisher among them, holds nobody up: two that
    /// wait for each other would wait for ever.
    fn without_room(&mut self, message: &Message, from: Option<u64>) -> Vec<Subscriber> {
        let mut found: Found = std::mem::take(&mut self.found);
        self.index.find(&message.topic, &mut found);
        let weight = message.weight();
        let waits = |who: &Subscriber| match who {
            Subscriber::Local(id) => self.locals.get(id).is_some_and(|local| local.is_full()),
            Subscriber::Session(id) => self.sessions.get(id).is_some_and(|session| {
                let held =
                    session.connection.as_ref().map(|connection| self.held.contains_key(&connection.id));
                held == Some(false)
                    && from != Some(*id)
                    && !self.slow.contains(id)
                    && session.is_full(weight, &self.limits)
            }),
        };
        let room = |who: Subscriber| match who {
            Subscriber::Local(_) => !waits(&who),
            Subscriber::Session(id) => {
                self.sessions.get(&id).is_some_and(|session| !session.is_full(weight, &self.limits))
            }
        };
        let above = |entries: &[Entry]| {
            entries.iter().filter(|e| e.qos > QoS::AtMostOnce).map(|e| e.who).collect::<Vec<_>>()
        };
        let mut full = above(&found.each);
        // A share waits only if none of its members has room.
        let shares = found.groups.iter().filter(|group| !group.iter().any(|entry| room(entry.who)));
        full.extend(shares.flat_map(|group| above(group)));
        full.retain(waits);
        found.each.clear();
        found.groups.clear();
        self.found = found;
        full
    }
}

fn message_of(packet: &crate::codec::Packet) -> Option<Arc<str>> {
    match packet {
        crate::codec::Packet::Publish(publish) => Some(Arc::clone(&publish.topic)),
        _ => None,
    }
}
