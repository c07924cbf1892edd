//! Handles PUBLISH: the message is accepted once, retained if requested, and delivered to the subscribers.

use std::sync::Arc;

use super::{Core, command::Flow, deliver::Delivery, kept::ENTRY_BYTES, unconfirmed::Confirming};
use crate::{
    codec::{Publish, Version, encode::AckKind},
    counters::Counters,
    holder::Holder,
    index::{IndexEntry, Subscriber},
    message::{Message, QoS},
    reason::{Fault, Reason},
};

impl Core {
    /// Handles a client's PUBLISH.
    pub(super) fn publish(&mut self, id: u64, publish: &Publish) -> Result<Flow, Fault> {
        let topic = self.resolve(id, publish)?;
        let Some(session) = self.sessions.get(&id) else {
            return Ok(Flow::Done);
        };
        let who = session.who.clone();
        if publish.qos == QoS::ExactlyOnce {
            if session.incoming.contains(&publish.id) {
                self.answer_publish(id, AckKind::Rec, publish.id, Reason::Success);
                return Ok(Flow::Done);
            }
            if self.is_unconfirmed(id, publish.id) {
                return Ok(Flow::Done);
            }
            if self.waits_for_release(id, publish) {
                return Ok(Flow::Wait);
            }
            if self.open_messages(id) >= usize::from(self.limits.receive_maximum) {
                return Err(Fault::new(
                    Reason::ReceiveMaximumExceeded,
                    "more QoS 2 messages open than allowed",
                ));
            }
        }
        if !self.access.may_publish(&who, &topic) {
            Counters::count(&self.counters.refused);
            tracing::debug!(client = %who.client, %topic, "publication refused");
            self.acknowledge(id, publish, Reason::NotAuthorized);
            return Ok(Flow::Done);
        }
        let message = Arc::new(publish.message(topic, self.now));
        if publish.qos > QoS::AtMostOnce && self.must_wait(&message, Some(id)) {
            return Ok(Flow::Wait);
        }
        if publish.qos > QoS::AtMostOnce {
            self.confirming = Some(Confirming {
                token: self.new_id(),
                receivers: 0,
            });
        }
        let heard = self.accept(&message, Some(id));
        let reason = if heard {
            Reason::Success
        } else {
            Reason::NoMatchingSubscribers
        };
        match self
            .confirming
            .take()
            .filter(|confirming| confirming.receivers > 0)
        {
            Some(confirming) => self.acknowledge_later(id, publish, &confirming, reason),
            None => self.acknowledge(id, publish, reason),
        }
        Ok(Flow::Done)
    }

    /// Reports whether a QoS 2 message must wait until the client releases one of its open ones. A 3.1.1 client is not told how many it may
    /// have open; an MQTT 5 client is told and must obey.
    pub(super) fn waits_for_release(&self, id: u64, publish: &Publish) -> bool {
        let most = usize::from(self.limits.receive_maximum);
        publish.qos == QoS::ExactlyOnce
            && self.version(id) == Version::V311
            && self.open_messages(id) >= most
            && self.sessions.get(&id).is_some_and(|session| {
                !session.incoming.contains(&publish.id)
                    && !session.unconfirmed.contains_key(&publish.id)
            })
    }

    /// Returns the number of QoS 2 messages of a client that are not released.
    fn open_messages(&self, id: u64) -> usize {
        self.sessions.get(&id).map_or(0, |session| {
            session.incoming.len() + session.unconfirmed.len()
        })
    }

    /// Returns the topic, from its name or its alias.
    pub(super) fn resolve(&mut self, id: u64, publish: &Publish) -> Result<Arc<str>, Fault> {
        let Some(alias) = publish.alias else {
            return Ok(Arc::clone(&publish.topic));
        };
        let invalid = |said| Fault::new(Reason::TopicAliasInvalid, said);
        if alias > self.limits.topic_aliases {
            return Err(invalid("a topic alias higher than allowed"));
        }
        let connection = self
            .sessions
            .get_mut(&id)
            .and_then(|session| session.connection.as_mut());
        let Some(connection) = connection else {
            return Ok(Arc::clone(&publish.topic));
        };
        if publish.topic.is_empty() {
            return connection
                .aliases_in
                .get(&alias)
                .cloned()
                .ok_or(Fault::protocol("an unknown topic alias"));
        }
        let old = connection
            .aliases_in
            .get(&alias)
            .map_or(0, |topic| topic.len() + ENTRY_BYTES);
        let new = publish.topic.len() + ENTRY_BYTES;
        if new > old && !self.has_room_to_keep(id, new - old) {
            return Err(Fault::new(
                Reason::QuotaExceeded,
                "the client's quota of topic aliases and wills is used up",
            ));
        }
        let connection = self
            .sessions
            .get_mut(&id)
            .and_then(|session| session.connection.as_mut());
        if let Some(connection) = connection {
            connection
                .aliases_in
                .insert(alias, Arc::clone(&publish.topic));
            connection.alias_bytes = connection.alias_bytes - old + new;
        }
        self.recount(id);
        Ok(Arc::clone(&publish.topic))
    }

