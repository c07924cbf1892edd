//! The acknowledged lane of one node: stop-and-wait, one pending message for each object, the newest wins. No clock, no IO.
//!
//! Source: KubeEdge's reliable message delivery (CloudHub's node session). One difference: a delete does not end the wait of
//! an older message that is on the wire; it follows it.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use wire::Message;

use crate::delivery::{Delivery, DeliveryKey};

/// So often is one message sent before the others get their turn.
pub(super) const ATTEMPTS: u32 = 5;

#[derive(Debug)]
struct Flight {
    delivery: Delivery,
    sent: Instant,
    attempts: u32,
    /// It was sent in vain before.
    tired: bool,
}

/// What the owner of the lane does next.
#[derive(Debug)]
pub(super) enum Step {
    /// Write this message.
    Send(Box<Message>),
    /// Nothing before this instant.
    Wait(Instant),
    /// Nothing until something is offered.
    Idle,
}

/// The lane.
#[derive(Debug)]
pub(super) struct AckLane {
    /// How long an acknowledgement is waited for before the same message is sent again.
    patience: Duration,
    order: VecDeque<DeliveryKey>,
    /// What was sent in vain: when nothing else waits, or between the others.
    tired: VecDeque<DeliveryKey>,
    pending: HashMap<DeliveryKey, Delivery>,
    flight: Option<Flight>,
}

impl AckLane {
    /// An empty lane that sends a message again when it is not acknowledged within `patience`.
    pub(super) fn new(patience: Duration) -> Self {
        let (order, tired) = (VecDeque::new(), VecDeque::new());
        Self { patience, order, tired, pending: HashMap::new(), flight: None }
    }

    /// Takes a message. An older revision of the same object is dropped; a pending delete is never displaced.
    pub(super) fn offer(&mut self, delivery: Delivery) {
        if self.superseded(&delivery) {
            return;
        }
        if self.pending.insert(delivery.key.clone(), delivery.clone()).is_none() {
            self.order.push_back(delivery.key);
        }
    }

    fn superseded(&self, delivery: &Delivery) -> bool {
        let waiting = self.pending.get(&delivery.key);
        let flying =
            self.flight.as_ref().map(|flight| &flight.delivery).filter(|flying| flying.key == delivery.key);
        waiting.into_iter().chain(flying).any(|other| match (other.is_delete(), delivery.is_delete()) {
            (true, _) => true,
            (false, true) => false,
            (false, false) => other.revision >= delivery.revision,
        })
    }

    /// What to do now. A message that exhausted its attempts goes behind the others, and then gets one attempt at a time while
    /// others wait.
    pub(super) fn step(&mut self, now: Instant) -> Step {
        if let Some(flight) = &mut self.flight {
            let again = flight.sent + self.patience;
            if now < again {
                return Step::Wait(again);
            }
            let attempts = if flight.tired && !self.order.is_empty() { 1 } else { ATTEMPTS };
            if flight.attempts < attempts {
                flight.attempts += 1;
                flight.sent = now;
                return Step::Send(Box::new(flight.delivery.message.clone()));
            }
            if let Some(flight) = self.flight.take() {
                self.requeue(flight.delivery);
            }
        }
        while let Some((key, tired)) = self.next() {
            if let Some(delivery) = self.pending.remove(&key) {
                let message = delivery.message.clone();
                self.flight = Some(Flight { delivery, sent: now, attempts: 1, tired });
                return Step::Send(Box::new(message));
            }
        }
        Step::Idle
    }

    fn next(&mut self) -> Option<(DeliveryKey, bool)> {
        let fresh = self.order.pop_front().map(|key| (key, false));
        fresh.or_else(|| self.tired.pop_front().map(|key| (key, true)))
    }

    /// Whether what is on the wire is being repeated: others may be offered, to have their turn.
    pub(super) fn is_repeating(&self) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.tired || flight.attempts > 1)
    }

    fn requeue(&mut self, delivery: Delivery) {
        if !self.pending.contains_key(&delivery.key) {
            self.tired.push_back(delivery.key.clone());
            self.pending.insert(delivery.key.clone(), delivery);
        }
    }

    /// The edge acknowledged `msg_id`: the delivery if it was the one on the wire; duplicates and late ones are nothing.
    pub(super) fn acknowledged(&mut self, msg_id: &str) -> Option<Delivery> {
        self.flight
            .take_if(|flight| flight.delivery.message.header.msg_id == msg_id)
            .map(|flight| flight.delivery)
    }

    /// How much waits or flies.
    pub(super) fn len(&self) -> usize {
        self.pending.len() + usize::from(self.flight.is_some())
    }
}

#[cfg(test)]
mod tests;
