//! Handles the four acknowledgements (section 4.3), as sender and as receiver.

use std::sync::Arc;

use super::Core;
use crate::{
    codec::{
        Ack, Version,
        encode::{self, AckKind},
    },
    message::QoS,
    reason::Reason,
};

impl Core {
    /// Handles PUBACK: a QoS 1 message has arrived.
    pub(super) fn puback(&mut self, id: u64, ack: Ack) {
        if let Some(position) = self.find_sent(id, ack.id, QoS::AtLeastOnce) {
            self.finish_inflight(id, position);
            self.pump(id);
        }
    }

    /// Handles PUBREC: a QoS 2 message has arrived or is refused. Its payload is no longer needed, but its identifier is.
    pub(super) fn pubrec(&mut self, id: u64, ack: Ack) {
        if let Some(position) = self.find_sent(id, ack.id, QoS::ExactlyOnce) {
            if ack.refused {
                self.finish_inflight(id, position);
                return self.pump(id);
            }
            self.release(id, position);
        } else if ack.refused {
            return;
        }
        let known = self
            .sessions
            .get(&id)
            .is_some_and(|session| session.position(ack.id).is_some());
        let reason = if known {
            Reason::Success
        } else {
            Reason::PacketIdentifierNotFound
        };
        self.answer(id, AckKind::Rel, ack.id, reason);
    }

    /// Handles PUBCOMP: both sides have forgotten the identifier.
    pub(super) fn pubcomp(&mut self, id: u64, ack: Ack) {
        let session = self.sessions.get(&id);
        let position = session
            .and_then(|session| session.position(ack.id))
            .filter(|position| {
                session
                    .and_then(|session| session.inflight.get(*position))
                    .is_some_and(|sent| sent.queued.is_none())
            });
        if let Some(position) = position {
            self.finish_inflight(id, position);
            self.pump(id);
        }
    }

    /// Handles PUBREL: the client will not send that message again. The identifier may be reused when this is on disk.
    pub(super) fn pubrel(&mut self, id: u64, ack: Ack) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let known = session.incoming.remove(&ack.id);
        if known && session.durable {
            self.changes
                .incoming
                .insert((Arc::clone(&session.who.client), ack.id), false);
            self.changes.urgent = true;
        }
        self.room |= known;
        let reason = if known {
            Reason::Success
        } else {
            Reason::PacketIdentifierNotFound
        };
        self.answer(id, AckKind::Comp, ack.id, reason);
    }

    /// Writes an acknowledgement; in 3.1.1 it has no reason code.
    pub(super) fn answer(&mut self, id: u64, kind: AckKind, packet: u16, reason: Reason) {
        self.write(id, |connection| {
            encode::ack(
                &mut connection.staged,
                connection.version,
                kind,
                packet,
                reason,
            )
        });
    }

    /// Returns the MQTT version of a session's client.
    pub(super) fn version(&self, id: u64) -> Version {
        let connection = self
            .sessions
            .get(&id)
            .and_then(|session| session.connection.as_ref());
        connection.map_or(Version::V311, |connection| connection.version)
    }

    /// Returns the position of a message that was sent at `qos` and that the client has not confirmed yet.
    fn find_sent(&self, id: u64, packet: u16, qos: QoS) -> Option<usize> {
        let session = self.sessions.get(&id)?;
        let position = session.position(packet)?;
        let queued = session.inflight.get(position)?.queued.as_ref()?;
        (queued.qos == qos).then_some(position)
    }

    fn release(&mut self, id: u64, position: usize) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(sent) = session.inflight.get_mut(position) else {
            return;
        };
        let weight = sent
            .queued
            .take()
            .map_or(0, |queued| queued.message.weight());
        session.bytes -= weight;
        self.queued_bytes -= weight;
        self.room = true;
        if session.durable {
            self.changes.update(sent.sequence, sent.id, true);
        }
    }
}
