//! What a publisher that waits has sent behind its publications: acknowledgements, which make room, are dealt with at once. So a
//! client that hears what it publishes, or two that publish to each other, go on as long as they acknowledge.
//!
//! To find them the client is read on, within bounds: [`Limits::read_ahead_bytes`](crate::Limits::read_ahead_bytes) for each, and
//! [`Limits::total_queued_bytes`](crate::Limits::total_queued_bytes) together with what sessions keep. Nothing needs their order with
//! publications: section 4.6 of MQTT 3.1.1 orders acknowledgements among themselves, and publications among themselves.

use super::{
    Core,
    command::{BATCHES, Batch},
    held::Held,
};
use crate::codec::{Ack, Packet};

impl Core {
    /// Deals with the packets of a batch that need not wait, and leaves the others in their order.
    pub(super) fn take_ahead(&mut self, batch: &mut Batch) {
        let Some(id) = self.connections.get(&batch.connection).copied() else { return };
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

    /// Whether a QoS 2 message was taken under this identifier: the publication that is released does not wait itself.
    fn is_open(&self, id: u64, ack: Ack) -> bool {
        self.sessions.get(&id).is_some_and(|session| session.incoming.contains(&ack.id))
    }

    /// Lets a connection that waits be read on, if it may have something to acknowledge and there is room for what it says.
    pub(super) fn read_on(&mut self, connection: u64) {
        let session = self.connections.get(&connection).and_then(|id| self.sessions.get(id));
        let answers = session.is_some_and(|session| {
            !session.subscriptions.is_empty() || !session.inflight.is_empty() || !session.incoming.is_empty()
        });
        let total = self.queued_bytes + self.held_bytes;
        let Some(queue) = self.held.get_mut(&connection) else { return };
        if !answers || queue.weight >= self.limits.read_ahead_bytes || total >= self.limits.total_queued_bytes
        {
            return;
        }
        // Only the last ones may still have their permits.
        for held in queue.held.iter_mut().rev().take(BATCHES) {
            if let Held::Batch(batch, ..) = held {
                batch.permit = None;
            }
        }
    }
}
