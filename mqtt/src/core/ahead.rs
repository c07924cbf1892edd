//! Processes acknowledgements ahead of publications that wait, because they make room. So a client that receives what it publishes, or two
//! clients that publish to each other, make progress as long as they acknowledge.
//!
//! To find the acknowledgements, the client is read on within limits: [`Limits::read_ahead_bytes`](crate::Limits::read_ahead_bytes) for
//! each client, and [`Limits::total_queued_bytes`](crate::Limits::total_queued_bytes) together with the queues of sessions. Reordering is
//! allowed: section 4.6 of MQTT 3.1.1 orders acknowledgements among themselves and publications among themselves, but not one kind relative
//! to the other.

use super::{
    Core,
    command::{BATCHES, Batch},
    held::Held,
};
use crate::codec::{Ack, Packet};

impl Core {
    /// Processes the packets of a batch that need not wait, and leaves the others in their order.
    pub(super) fn take_ahead(&mut self, batch: &mut Batch) {
        let Some(id) = self.connections.get(&batch.connection).copied() else {
            return;
        };
        for packet in std::mem::take(&mut batch.packets) {
            match packet {
                Packet::PubAck(ack) => self.puback(id, ack),
                Packet::PubRec(ack) => self.pubrec(id, ack),
                Packet::PubComp(ack) => self.pubcomp(id, ack),
                Packet::PubRel(ack) if self.is_open(id, ack) => self.pubrel(id, ack),
                Packet::PingReq => self.pong(id),
                packet => batch.packets.push_back(packet),
            }
        }
    }

    /// Reports whether a QoS 2 message was accepted under this identifier, so that the released publication itself does not wait.
    fn is_open(&self, id: u64, ack: Ack) -> bool {
        self.sessions
            .get(&id)
            .is_some_and(|session| session.incoming.contains(&ack.id))
    }

    /// Lets a waiting connection be read on, if it may have something to acknowledge and there is room for its packets.
    pub(super) fn read_on(&mut self, connection: u64) {
        let session = self
            .connections
            .get(&connection)
            .and_then(|id| self.sessions.get(id));
        let answers = session.is_some_and(|session| {
            !session.subscriptions.is_empty()
                || !session.inflight.is_empty()
                || !session.incoming.is_empty()
        });
        let total = self.queued_bytes + self.held_bytes;
        let Some(queue) = self.held.get_mut(&connection) else {
            return;
        };
        if !answers
            || queue.weight >= self.limits.read_ahead_bytes
            || total >= self.limits.total_queued_bytes
        {
            return;
        }
        // Only the last batches may still have their permits.
        for held in queue.held.iter_mut().rev().take(BATCHES) {
            if let Held::Batch(batch, ..) = held {
                batch.permit = None;
            }
        }
    }
}