    /// Sends PUBACK or PUBREC. An accepted QoS 2 message is remembered until it is released; a refused one is finished.
    fn acknowledge(&mut self, id: u64, publish: &Publish, reason: Reason) {
        match publish.qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => self.answer_publish(id, AckKind::Ack, publish.id, reason),
            QoS::ExactlyOnce => {
                // 3.1.1 cannot refuse: its client continues with PUBREL, and the identifier must be known then.
                let over = reason.code() >= 0x80 && self.version(id) == Version::V5;
                if !over {
                    self.remember(id, publish.id);
                }
                self.answer_publish(id, AckKind::Rec, publish.id, reason);
            }
        }
    }

    /// Remembers a QoS 2 message until its client releases it.
    pub(super) fn remember(&mut self, id: u64, packet: u16) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.incoming.insert(packet);
        if session.durable {
            let key = (Arc::clone(&session.who.client), packet);
            self.changes.incoming.insert(key, true);
            self.changes.urgent = true;
        }
    }

    /// Retains and routes a message; returns false if it has no subscriber.
    pub(super) fn accept(&mut self, message: &Arc<Message>, from: Option<u64>) -> bool {
        let session = from.and_then(|id| self.sessions.get(&id));
        let holder = session
            .filter(|_| message.retain)
            .and_then(|session| session.holder.clone());
        self.accept_of(message, from, holder)
    }

    /// The same, where a retained message counts against the quota of `holder`.
    pub(super) fn accept_of(
        &mut self,
        message: &Arc<Message>,
        from: Option<u64>,
        holder: Option<Holder>,
    ) -> bool {
        Counters::count(&self.counters.received);
        if message.retain {
            self.retain(message, holder);
        }
        self.route(message, from)
    }

    fn retain(&mut self, message: &Arc<Message>, holder: Option<Holder>) {
        if message.payload.is_empty() {
            return self.forget_retained(&message.topic);
        }
        if !self.retained.keep(Arc::clone(message), holder) {
            Counters::count(&self.counters.refused);
            tracing::warn!(topic = %message.topic, "cannot retain a message: limit reached; raise the limit or delete retained messages");
            return;
        }
        if message.expires.is_some() {
            self.timers.sweep(self.now);
        }
        if self.durable {
            self.changes
                .retained
                .insert(Arc::clone(&message.topic), Some(Arc::clone(message)));
            self.changes.urgent |= message.qos > QoS::AtMostOnce;
        }
    }

    /// Removes the retained message of `topic`.
    pub(super) fn forget_retained(&mut self, topic: &str) {
        if self.retained.forget(topic) && self.durable {
            self.changes.retained.insert(topic.into(), None);
            self.changes.urgent = true;
        }
    }

    fn route(&mut self, message: &Arc<Message>, from: Option<u64>) -> bool {
        let mut found = std::mem::take(&mut self.found);
        self.index.find(&message.topic, &mut found);
        let heard = !found.each.is_empty() || !found.groups.is_empty();
        let publisher = from.map(Subscriber::Session);
        found
            .each
            .retain(|entry| !(entry.no_local && publisher == Some(entry.who)));
        found.each.sort_unstable_by_key(|entry| entry.who);
        for entries in found.each.chunk_by(|a, b| a.who == b.who) {
            self.give(message, entries);
        }
        for group in &found.groups {
            let chosen = self.choose(group, message);
            self.give(message, &group[chosen..=chosen]);
        }
        found.each.clear();
        found.groups.clear();
        self.found = found;
        heard
    }

    /// Delivers one copy to one subscriber, whose matching subscriptions are `entries`: with the highest QoS and all identifiers.
    fn give(&mut self, message: &Arc<Message>, entries: &[IndexEntry]) {
        let Some(first) = entries.first() else { return };
        match first.who {
            Subscriber::Local(id) => self.hand_over(id, message),
            Subscriber::Session(id) => {
                let qos = entries
                    .iter()
                    .map(|entry| entry.qos)
                    .max()
                    .unwrap_or(first.qos);
                let ids: Vec<u32> = entries
                    .iter()
                    .filter_map(|entry| entry.subscription_id)
                    .collect();
                let delivery = Delivery {
                    message,
                    qos: qos.min(message.qos),
                    retain: message.retain && entries.iter().any(|entry| entry.retain_as_published),
                    subscription_ids: &ids,
                    regardless: false,
                };
                self.deliver(id, &delivery);
            }
        }
    }

    /// Chooses the next member of a shared subscription: a connected one with room, otherwise one with room, if there is one.
    fn choose(&mut self, group: &[IndexEntry], message: &Message) -> usize {
        self.shared_turn = self.shared_turn.wrapping_add(1);
        let turns =
            (0..group.len()).map(|step| (self.shared_turn.wrapping_add(step)) % group.len());
        let ready = |position: &usize| match group[*position].who {
            Subscriber::Local(_) => true,
            Subscriber::Session(id) => self.sessions.get(&id).is_some_and(|session| {
                session
                    .connection
                    .as_ref()
                    .is_some_and(|connection| !connection.is_full(&self.limits))
                    && !session.is_full(message.weight(), &self.limits)
            }),
        };
        let room = |position: &usize| match group[*position].who {
            Subscriber::Local(_) => true,
            Subscriber::Session(id) => self
                .sessions
                .get(&id)
                .is_some_and(|session| !session.is_full(message.weight(), &self.limits)),
        };
        let mut chosen = turns
            .clone()
            .find(ready)
            .or_else(|| turns.clone().find(room))
            .into_iter()
            .chain(turns);
        chosen.next().unwrap_or(0)
    }
}
