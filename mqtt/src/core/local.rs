//! Publications and subscriptions of this process, without a socket.

use std::sync::Arc;

use tokio::sync::mpsc::error::TrySendError;

use super::{
    Core,
    command::Done,
    local_receiver::{Delivery, LocalReceiver},
};
use crate::{
    confirmation::Delivered,
    counters::Counters,
    index::{IndexEntry, Subscriber},
    message::{Message, QoS},
    topic,
};

impl Core {
    /// Publishes a message of this process; above QoS 0 it waits like those of clients.
    pub(super) fn publish_local(&mut self, message: Message, done: Option<Done>) {
        match done {
            Some(done) if self.is_held_local(&message.topic) || self.must_wait(&message, None) => {
                self.hold_local(message, done);
            }
            done => {
                self.accept(&Arc::new(message), None);
                self.answers.extend(done.map(|done| (done, Ok(()))));
            }
        }
    }

    /// Subscribes for this process, and returns the receiver's id.
    pub(super) fn subscribe_local(
        &mut self,
        filter: String,
        receiver: Delivery,
        confirms: bool,
    ) -> u64 {
        let id = self.new_id();
        self.locals.insert(
            id,
            LocalReceiver {
                filters: Vec::new(),
                receiver,
                confirms,
            },
        );
        self.add_local(id, filter);
        id
    }

    /// Adds a filter to a receiver; retained messages come first. A message that several of its filters match is delivered once.
    pub(super) fn add_local(&mut self, id: u64, filter: String) {
        // The handle has validated the filter.
        let Ok(parsed) = topic::parse_filter(&filter) else {
            return;
        };
        let Some(local) = self
            .locals
            .get_mut(&id)
            .filter(|local| !local.filters.contains(&filter))
        else {
            return;
        };
        let entry = IndexEntry {
            who: Subscriber::Local(id),
            qos: QoS::ExactlyOnce,
            no_local: false,
            retain_as_published: true,
            subscription_id: None,
        };
        self.index.insert(parsed, entry);
        let retained = if parsed.share.is_none() {
            self.retained.matching(parsed.filter)
        } else {
            Vec::new()
        };
        local.filters.push(filter);
        let now = self.now;
        for message in retained.iter().filter(|message| !message.is_expired(now)) {
            self.hand_over(id, message);
        }
    }

    /// Removes a filter from a receiver.
    pub(super) fn remove_local(&mut self, id: u64, filter: &str) {
        let Some(local) = self.locals.get_mut(&id) else {
            return;
        };
        local.filters.retain(|heard| heard != filter);
        if let Ok(parsed) = topic::parse_filter(filter) {
            self.index.remove(parsed, Subscriber::Local(id));
        }
    }

    /// Delivers a message to a receiver, which is removed if its last owner has dropped it.
    pub(super) fn hand_over(&mut self, id: u64, message: &Arc<Message>) {
        let Some(local) = self.locals.get(&id) else {
            return;
        };
        let sent = local.receiver.try_reserve().map(|room| {
            Counters::count(&self.counters.sent);
            let confirming = self.confirming.as_mut().filter(|_| local.confirms);
            let confirmation = confirming.map(|confirming| {
                confirming.receivers += 1;
                self.confirmations.of(confirming.token)
            });
            room.send(Delivered {
                message: Arc::clone(message),
                confirmation,
            });
        });
        match sent {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => Counters::count(&self.counters.dropped),
            Err(TrySendError::Closed(_)) => {
                let Some(local) = self.locals.remove(&id) else {
                    return;
                };
                for filter in local
                    .filters
                    .iter()
                    .filter_map(|filter| topic::parse_filter(filter).ok())
                {
                    self.index.remove(filter, Subscriber::Local(id));
                }
            }
        }
    }
}
