//! Handles SUBSCRIBE and UNSUBSCRIBE.

use std::sync::Arc;

use super::{Core, deliver::Delivery, kept::ENTRY_BYTES};
use crate::{
    codec::{Options, RetainHandling, Subscribe, Unsubscribe, Version, encode},
    counters::Counters,
    index::{IndexEntry, Subscriber},
    reason::{Fault, Reason},
    store::Subscription,
    topic::{self, Filter},
};

impl Core {
    /// Handles SUBSCRIBE: each filter is answered separately, and retained messages follow.
    pub(super) fn subscribe(&mut self, id: u64, subscribe: &Subscribe) -> Result<(), Fault> {
        self.check_answer(id, subscribe.filters.len())?;
        let version = self.version(id);
        let (mut codes, mut wanted) = (Vec::with_capacity(subscribe.filters.len()), Vec::new());
        for (text, options) in &subscribe.filters {
            if options.no_local && text.starts_with("$share/") {
                return Err(Fault::protocol("a shared subscription with no local"));
            }
            let subscription = Subscription {
                options: *options,
                id: subscribe.subscription_id,
            };
            match self.subscribe_one(id, text, subscription) {
                Ok(new) => {
                    codes.push(options.qos as u8);
                    if options.retained == RetainHandling::Always
                        || new && options.retained == RetainHandling::IfNew
                    {
                        wanted.push((Arc::clone(text), *options));
                    }
                }
                Err(fault) => {
                    Counters::count(&self.counters.refused);
                    tracing::debug!(filter = %text, %fault, "subscription refused");
                    codes.push(if version == Version::V5 {
                        fault.reason.code()
                    } else {
                        Reason::Unspecified.code()
                    });
                }
            }
        }
        self.write(id, |connection| {
            encode::suback(&mut connection.staged, version, subscribe.id, &codes)
        });
        for (text, options) in wanted {
            self.send_retained(id, &text, options, subscribe.subscription_id);
        }
        Ok(())
    }

    /// Checks that the client accepts a packet with a code for each of this number of filters.
    fn check_answer(&self, id: u64, filters: usize) -> Result<(), Fault> {
        let connection = self
            .sessions
            .get(&id)
            .and_then(|session| session.connection.as_ref());
        let most = connection.map_or(usize::MAX, |connection| connection.maximum_packet);
        if encode::acknowledgement_size(filters) > most {
            return Err(Fault::new(
                Reason::PacketTooLarge,
                "the answer would be larger than the client takes",
            ));
        }
        Ok(())
    }

    /// Adds or replaces one subscription; returns true if it is new.
    fn subscribe_one(
        &mut self,
        id: u64,
        text: &Arc<str>,
        subscription: Subscription,
    ) -> Result<bool, Fault> {
        let filter = topic::parse_filter(text)?;
        let most = self.limits.subscriptions;
        let Some(session) = self.sessions.get_mut(&id) else {
            return Ok(false);
        };
        if !self.access.may_subscribe(&session.who, filter.filter) {
            return Err(Fault::new(
                Reason::NotAuthorized,
                "the access rules refuse it",
            ));
        }
        if session.subscriptions.len() >= most && !session.subscriptions.contains_key(text) {
            return Err(Fault::new(
                Reason::QuotaExceeded,
                "as many subscriptions as a session may have",
            ));
        }
        let is_new = !session.subscriptions.contains_key(text);
        if is_new && !self.has_room_to_keep(id, text.len() + ENTRY_BYTES) {
            return Err(Fault::new(
                Reason::QuotaExceeded,
                "the client's quota of subscriptions and wills is used up",
            ));
        }
        let Some(session) = self.sessions.get_mut(&id) else {
            return Ok(false);
        };
        let old = session.subscribe(Arc::clone(text), subscription);
        if session.durable && old != Some(subscription) {
            let key = (Arc::clone(&session.who.client), Arc::clone(text));
            self.changes.subscriptions.insert(key, Some(subscription));
            self.changes.urgent = true;
        }
        self.recount(id);
        self.index_subscription(id, filter, subscription);
        Ok(old.is_none())
    }

    /// Adds a session's subscription to the index.
    pub(super) fn index_subscription(
        &mut self,
        id: u64,
        filter: Filter<'_>,
        subscription: Subscription,
    ) {
        let entry = IndexEntry {
            who: Subscriber::Session(id),
            qos: subscription.options.qos,
            no_local: subscription.options.no_local,
            retain_as_published: subscription.options.retain_as_published,
            subscription_id: subscription.id,
        };
        self.index.insert(filter, entry);
    }

    fn send_retained(
        &mut self,
        id: u64,
        text: &str,
        options: Options,
        subscription_id: Option<u32>,
    ) {
        let Ok(Filter {
            share: None,
            filter,
        }) = topic::parse_filter(text)
        else {
            return;
        };
        let room = self.sessions.get(&id).is_some_and(|session| {
            let behind = session
                .connection
                .as_ref()
                .is_none_or(|connection| connection.is_full(&self.limits));
            !behind && !session.is_full(0, &self.limits)
        });
        for message in self.retained.matching(filter) {
            if message.is_expired(self.now) {
                continue;
            }
            let delivery = Delivery {
                message: &message,
                qos: options.qos.min(message.qos),
                retain: true,
                subscription_ids: subscription_id.as_slice(),
                regardless: room,
            };
            self.deliver(id, &delivery);
        }
    }

    /// Handles UNSUBSCRIBE. Messages that are queued already are still delivered.
    pub(super) fn unsubscribe(&mut self, id: u64, unsubscribe: &Unsubscribe) -> Result<(), Fault> {
        self.check_answer(id, unsubscribe.filters.len())?;
        let mut codes = Vec::with_capacity(unsubscribe.filters.len());
        for text in &unsubscribe.filters {
            let Some(session) = self.sessions.get_mut(&id) else {
                return Ok(());
            };
            let Ok(filter) = topic::parse_filter(text) else {
                codes.push(Reason::TopicFilterInvalid.code());
                continue;
            };
            if !session.unsubscribe(text) {
                codes.push(Reason::NoSubscriptionExisted.code());
                continue;
            }
            codes.push(Reason::Success.code());
            if session.durable {
                let key = (Arc::clone(&session.who.client), Arc::clone(text));
                self.changes.subscriptions.insert(key, None);
                self.changes.urgent = true;
            }
            self.index.remove(filter, Subscriber::Session(id));
        }
        self.recount(id);
        self.write(id, |connection| {
            encode::unsuback(
                &mut connection.staged,
                connection.version,
                unsubscribe.id,
                &codes,
            );
        });
        Ok(())
    }
}
