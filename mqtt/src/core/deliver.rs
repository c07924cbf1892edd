//! Sends messages from a session's queue to its client, within the client's receive maximum.

use std::sync::Arc;

use super::{
    Core,
    session::{Inflight, Written},
};
use crate::{
    codec::encode::{self, AckKind, Outgoing},
    counters::Counters,
    message::{Message, QoS},
    reason::Reason,
    store::{Queued, SavedMessage},
};

/// One message for one session.
#[derive(Debug)]
pub(super) struct Delivery<'a> {
    pub(super) message: &'a Arc<Message>,
    pub(super) qos: QoS,
    pub(super) retain: bool,
    pub(super) subscription_ids: &'a [u32],
    /// Whether the queue's limits are ignored, because messages from a limited store are within limits already.
    pub(super) regardless: bool,
}

impl Core {
    /// Delivers a message to a session: at QoS 0 to its client now or never, above it into its queue.
    pub(super) fn deliver(&mut self, id: u64, delivery: &Delivery<'_>) {
        if delivery.qos == QoS::AtMostOnce {
            self.send_now(id, delivery);
            return;
        }
        let weight = delivery.message.weight();
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let full = session.is_full(weight, &self.limits)
            || self.queued_bytes + weight > self.limits.total_queued_bytes;
        if full && !delivery.regardless {
            Counters::count(&self.counters.dropped);
            if session.connection.is_some() && !self.slow.contains(&id) {
                self.slow.push(id);
            }
            return;
        }
        self.sequence += 1;
        let queued = Queued {
            sequence: self.sequence,
            message: Arc::clone(delivery.message),
            qos: delivery.qos,
            retain: delivery.retain,
            subscription_ids: delivery.subscription_ids.into(),
        };
        session.pending.push_back(queued.clone());
        session.bytes += weight;
        self.queued_bytes += weight;
        let client = Arc::clone(&session.who.client);
        self.save(id, || SavedMessage {
            client,
            queued,
            id: 0,
            released: false,
        });
        self.pump(id);
    }

    /// Writes a QoS 0 message.
    fn send_now(&mut self, id: u64, delivery: &Delivery<'_>) {
        let connection = self
            .sessions
            .get_mut(&id)
            .and_then(|session| session.connection.as_mut());
        let Some(connection) = connection else { return };
        if connection.is_full(&self.limits) && !delivery.regardless {
            return Counters::count(&self.counters.dropped);
        }
        let outgoing = Outgoing {
            message: delivery.message,
            qos: QoS::AtMostOnce,
            retain: delivery.retain,
            duplicate: false,
            id: 0,
            subscription_ids: delivery.subscription_ids,
            alias: None,
            now: self.now,
        };
        match connection.publish(outgoing) {
            Written::Yes => Counters::count(&self.counters.sent),
            Written::TooLarge => Counters::count(&self.counters.dropped),
        }
        self.dirty.insert(id);
    }

    /// Sends as many messages as the receive maximum and the socket allow: first the earlier messages in flight, in order, then the queue.
    pub(super) fn pump(&mut self, id: u64) {
        while let Some(session) = self.sessions.get(&id)
            && let Some(connection) = &session.connection
            && session.on_wire < connection.window
            && (session.on_wire < session.inflight.len() || !session.pending.is_empty())
        {
            if connection.is_full(&self.limits) {
                connection.outbox.ask();
                return;
            }
            if session.on_wire < session.inflight.len() {
                self.send_again(id);
            } else {
                self.send_next(id);
            }
        }
    }

    fn send_again(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let position = session.on_wire;
        session.on_wire += 1;
        let (Some(connection), Some(inflight)) =
            (&mut session.connection, session.inflight.get(position))
        else {
            return;
        };
        self.dirty.insert(id);
        let Some(queued) = &inflight.queued else {
            let version = connection.version;
            encode::ack(
                &mut connection.staged,
                version,
                AckKind::Rel,
                inflight.id,
                Reason::Success,
            );
            return;
        };
        if connection.publish(outgoing(queued, inflight.id, true, self.now)) == Written::TooLarge {
            self.finish_inflight(id, position);
            Counters::count(&self.counters.dropped);
        }
    }

    fn send_next(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(queued) = session.pending.pop_front() else {
            return;
        };
        let packet = session.take_id();
        let written = match &mut session.connection {
            Some(_) if queued.message.is_expired(self.now) => Written::TooLarge,
            Some(connection) => connection.publish(outgoing(&queued, packet, false, self.now)),
            None => return,
        };
        let sequence = queued.sequence;
        session.inflight.push_back(Inflight {
            id: packet,
            sequence,
            queued: Some(queued),
        });
        session.on_wire += 1;
        if written == Written::TooLarge {
            let position = session.inflight.len() - 1;
            self.finish_inflight(id, position);
            return Counters::count(&self.counters.dropped);
        }
        if session.durable {
            self.changes.update(sequence, packet, false);
        }
        self.dirty.insert(id);
        Counters::count(&self.counters.sent);
    }

    /// Removes a message in flight that is finished.
    pub(super) fn finish_inflight(&mut self, id: u64, position: usize) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(done) = session.finish(position) else {
            return;
        };
        let weight = done
            .queued
            .as_ref()
            .map_or(0, |queued| queued.message.weight());
        session.bytes -= weight;
        self.queued_bytes -= weight;
        if session.durable {
            self.changes.delete(done.sequence);
        }
        self.room = true;
    }
}

fn outgoing(queued: &Queued, id: u16, duplicate: bool, now: u64) -> Outgoing<'_> {
    Outgoing {
        message: &queued.message,
        qos: queued.qos,
        retain: queued.retain,
        duplicate,
        id,
        subscription_ids: &queued.subscription_ids,
        alias: None,
        now,
    }
}
