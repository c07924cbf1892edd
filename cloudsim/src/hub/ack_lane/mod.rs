//! The acknowledged lane of one node: stop-and-wait, with at most one pending message for each object, the newest. No clock and no I/O.
//!
//! Source: KubeEdge's reliable message delivery (CloudHub's node session). One difference: a deletion does not replace an older message
//! that is on the wire; it follows it.

use clock::{HashMap, Instant};
use std::{collections::VecDeque, sync::Arc, time::Duration};

use wire::{Message, lane::ATTEMPTS};

use crate::delivery::{Delivery, DeliveryKey};

#[derive(Debug)]
struct InFlight {
    delivery: Delivery,
    sent: Instant,
    attempts: u32,
    /// Whether the message has used up its attempts before.
    exhausted: bool,
}

/// The next action for the owner of the lane.
#[derive(Debug)]
pub(super) enum Step {
    /// Write this message.
    Send(Arc<Message>),
    /// Do nothing before this instant.
    Wait(Instant),
    /// Do nothing until a message is offered.
    Idle,
}

/// The acknowledged lane.
#[derive(Debug)]
pub(super) struct AckLane {
    /// How long to wait for an acknowledgement before the message is sent again.
    ack_timeout: Duration,
    order: VecDeque<DeliveryKey>,
    /// Messages that have used up their attempts; they are sent when nothing else waits, or in between.
    exhausted: VecDeque<DeliveryKey>,
    pending: HashMap<DeliveryKey, Delivery>,
    in_flight: Option<InFlight>,
}

impl AckLane {
    /// Creates an empty lane that sends a message again if it is not acknowledged within `ack_timeout`.
    pub(super) fn new(ack_timeout: Duration) -> Self {
        let (order, exhausted) = (VecDeque::new(), VecDeque::new());
        Self {
            ack_timeout,
            order,
            exhausted,
            pending: HashMap::default(),
            in_flight: None,
        }
    }

    /// Adds a message. An older revision of the same object is dropped; a pending deletion is never replaced.
    pub(super) fn offer(&mut self, delivery: Delivery) {
        if self.is_superseded(&delivery) {
            return;
        }
        let key = delivery.key.clone();
        if self.pending.insert(key.clone(), delivery).is_none() {
            self.order.push_back(key);
        }
    }

    fn is_superseded(&self, delivery: &Delivery) -> bool {
        let waiting = self.pending.get(&delivery.key);
        let flying = self
            .in_flight
            .as_ref()
            .map(|in_flight| &in_flight.delivery)
            .filter(|flying| flying.key == delivery.key);
        waiting.into_iter().chain(flying).any(|other| {
            match (other.is_delete(), delivery.is_delete()) {
                (true, _) => true,
                (false, true) => false,
                (false, false) => other.revision >= delivery.revision,
            }
        })
    }

    /// Returns the next action. A message that has used up its attempts goes to the back, and then gets one attempt at a time while
    /// others wait.
    pub(super) fn step(&mut self, now: Instant) -> Step {
        if let Some(in_flight) = &mut self.in_flight {
            let again = in_flight.sent + self.ack_timeout;
            if now < again {
                return Step::Wait(again);
            }
            let attempts = if in_flight.exhausted && !self.order.is_empty() {
                1
            } else {
                ATTEMPTS
            };
            if in_flight.attempts < attempts {
                in_flight.attempts += 1;
                in_flight.sent = now;
                return Step::Send(Arc::clone(&in_flight.delivery.message));
            }
            if let Some(in_flight) = self.in_flight.take() {
                self.requeue(in_flight.delivery);
            }
        }
        while let Some((key, exhausted)) = self.next() {
            if let Some(delivery) = self.pending.remove(&key) {
                let message = Arc::clone(&delivery.message);
                self.in_flight = Some(InFlight {
                    delivery,
                    sent: now,
                    attempts: 1,
                    exhausted,
                });
                return Step::Send(message);
            }
        }
        Step::Idle
    }

    fn next(&mut self) -> Option<(DeliveryKey, bool)> {
        let fresh = self.order.pop_front().map(|key| (key, false));
        fresh.or_else(|| self.exhausted.pop_front().map(|key| (key, true)))
    }

    /// Reports whether the message on the wire is being repeated, so that others should be offered.
    pub(super) fn is_repeating(&self) -> bool {
        self.in_flight
            .as_ref()
            .is_some_and(|in_flight| in_flight.exhausted || in_flight.attempts > 1)
    }

    fn requeue(&mut self, delivery: Delivery) {
        if !self.pending.contains_key(&delivery.key) {
            self.exhausted.push_back(delivery.key.clone());
            self.pending.insert(delivery.key.clone(), delivery);
        }
    }

    /// Handles the acknowledgement of `msg_id`. Returns the delivery if it was on the wire; duplicate and late ones are ignored.
    pub(super) fn acknowledge(&mut self, msg_id: &str) -> Option<Delivery> {
        self.in_flight
            .take_if(|in_flight| in_flight.delivery.message.header.msg_id == msg_id)
            .map(|in_flight| in_flight.delivery)
    }

    /// Returns how many messages wait or are on the wire.
    pub(super) fn len(&self) -> usize {
        self.pending.len() + usize::from(self.in_flight.is_some())
    }
}

#[cfg(test)]
mod tests;
