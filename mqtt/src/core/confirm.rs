//! Acknowledgements that wait for receivers in this process (see [`Confirmation`](crate::Confirmation)).
//!
//! A client gets the acknowledgements of its publications in their order (MQTT-4.6.0), so later ones wait behind one that waits. A QoS 2
//! message counts as accepted when it is confirmed: until then the client sends it again on a new connection, and it is not delivered
//! twice.

use super::{
    Core,
    unconfirmed::{Confirming, Unconfirmed, WaitingAck},
};
use crate::{
    codec::{Publish, encode::AckKind},
    message::QoS,
    reason::{Fault, Reason},
};

impl Core {
    /// Lets the acknowledgement of a client's message wait for its receivers.
    pub(super) fn acknowledge_later(
        &mut self,
        id: u64,
        publish: &Publish,
        confirming: &Confirming,
        reason: Reason,
    ) {
        let Confirming { token, receivers } = *confirming;
        let unconfirmed = Unconfirmed {
            session: id,
            packet: publish.id,
            qos: publish.qos,
            remaining: receivers,
        };
        self.unconfirmed.insert(token, unconfirmed);
        let kind = match publish.qos {
            QoS::ExactlyOnce => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.unconfirmed.insert(publish.id, token);
                }
                AckKind::Rec
            }
            QoS::AtMostOnce | QoS::AtLeastOnce => AckKind::Ack,
        };
        self.answer_in_turn(
            id,
            WaitingAck {
                kind,
                packet: publish.id,
                reason,
                token: Some(token),
            },
        );
    }

    /// Answers a QoS 2 message that was sent again while it is not confirmed; returns false if it is none.
    pub(super) fn is_unconfirmed(&mut self, id: u64, packet: u16) -> bool {
        let token = self
            .sessions
            .get(&id)
            .and_then(|session| session.unconfirmed.get(&packet).copied());
        let Some(token) = token else { return false };
        let (kind, reason) = (AckKind::Rec, Reason::Success);
        self.answer_in_turn(
            id,
            WaitingAck {
                kind,
                packet,
                reason,
                token: Some(token),
            },
        );
        true
    }

    /// Writes a PUBACK or PUBREC behind those that wait.
    pub(super) fn answer_publish(&mut self, id: u64, kind: AckKind, packet: u16, reason: Reason) {
        self.answer_in_turn(
            id,
            WaitingAck {
                kind,
                packet,
                reason,
                token: None,
            },
        );
    }

    fn answer_in_turn(&mut self, id: u64, ack: WaitingAck) {
        let connection = self
            .sessions
            .get_mut(&id)
            .and_then(|session| session.connection.as_mut());
        match connection {
            Some(connection) if ack.token.is_some() || !connection.acks.is_empty() => {
                connection.acks.push_back(ack);
            }
            _ => self.answer(id, ack.kind, ack.packet, ack.reason),
        }
    }

    /// Carries out the confirmations that receivers have given.
    pub(super) fn take_confirmations(&mut self) {
        for (token, is_confirmed) in self.confirmations.take() {
            let Some(unconfirmed) = self.unconfirmed.get_mut(&token) else {
                continue;
            };
            let (id, packet, qos) = (unconfirmed.session, unconfirmed.packet, unconfirmed.qos);
            unconfirmed.remaining = unconfirmed.remaining.saturating_sub(1);
            if is_confirmed && unconfirmed.remaining > 0 {
                continue;
            }
            self.unconfirmed.remove(&token);
            if qos == QoS::ExactlyOnce {
                self.settle(id, packet, token, is_confirmed);
            }
            self.release_acks(id, token, is_confirmed);
        }
    }

    /// Records that a QoS 2 message was confirmed, or that it was not and may come again.
    fn settle(&mut self, id: u64, packet: u16, token: u64, is_confirmed: bool) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.unconfirmed.get(&packet) != Some(&token) {
            return;
        }
        session.unconfirmed.remove(&packet);
        if is_confirmed {
            self.remember(id, packet);
        }
    }

    fn release_acks(&mut self, id: u64, token: u64, is_confirmed: bool) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(connection) = session.connection.as_mut() else {
            return;
        };
        let mut waits = false;
        for ack in connection
            .acks
            .iter_mut()
            .filter(|ack| ack.token == Some(token))
        {
            (ack.token, waits) = (None, true);
        }
        if !waits {
            return;
        }
        if !is_confirmed {
            let said = "a message could not be stored; send it again";
            return self.fail(id, Fault::new(Reason::Unspecified, said));
        }
        while let Some(ack) = self.next_ack(id) {
            self.answer(id, ack.kind, ack.packet, ack.reason);
        }
    }

    fn next_ack(&mut self, id: u64) -> Option<WaitingAck> {
        let acks = &mut self.sessions.get_mut(&id)?.connection.as_mut()?.acks;
        acks.front().filter(|ack| ack.token.is_none())?;
        acks.pop_front()
    }
}
