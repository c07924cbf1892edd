//! Ends connections and sessions, and publishes wills.

use std::sync::Arc;

use super::{Core, timers::Due};
use crate::{
    codec::{Disconnect, Version, Will},
    counters::Counters,
    holder::Holder,
    index::Subscriber,
    reason::Fault,
    store::SavedMessage,
    topic,
};

impl Core {
    /// Handles DISCONNECT.
    pub(super) fn disconnect(&mut self, id: u64, said: Disconnect) -> Result<(), Fault> {
        if let Some(expiry) = said.session_expiry {
            if expiry > 0
                && self
                    .sessions
                    .get(&id)
                    .is_some_and(|session| session.expiry == 0)
            {
                return Err(Fault::protocol(
                    "a session that ends with its connection cannot be stored",
                ));
            }
            self.set_expiry(id, expiry.min(self.limits.session_expiry));
        }
        self.detach(id, !said.normal);
        Ok(())
    }

    /// Handles the end of a connection, by itself or because of its client's fault.
    pub(super) fn close(&mut self, connection: u64, fault: Option<Fault>) {
        if self.hold_closed(connection, fault) {
            return;
        }
        let Some(id) = self.connections.get(&connection).copied() else {
            return;
        };
        match fault {
            Some(fault) => self.fail(id, fault),
            None => self.detach(id, true),
        }
    }

    /// Closes a connection for `fault` and notifies its client.
    pub(super) fn fail(&mut self, id: u64, fault: Fault) {
        Counters::count(&self.counters.faults);
        if let Some(session) = self.sessions.get(&id) {
            tracing::info!(client = %session.who.client, %fault, "connection ended");
        }
        self.write(id, |connection| {
            connection.disconnect(fault.reason, fault.said)
        });
        self.detach(id, true);
    }

    /// Removes the connection from its session; with `will`, its will is published now or after its delay.
    pub(super) fn detach(&mut self, id: u64, will: bool) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(connection) = session.connection.take() else {
            return;
        };
        self.connections.remove(&connection.id);
        session.left = self.now;
        self.room = true;
        self.leaving.push((connection.outbox, connection.staged));
        let (expiry, generation, holder) =
            (session.expiry, session.generation, session.holder.clone());
        self.forget_held(connection.id);
        let will = connection.will.filter(|_| will);
        if let Some(will) = will {
            let delay = if connection.version == Version::V5 {
                will.delay.min(expiry)
            } else {
                0
            };
            if delay == 0 {
                self.publish_will(will, holder);
            } else {
                let due = self.timers.add(
                    self.now + u64::from(delay) * 1000,
                    Due::Will(id, generation),
                );
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.will = Some(will);
                    session.deadlines.push(due);
                }
            }
        }
        self.recount(id);
        if expiry == 0 {
            return self.end_session(id);
        }
        self.expire_later(id);
    }

    /// Schedules the end of the session for the case that its client stays away.
    pub(super) fn expire_later(&mut self, id: u64) {
        let Some(session) = self
            .sessions
            .get_mut(&id)
            .filter(|session| session.expiry != u32::MAX)
        else {
            return;
        };
        let when = self.now + u64::from(session.expiry) * 1000;
        session
            .deadlines
            .push(self.timers.add(when, Due::Expiry(id, session.generation)));
    }

    /// Cancels the session's deadlines, because the client is back or the session has ended.
    pub(super) fn clear_deadlines(&mut self, id: u64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session
                .deadlines
                .drain(..)
                .for_each(|deadline| self.timers.remove(deadline));
        }
    }

    /// Publishes a will, which is handled like any other message, retained or not.
    pub(super) fn publish_will(&mut self, will: Will, holder: Option<Holder>) {
        let mut message = will.message;
        message.expires = will
            .expiry
            .map(|seconds| self.now + u64::from(seconds) * 1000);
        self.accept_of(&Arc::new(message), None, holder);
    }

    /// Ends the session and removes all of it. A will that still waits for its delay is published now.
    pub(super) fn end_session(&mut self, id: u64) {
        self.forget_on_disk(id);
        self.clear_deadlines(id);
        let Some(session) = self.sessions.remove(&id) else {
            return;
        };
        self.clients.remove(&session.who.client);
        self.dirty.remove(&id);
        self.queued_bytes -= session.bytes;
        self.kept.remove(session.holder.as_ref(), session.kept);
        for filter in session.subscriptions.keys() {
            if let Ok(filter) = topic::parse_filter(filter) {
                self.index.remove(filter, Subscriber::Session(id));
            }
        }
        if let Some(will) = session.will {
            self.publish_will(will, session.holder);
        }
    }

    /// Deletes the session from disk; in memory it continues.
    pub(super) fn forget_on_disk(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if !session.durable {
            return;
        }
        session.durable = false;
        let client = &session.who.client;
        let changes = &mut self.changes;
        changes.urgent = true;
        changes.sessions.insert(Arc::clone(client), None);
        for filter in session.subscriptions.keys() {
            changes
                .subscriptions
                .insert((Arc::clone(client), Arc::clone(filter)), None);
        }
        for incoming in &session.incoming {
            changes
                .incoming
                .insert((Arc::clone(client), *incoming), false);
        }
        let pending = session.pending.iter().map(|queued| queued.sequence);
        for sequence in pending.chain(session.inflight.iter().map(|inflight| inflight.sequence)) {
            changes.delete(sequence);
        }
    }

    /// Writes a queued message to disk, if its session is on disk.
    pub(super) fn save(&mut self, id: u64, saved: impl FnOnce() -> SavedMessage) {
        if self
            .sessions
            .get(&id)
            .is_some_and(|session| session.durable)
        {
            self.changes.insert(saved());
        }
    }
}
