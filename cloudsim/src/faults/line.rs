//! One session's link: the conditions that hold for it now, and its two ways. No IO; the time is given.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Instant,
};

use wire::{Message, Up, Upstream};

use super::{Conditions, Faults, Injection, Link, Set, stale::Stale, way::Way};

/// Whether a link stands now, and when that changes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) link: Link,
    pub(crate) until: Option<Instant>,
}

impl Standing {
    /// Of a link on which these conditions are set.
    pub(crate) fn of(set: Option<&Set>, now: Instant) -> Self {
        let (link, until) = set.map_or((Link::Up, None), |set| set.lowered.link_at(set.since, now));
        Self { link, until }
    }
}

/// The link of a session of `node` that begins now: towards the cloud, and from it.
pub(crate) fn line(faults: &Faults, node: &str) -> (Upward, Downward) {
    let number = faults.begin(node);
    let seed = |way: &str| {
        let mut hasher = DefaultHasher::new();
        (faults.0.seed, node, number, way).hash(&mut hasher);
        hasher.finish()
    };
    let upward = Upward { faults: faults.clone(), node: node.to_owned(), way: Way::new(seed("up")) };
    let downward = Downward {
        faults: faults.clone(),
        node: node.to_owned(),
        number,
        way: Way::new(seed("down")),
        stale: Stale::new(seed("stale")),
    };
    (upward, downward)
}

/// What the node says.
#[derive(Debug)]
pub(crate) struct Upward {
    faults: Faults,
    node: String,
    way: Way<Message>,
}

impl Upward {
    /// Whether the link stands.
    pub(crate) fn standing(&self, now: Instant) -> Standing {
        Standing::of(self.faults.on(&self.node).as_ref(), now)
    }

    /// A message has come out of the socket. It is given back where nothing is wrong; else it is on its way, or lost.
    pub(crate) fn offer(&mut self, message: Message, size: usize, now: Instant) -> Option<Message> {
        let Some(set) = self.faults.on(&self.node) else {
            if self.way.len() == 0 {
                return Some(message);
            }
            // what is on its way from when something was wrong comes first
            self.way.offer(&Conditions::default(), size, message, now);
            return None;
        };
        let refused = set.lowered.refuse_acknowledgements == Some(true) && is_acknowledgement(&message);
        if !refused && Standing::of(Some(&set), now).link == Link::Up {
            self.way.offer(&set.lowered, size, message, now);
        }
        None
    }

    /// The next message that has arrived.
    pub(crate) fn arrived(&mut self, now: Instant) -> Option<Message> {
        self.way.take(now)
    }

    /// When the next message arrives.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.way.due()
    }

    /// Everything on its way is lost.
    pub(crate) fn lose(&mut self) {
        self.way.clear();
    }
}

/// What the cloud says.
#[derive(Debug)]
pub(crate) struct Downward {
    faults: Faults,
    node: String,
    number: u64,
    way: Way<Message>,
    stale: Stale,
}

impl Downward {
    /// Whether the message passes now because nothing is wrong; else it is on its way, or lost.
    pub(crate) fn passes(&mut self, message: &Message, size: usize, now: Instant) -> bool {
        let Some(set) = self.faults.on(&self.node) else {
            if self.way.len() == 0 {
                return true;
            }
            self.way.offer(&Conditions::default(), size, message.clone(), now);
            return false;
        };
        let refused = set.lowered.refuse_answers == Some(true) && !message.header.parent_msg_id.is_empty();
        if !refused && Standing::of(Some(&set), now).link == Link::Up {
            self.way.offer(&set.lowered, size, message.clone(), now);
            let older = set.lowered.stale.and_then(|part| self.stale.after(message, part));
            if let Some(older) = older {
                self.way.offer(&set.lowered, size, older, now);
            }
        }
        false
    }

    /// The next message that has arrived.
    pub(crate) fn arrived(&mut self, now: Instant) -> Option<Message> {
        if Standing::of(self.faults.on(&self.node).as_ref(), now).link != Link::Up {
            self.way.clear();
        }
        self.way.take(now)
    }

    /// When the next message arrives.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.way.due()
    }

    /// The next hostile message.
    pub(crate) fn hostile(&mut self) -> Option<Injection> {
        self.faults.next_hostile(&self.node)
    }
}

