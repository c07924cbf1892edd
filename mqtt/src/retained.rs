//! Retained messages, within limits.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::Arc,
};

use crate::{holder::Holder, message::Message, topic};

/// The retained messages by topic.
#[derive(Debug)]
pub(crate) struct Retained {
    messages: BTreeMap<Arc<str>, Entry>,
    bytes: usize,
    max_messages: usize,
    max_bytes: usize,
    /// What each client has published of them: messages and bytes.
    clients: HashMap<Holder, (usize, usize)>,
}

/// A retained message, and the client whose quota it counts against.
#[derive(Debug)]
struct Entry {
    message: Arc<Message>,
    holder: Option<Holder>,
}

impl Retained {
    /// Creates an empty store with these limits.
    pub(crate) fn new(max_messages: usize, max_bytes: usize) -> Self {
        Self {
            messages: BTreeMap::new(),
            bytes: 0,
            max_messages,
            max_bytes,
            clients: HashMap::new(),
        }
    }

    /// Retains `message` of a client in place of an earlier one. Returns false, and keeps the earlier one, if there is no room: one client
    /// may have three quarters of it.
    pub(crate) fn keep(&mut self, message: Arc<Message>, holder: Option<Holder>) -> bool {
        let old = self.messages.get(&message.topic);
        let (old_count, old_bytes) = old.map_or((0, 0), |old| (1, old.message.weight()));
        let bytes = self.bytes - old_bytes + message.weight();
        let count = self.messages.len() - old_count + 1;
        if bytes > self.max_bytes || count > self.max_messages {
            return false;
        }
        if let Some(holder) = &holder {
            let (count, bytes) = self.clients.get(holder).copied().unwrap_or_default();
            let is_own = old.is_some_and(|old| old.holder.as_ref() == Some(holder));
            let (old_count, old_bytes) = if is_own {
                (old_count, old_bytes)
            } else {
                (0, 0)
            };
            let bytes = bytes - old_bytes + message.weight();
            if bytes > self.max_bytes / 4 * 3
                || count - old_count + 1 > self.max_messages.div_ceil(4) * 3
            {
                return false;
            }
        }
        self.forget(&message.topic);
        self.bytes += message.weight();
        if let Some(holder) = &holder {
            let (count, bytes) = self.clients.entry(holder.clone()).or_default();
            (*count, *bytes) = (*count + 1, *bytes + message.weight());
        }
        self.messages
            .insert(Arc::clone(&message.topic), Entry { message, holder });
        true
    }

    /// Removes the retained message of `topic`; returns false if there was none.
    pub(crate) fn forget(&mut self, topic: &str) -> bool {
        let Some(Entry { message, holder }) = self.messages.remove(topic) else {
            return false;
        };
        self.bytes -= message.weight();
        if let Some(holder) = holder
            && let Some((count, bytes)) = self.clients.get_mut(&holder)
        {
            (*count, *bytes) = (*count - 1, *bytes - message.weight());
            if *count == 0 {
                self.clients.remove(&holder);
            }
        }
        true
    }

    /// Returns the retained messages that `filter` (without a share) matches.
    pub(crate) fn matching(&self, filter: &str) -> Vec<Arc<Message>> {
        let prefix = topic::literal_prefix(filter);
        let from = self
            .messages
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.take_while(|(topic, _)| topic.starts_with(prefix))
            .filter(|(topic, _)| topic::filter_matches(filter, topic))
            .map(|(_, entry)| Arc::clone(&entry.message))
            .collect()
    }

    /// Returns the topics whose message has expired.
    pub(crate) fn expired_topics(&self, now: u64) -> Vec<Arc<str>> {
        let over = self
            .messages
            .values()
            .filter(|entry| entry.message.is_expired(now));
        over.map(|entry| Arc::clone(&entry.message.topic)).collect()
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
        Arc::new(Message::new(
            topic.into(),
            Bytes::from_static(payload.as_bytes()),
            QoS::AtMostOnce,
            true,
        ))
    }

    #[test]
    fn a_later_message_replaces_an_earlier_one_within_the_bounds() {
        let mut retained = Retained::new(2, 400);
        assert!(retained.keep(message("a", "1"), None) && retained.keep(message("a", "2"), None));
        assert!(retained.keep(message("b", "3"), None));
        assert!(!retained.keep(message("c", "4"), None), "two messages");
        assert!(
            !retained.keep(
                message("b", Box::leak("x".repeat(400).into_boxed_str())),
                None
            ),
            "400 bytes"
        );
        assert_eq!(
            retained.matching("#"),
            [message("a", "2"), message("b", "3")]
        );
        assert!(retained.forget("a") && !retained.forget("a"));
        assert!(retained.forget("b"));
        assert_eq!((retained.bytes, retained.len()), (0, 0));
    }

    #[test]
    fn a_filter_finds_its_own() {
        let mut retained = Retained::new(10, 10_000);
        for topic in ["a", "a/b", "a/c", "ab", "$hw/a"] {
            retained.keep(message(topic, "x"), None);
        }
        let found = |filter| {
            retained
                .matching(filter)
                .iter()
                .map(|m| m.topic.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(found("a/#"), ["a", "a/b", "a/c"]);
        assert_eq!(found("a/+"), ["a/b", "a/c"]);
        assert_eq!(found("+"), ["a", "ab"]);
        assert_eq!(found("$hw/#"), ["$hw/a"]);
    }

    #[test]
    fn one_client_may_have_three_quarters_of_the_retained_messages() {
        let [ann, eve] = ["ann", "eve"].map(|user| Some(Holder::User(user.into())));
        let mut retained = Retained::new(8, 100_000);
        let topics: Vec<String> = (0..8).map(|number| format!("t/{number}")).collect();
        let kept = topics
            .iter()
            .filter(|topic| retained.keep(message(topic, "x"), ann.clone()))
            .count();
        assert_eq!(kept, 6);
        assert!(
            retained.keep(message("t/0", "y"), ann.clone()),
            "in the place of its own"
        );
        assert!(
            retained.keep(message("t/0", "z"), eve.clone()),
            "another client takes the topic over"
        );
        assert!(
            retained.keep(message("t/6", "x"), ann.clone())
                && !retained.keep(message("t/7", "x"), ann)
        );
        assert!(
            retained.keep(message("t/7", "x"), None),
            "this process has no quota"
        );
        for topic in topics {
            retained.forget(&topic);
        }
        assert_eq!(
            (retained.bytes, retained.len(), retained.clients.len()),
            (0, 0, 0)
        );
        let mut bytes = Retained::new(100, 1000);
        assert!(!bytes.keep(
            message("t", Box::leak("x".repeat(760).into_boxed_str())),
            eve
        ));
    }
}
