//! Retained messages, within limits.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use crate::{message::Message, topic};

/// The retained messages by topic.
#[derive(Debug)]
pub(crate) struct Retained {
    messages: BTreeMap<Arc<str>, Arc<Message>>,
    bytes: usize,
    max_messages: usize,
    max_bytes: usize,
}

impl Retained {
    /// Creates an empty store with these limits.
    pub(crate) fn new(max_messages: usize, max_bytes: usize) -> Self {
        Self { messages: BTreeMap::new(), bytes: 0, max_messages, max_bytes }
    }

    /// Retains `message` in place of an earlier one. Returns false, and keeps the earlier one, if there is no room.
    pub(crate) fn keep(&mut self, message: Arc<Message>) -> bool {
        let old = self.messages.get(&message.topic).map(|old| old.weight());
        let bytes = self.bytes - old.unwrap_or(0) + message.weight();
        let count = self.messages.len() + usize::from(old.is_none());
        if bytes > self.max_bytes || count > self.max_messages {
            return false;
        }
        self.bytes = bytes;
        self.messages.insert(Arc::clone(&message.topic), message);
        true
    }

    /// Removes the retained message of `topic`; returns false if there was none.
    pub(crate) fn forget(&mut self, topic: &str) -> bool {
        let old = self.messages.remove(topic);
        self.bytes -= old.as_ref().map_or(0, |old| old.weight());
        old.is_some()
    }

    /// Returns the retained messages that `filter` (without a share) matches.
    pub(crate) fn matching(&self, filter: &str) -> Vec<Arc<Message>> {
        let prefix = topic::literal_prefix(filter);
        let from = self.messages.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.take_while(|(topic, _)| topic.starts_with(prefix))
            .filter(|(topic, _)| topic::filter_matches(filter, topic))
            .map(|(_, message)| Arc::clone(message))
            .collect()
    }

    /// Returns the topics whose message has expired.
    pub(crate) fn expired(&self, now: u64) -> Vec<Arc<str>> {
        let over = self.messages.values().filter(|message| message.expired(now));
        over.map(|message| Arc::clone(&message.topic)).collect()
    }

    /// Returns the number of retained messages.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::message::QoS;

    fn message(topic: &str, payload: &'static str) -> Arc<Message> {
        Arc::new(Message::new(topic.into(), Bytes::from_static(payload.as_bytes()), QoS::AtMostOnce, true))
    }

    #[test]
    fn a_later_message_replaces_an_earlier_one_within_the_bounds() {
        let mut retained = Retained::new(2, 400);
        assert!(retained.keep(message("a", "1")) && retained.keep(message("a", "2")));
        assert!(retained.keep(message("b", "3")));
        assert!(!retained.keep(message("c", "4")), "two messages");
        assert!(!retained.keep(message("b", Box::leak("x".repeat(400).into_boxed_str()))), "400 bytes");
        assert_eq!(retained.matching("#"), [message("a", "2"), message("b", "3")]);
        assert!(retained.forget("a") && !retained.forget("a"));
        assert!(retained.forget("b"));
        assert_eq!((retained.bytes, retained.len()), (0, 0));
    }

    #[test]
    fn a_filter_finds_its_own() {
        let mut retained = Retained::new(10, 10_000);
        for topic in ["a", "a/b", "a/c", "ab", "$hw/a"] {
            retained.keep(message(topic, "x"));
        }
        let found =
            |filter| retained.matching(filter).iter().map(|m| m.topic.to_string()).collect::<Vec<_>>();
        assert_eq!(found("a/#"), ["a", "a/b", "a/c"]);
        assert_eq!(found("a/+"), ["a/b", "a/c"]);
        assert_eq!(found("+"), ["a", "ab"]);
        assert_eq!(found("$hw/#"), ["$hw/a"]);
    }
}
