//! Older versions of objects, sent once more after newer ones. Pure.

use std::collections::VecDeque;

use rand::{Rng, SeedableRng, rngs::StdRng};
use wire::{Message, Operation};

/// How many messages are remembered.
const MAX_REMEMBERED: usize = 64;

/// The messages that were sent last.
#[derive(Debug)]
pub(crate) struct StaleMessages {
    chance: StdRng,
    sent: VecDeque<Message>,
}

impl StaleMessages {
    /// Creates an empty memory.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            chance: StdRng::seed_from_u64(seed),
            sent: VecDeque::new(),
        }
    }

    /// Remembers `message`. With probability `part`, returns an older version of its object to be sent after it.
    pub(crate) fn after(&mut self, message: &Message, part: f64) -> Option<Message> {
        let drawn: f64 = self.chance.random();
        if !carries_state(message) {
            return None;
        }
        let resource = message.route.resource.as_str();
        let place = self
            .sent
            .iter()
            .position(|older| older.route.resource.as_str() == resource);
        // the first version is kept: the older, the harder to handle
        let older = match place {
            Some(place) => self
                .sent
                .get(place)
                .filter(|older| is_older(older, message))
                .cloned(),
            None => {
                self.sent.truncate(MAX_REMEMBERED - 1);
                self.sent.push_front(message.clone());
                None
            }
        };
        let older = older.filter(|_| drawn < part)?;
        let header = wire::Header {
            msg_id: Message::new_id(),
            ..older.header.clone()
        };
        Some(Message { header, ..older })
    }
}

/// Reports whether a message carries the state of an object.
fn carries_state(message: &Message) -> bool {
    message.header.parent_msg_id.is_empty()
        && matches!(
            message.route.operation,
            Operation::Insert | Operation::Update | Operation::Delete
        )
}

fn is_older(older: &Message, newer: &Message) -> bool {
    older.header.msg_id != newer.header.msg_id && older.content != newer.content
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::{Change, Downstream, ResourceType};

    use super::*;

    fn message(change: Change, name: &str, revision: u64) -> Message {
        let object = json!({"metadata": {"name": name, "resourceVersion": revision.to_string()}});
        Downstream::put(change, "default", &ResourceType::Pod, name, object).into_message(0)
    }

    fn revision(message: Option<Message>) -> Option<String> {
        message.map(|message| {
            message.content["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .to_owned()
        })
    }

    #[test]
    fn a_newer_version_is_followed_by_the_first() {
        let mut stale = StaleMessages::new(1);
        assert_eq!(stale.after(&message(Change::Insert, "a", 1), 1.0), None);
        assert_eq!(stale.after(&message(Change::Insert, "b", 2), 1.0), None);
        assert_eq!(
            revision(stale.after(&message(Change::Update, "a", 3), 1.0)).as_deref(),
            Some("1")
        );
        assert_eq!(
            revision(stale.after(&message(Change::Delete, "a", 4), 1.0)).as_deref(),
            Some("1")
        );
        assert_eq!(stale.after(&message(Change::Update, "a", 5), 0.0), None);
    }

    #[test]
    fn a_repetition_is_no_newer_version_and_has_an_id_of_its_own() {
        let mut stale = StaleMessages::new(1);
        let first = message(Change::Insert, "a", 1);
        stale.after(&first, 1.0);
        assert_eq!(stale.after(&first, 1.0), None);
        let again = stale.after(&message(Change::Update, "a", 2), 1.0).unwrap();
        assert_ne!(again.header.msg_id, first.header.msg_id);
    }

    #[test]
    fn little_is_remembered() {
        let mut stale = StaleMessages::new(1);
        for number in 0..1000 {
            stale.after(&message(Change::Insert, &number.to_string(), number), 1.0);
        }
        assert_eq!(stale.sent.len(), MAX_REMEMBERED);
    }
}