impl Drop for Downward {
    fn drop(&mut self) {
        self.faults.end(&self.node, self.number);
    }
}

fn is_acknowledgement(message: &Message) -> bool {
    matches!(Up::from(message.clone()).body, Upstream::Ack { .. })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use wire::{Change, Downstream, ResourceType};

    use super::{super::Whom, *};

    fn object(name: &str) -> Message {
        let content = json!({"metadata": {"name": name}});
        Downstream::put(Change::Update, "default", &ResourceType::Pod, name, content).into_message(0)
    }

    fn set(faults: &Faults, value: serde_json::Value) {
        faults.set(&Whom::All, serde_json::from_value(value).unwrap()).unwrap();
    }

    #[test]
    fn where_nothing_is_wrong_messages_pass_as_they_are() {
        let (mut up, mut down) = line(&Faults::new(1), "edge-1");
        let now = Instant::now();
        let message = object("a");
        assert_eq!(up.offer(message.clone(), 1, now), Some(message));
        assert!(down.passes(&object("a"), 1, now));
    }

    #[test]
    fn what_is_on_its_way_when_a_fault_ends_still_comes_first() {
        let faults = Faults::new(1);
        let (mut up, mut down) = line(&faults, "edge-1");
        let now = Instant::now();
        set(&faults, json!({"delay": "1s"}));
        assert_eq!(up.offer(object("a"), 1, now), None);
        assert!(!down.passes(&object("a"), 1, now));
        faults.clear(&Whom::All);
        assert_eq!(up.offer(object("b"), 1, now), None);
        assert!(!down.passes(&object("b"), 1, now));
        assert!(up.arrived(now).is_none() && down.arrived(now).is_none());
        let later = now + Duration::from_secs(1);
        let names = [up.arrived(later), up.arrived(later), down.arrived(later), down.arrived(later)];
        let names = names.map(|message| message.unwrap().content["metadata"]["name"].clone());
        assert_eq!(names, ["a", "b", "a", "b"]);
        assert!(up.offer(object("c"), 1, later).is_some() && down.passes(&object("c"), 1, later));
    }

    #[test]
    fn acknowledgements_and_answers_are_refused_and_the_rest_passes() {
        let faults = Faults::new(1);
        let (mut up, mut down) = line(&faults, "edge-1");
        let now = Instant::now();
        set(&faults, json!({"refuseAcknowledgements": true, "refuseAnswers": true}));
        let told = object("a");
        up.offer(told.acknowledgement(0), 1, now);
        down.passes(&object("b").answering("question"), 1, now);
        assert!(up.arrived(now).is_none() && down.arrived(now).is_none());
        up.offer(Upstream::keepalive().into_message(0), 1, now);
        down.passes(&told, 1, now);
        assert!(up.arrived(now).is_some() && down.arrived(now).is_some());
    }

    #[test]
    fn a_dead_link_loses_what_is_on_it() {
        let faults = Faults::new(1);
        let (up, mut down) = line(&faults, "edge-1");
        let now = Instant::now();
        set(&faults, json!({"delay": "1s"}));
        down.passes(&object("a"), 1, now);
        set(&faults, json!({"link": "halfOpen"}));
        assert_eq!(up.standing(now).link, Link::HalfOpen);
        down.passes(&object("b"), 1, now);
        assert!(down.arrived(now + Duration::from_secs(2)).is_none());
        faults.clear(&Whom::All);
        assert!(down.arrived(now + Duration::from_secs(2)).is_none());
    }

    #[test]
    fn stale_versions_follow_newer_ones() {
        let faults = Faults::new(1);
        let (_, mut down) = line(&faults, "edge-1");
        let now = Instant::now();
        set(&faults, json!({"stale": 1.0}));
        let first = object("a");
        let mut second = object("a");
        second.content["metadata"]["labels"] = json!({"new": "yes"});
        down.passes(&first, 1, now);
        down.passes(&second, 1, now);
        let seen: Vec<_> = std::iter::from_fn(|| down.arrived(now)).map(|message| message.content).collect();
        assert_eq!(seen, [first.content.clone(), second.content, first.content]);
    }
}
