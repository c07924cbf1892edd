//! Publishers that wait for a subscriber: above QoS 0 the broker accepts nothing that it could not keep.
//!
//! While a connected subscriber's queue is full, the packets of its publishers and their acknowledgements are held back. A publisher that
//! is also a subscriber is still read, up to a limit, because its own acknowledgements, which make room, come behind its publications (see
//! `ahead`). Other publishers' sockets are not read. A subscriber that makes no room within [`Limits::patience`](crate::Limits::patience)
//! is cut off, even if it is the publisher itself; for a receiver in this process the broker waits.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use super::{
    Core,
    command::{Batch, Done, Flow},
    held::{Held, Queue},
};
use crate::{
    codec::Packet,
    error::PublishError,
    index::{Found, IndexEntry, Subscriber},
    message::{Message, QoS},
    reason::{Fault, Reason},
};

/// The key of this process in the map of waiting publishers; connections count from 1.
const THIS_PROCESS: u64 = 0;

impl Core {
    /// Processes packets, unless earlier ones of the same connection wait.
    pub(super) fn batch(&mut self, mut batch: Batch) {
        if self.held.contains_key(&batch.connection) {
            self.take_ahead(&mut batch);
            return self.hold_batch(batch);
        }
        if let Some(mut rest) = self.work(batch) {
            self.take_ahead(&mut rest);
            self.hold_batch(rest);
        }
    }

    /// Records the end of a connection whose packets wait; returns false if none do.
    pub(super) fn hold_closed(&mut self, connection: u64, fault: Option<Fault>) -> bool {
        let Some(queue) = self.held.get_mut(&connection) else {
            return false;
        };
        queue.held.push_back(Held::Closed(fault));
        // Publishers need not wait for this client any longer.
        self.room = true;
        true
    }

    /// Holds back a message of this process.
    pub(super) fn hold_local(&mut self, message: Message, done: Done) {
        self.held
            .entry(THIS_PROCESS)
            .or_default()
            .held
            .push_back(Held::Local(message, done, self.now));
        self.watch_held();
    }

    /// Reports whether an earlier message of this process on `topic` waits, which a later one must not overtake.
    pub(super) fn is_held_local(&self, topic: &str) -> bool {
        let is_it =
            |held: &Held| matches!(held, Held::Local(message, ..) if *message.topic == *topic);
        self.held
            .get(&THIS_PROCESS)
            .is_some_and(|queue| queue.held.iter().any(is_it))
    }

    fn hold_batch(&mut self, batch: Batch) {
        if batch.packets.is_empty() {
            return;
        }
        let (connection, weight) = (
            batch.connection,
            batch.packets.iter().map(Packet::weight).sum(),
        );
        let queue = self.held.entry(connection).or_default();
        queue.weight += weight;
        self.held_bytes += weight;
        queue.held.push_back(Held::Batch(batch, self.now, weight));
        self.read_on(connection);
        self.watch_held();
    }

    /// Returns how long a full queue may delay publishers, milliseconds.
    fn patience(&self) -> u64 {
        self.limits.patience.as_millis() as u64
    }

    /// Starts the timer that checks whether a publisher has waited too long, if any publisher waits.
    pub(super) fn watch_held(&mut self) {
        if !self.held.is_empty() {
            self.timers.watch(self.now, self.patience() / 4);
        }
    }

    /// Drops the waiting items of a connection.
    pub(super) fn forget_held(&mut self, connection: u64) {
        self.held_bytes -= self
            .held
            .remove(&connection)
            .map_or(0, |queue| queue.weight);
    }

    /// Processes packets until one must wait; returns the rest.
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

    /// Retries the waiting items, if there may be room now.
    pub(super) fn retry_held(&mut self) {
        if !std::mem::take(&mut self.room) || self.held.is_empty() {
            return;
        }
        for connection in self.held.keys().copied().collect::<Vec<_>>() {
            if connection == THIS_PROCESS {
                self.retry_locals();
            } else {
                self.retry(connection);
            }
        }
    }

    fn retry(&mut self, connection: u64) {
        let mut has_begun = false;
        loop {
            // Only the current item is taken out. The rest of the queue stays, which shows that its publisher waits.
            let Some(queue) = self.held.get_mut(&connection) else {
                return;
            };
            let Some(held) = queue.held.pop_front() else {
                return self.forget_held(connection);
            };
            match held {
                Held::Batch(batch, since, weight) => {
                    // The time limit begins anew with each packet, because one behind others has not delayed anybody yet.
                    let since = if std::mem::replace(&mut has_begun, true) {
                        self.now
                    } else {
                        since
                    };
                    self.lose_patience(&batch, since);
                    let before = batch.packets.len();
                    if let Some(rest) = self.work(batch) {
                        let since = if rest.packets.len() == before {
                            since
                        } else {
                            self.now
                        };
                        if let Some(queue) = self.held.get_mut(&connection) {
                            queue.held.push_front(Held::Batch(rest, since, weight));
                        }
                        return self.read_on(connection);
                    }
                    if let Some(queue) = self.held.get_mut(&connection) {
                        queue.weight -= weight;
                        self.held_bytes -= weight;
                    }
                }
                Held::Closed(fault) => {
                    self.forget_held(connection);
                    return self.close(connection, fault);
                }
                // Messages of this process have their own queue.
                Held::Local(..) => {}
            }
        }
    }

