//! Restores the state from disk.

use std::sync::Arc;

use super::{
    Core,
    session::{Inflight, Session},
};
use crate::{
    access::Identity,
    holder::Holder,
    store::{Saved, SavedMessage},
    topic,
};

impl Core {
    /// Restores what was saved. The time for which sessions are kept without their clients begins anew, because the broker's downtime says
    /// nothing about the clients.
    pub(crate) fn restore(&mut self, saved: Saved, now: u64) {
        self.now = now;
        for (client, session) in saved.sessions {
            let id = self.new_id();
            let who = Identity {
                client: Arc::clone(&client),
                user: session.user,
            };
            let expiry = session.expiry.min(self.limits.session_expiry);
            let mut session = Session::new(who, expiry);
            session.holder = Holder::of(&session.who, None);
            session.durable = true;
            self.sessions.insert(id, session);
            self.clients.insert(client, id);
            self.expire_later(id);
        }
        for (client, filter, subscription) in saved.subscriptions {
            let (Some(id), Ok(parsed)) = (
                self.clients.get(&client).copied(),
                topic::parse_filter(&filter),
            ) else {
                continue;
            };
            self.index_subscription(id, parsed, subscription);
            if let Some(session) = self.sessions.get_mut(&id) {
                session.subscribe(filter, subscription);
            }
            self.recount(id);
        }
        for (client, packet) in saved.incoming {
            let id = self.clients.get(&client);
            if let Some(session) = id.and_then(|id| self.sessions.get_mut(id)) {
                session.incoming.insert(packet);
            }
        }
        for message in saved.messages {
            self.restore_message(message);
        }
        for message in saved.retained {
            if message.expires.is_some() {
                self.timers.sweep(now);
            }
            if !self.retained.keep(Arc::clone(&message), None) {
                tracing::warn!(topic = %message.topic, "retained message dropped: the limit is lower than before");
            }
        }
    }

    fn restore_message(&mut self, saved: SavedMessage) {
        let sequence = saved.queued.sequence;
        self.sequence = self.sequence.max(sequence);
        let id = self.clients.get(&saved.client);
        let Some(session) = id.and_then(|id| self.sessions.get_mut(id)) else {
            return self.changes.delete(sequence);
        };
        let weight = if saved.released {
            0
        } else {
            saved.queued.message.weight()
        };
        session.bytes += weight;
        self.queued_bytes += weight;
        if saved.id == 0 {
            session.pending.push_back(saved.queued);
        } else {
            let queued = (!saved.released).then_some(saved.queued);
            session.restore_inflight(Inflight {
                id: saved.id,
                sequence,
                queued,
            });
        }
    }
}