    /// Retries the messages of this process topic by topic: each topic keeps its order and delays no other.
    fn retry_locals(&mut self) {
        let Some(queue) = self.held.remove(&THIS_PROCESS) else {
            return;
        };
        let (mut waiting, mut topics) = (VecDeque::new(), HashSet::new());
        for held in queue.held {
            let Held::Local(message, done, since) = held else {
                continue;
            };
            if topics.contains(&message.topic) {
                // The time limit of a message begins when it is the first of its topic.
                waiting.push_back(Held::Local(message, done, self.now));
            } else if self.must_still_wait(&message, since) {
                topics.insert(Arc::clone(&message.topic));
                waiting.push_back(Held::Local(message, done, since));
            } else if self.must_wait(&message, None) {
                self.answers.push((done, Err(PublishError::Full)));
            } else {
                self.accept(&Arc::new(message), None);
                self.answers.push((done, Ok(())));
            }
        }
        if !waiting.is_empty() {
            self.held.insert(
                THIS_PROCESS,
                Queue {
                    held: waiting,
                    weight: 0,
                },
            );
        }
    }

    /// Reports whether a message of this process that has waited since `since` must wait longer. Clients that delayed it for too long are
    /// cut off.
    fn must_still_wait(&mut self, message: &Message, since: u64) -> bool {
        if since + self.patience() <= self.now {
            self.cut_off(message, None);
            return false;
        }
        self.must_wait(message, None)
    }

    /// Cuts off the clients that have delayed this batch for too long.
    fn lose_patience(&mut self, batch: &Batch, since: u64) {
        if since + self.patience() > self.now {
            return;
        }
        let Some(Packet::Publish(publish)) = batch.packets.front() else {
            return;
        };
        let Some(id) = self.connections.get(&batch.connection).copied() else {
            return;
        };
        if self.waits_for_release(id, publish) {
            let said = "more QoS 2 messages open than allowed, and none was released";
            return self.fail(id, Fault::new(Reason::ReceiveMaximumExceeded, said));
        }
        if let Ok(topic) = self.resolve(id, publish) {
            self.cut_off(&publish.message(topic, self.now), Some(id));
        }
    }

    /// Cuts off the clients that have no room for `message`.
    fn cut_off(&mut self, message: &Message, from: Option<u64>) {
        for who in self.without_room(message, from) {
            if let Subscriber::Session(id) = who {
                self.slow.push(id);
            }
        }
    }

    /// Reports whether a subscriber has no room for `message` and should be waited for.
    pub(super) fn must_wait(&mut self, message: &Message, from: Option<u64>) -> bool {
        !self.without_room(message, from).is_empty()
    }

    /// Returns the subscribers that delay `message`, each once. A subscriber that waits itself, such as the publisher, can still make room,
    /// because its acknowledgements are processed before its publications.
    fn without_room(&mut self, message: &Message, from: Option<u64>) -> Vec<Subscriber> {
        let mut found: Found = std::mem::take(&mut self.found);
        self.index.find(&message.topic, &mut found);
        let weight = message.weight();
        let waits = |who: &Subscriber| match who {
            Subscriber::Local(id) => self.locals.get(id).is_some_and(|local| local.is_full()),
            Subscriber::Session(id) => self.sessions.get(id).is_some_and(|session| {
                let connection = session.connection.as_ref().filter(|connection| {
                    !self.held.get(&connection.id).is_some_and(Queue::has_ended)
                });
                connection.is_some()
                    && !self.slow.contains(id)
                    && session.is_full(weight, &self.limits)
            }),
        };
        let room = |who: Subscriber| match who {
            Subscriber::Local(_) => !waits(&who),
            Subscriber::Session(id) => self
                .sessions
                .get(&id)
                .is_some_and(|session| !session.is_full(weight, &self.limits)),
        };
        let publisher = from.map(Subscriber::Session);
        let hears = |entry: &&IndexEntry| {
            entry.qos > QoS::AtMostOnce && !(entry.no_local && publisher == Some(entry.who))
        };
        let above = |entries: &[IndexEntry]| {
            entries
                .iter()
                .filter(hears)
                .map(|e| e.who)
                .collect::<Vec<_>>()
        };
        let mut full = above(&found.each);
        // A shared subscription waits only if none of its members has room.
        let shares = found
            .groups
            .iter()
            .filter(|group| !group.iter().any(|entry| room(entry.who)));
        full.extend(shares.flat_map(|group| above(group)));
        full.retain(waits);
        full.sort_unstable();
        full.dedup();
        found.each.clear();
        found.groups.clear();
        self.found = found;
        full
    }
}
