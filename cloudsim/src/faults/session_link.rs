//! The link of one session: its present conditions, and its two directions. No I/O; the time is an argument.

use clock::Instant;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use wire::{Message, Up, Upstream};

use super::{
    Arrival, Conditions, Direction, Faults, Injection, Link, LinkState, link_queue::LinkQueue,
    stale::StaleMessages,
};

/// When the last of the messages arrives that were in flight when the faults ended: a throttle may have delayed them for hours.
const LATEST_ARRIVAL: Duration = Duration::from_secs(1);

/// Returns the two directions of a new session of `node`: towards the cloud, and from it.
pub(crate) fn session_link(faults: &Faults, node: &str) -> (Uplink, Downlink) {
    let number = faults.begin(node);
    let seed = |direction: &str| {
        let mut hasher = DefaultHasher::new();
        (faults.0.seed, node, number, direction).hash(&mut hasher);
        hasher.finish()
    };
    let uplink = Uplink {
        faults: faults.clone(),
        node: node.to_owned(),
        queue: LinkQueue::new(seed("up")),
    };
    let downlink = Downlink {
        faults: faults.clone(),
        node: node.to_owned(),
        number,
        queue: LinkQueue::new(seed("down")),
        stale: StaleMessages::new(seed("stale")),
    };
    (uplink, downlink)
}

/// The direction from the node to the cloud.
#[derive(Debug)]
pub(crate) struct Uplink {
    faults: Faults,
    node: String,
    queue: LinkQueue<Message>,
}

impl Uplink {
    /// Returns the state of the link.
    pub(crate) fn link_state(&self, now: Instant) -> LinkState {
        LinkState::of(self.faults.on(&self.node).as_ref(), now)
    }

    /// Takes a message from the socket. Returns it if there are no faults; otherwise it is queued or lost.
    pub(crate) fn offer(&mut self, message: Message, size: usize, now: Instant) -> Option<Message> {
        let Some(set) = self.faults.on(&self.node) else {
            if self.queue.len() == 0 {
                return Some(message);
            }
            // messages that were queued under a fault come first
            self.queue.hasten(now + LATEST_ARRIVAL);
            self.queue.offer(&Conditions::default(), size, message, now);
            return None;
        };
        if LinkState::of(Some(&set), now).link != Link::Up {
            return None;
        }
        let mut message = message;
        let conditions = set.of_message(Direction::ToCloud, &message);
        let refuses = conditions.refuse_acknowledgements == Some(true);
        if !refuses || !is_acknowledgement(&message) {
            if let Some(skew) = conditions.clock_skew {
                skew.shift(&mut message);
            }
            self.queue.offer(&conditions, size, message, now);
        }
        None
    }

    /// Takes the next message that has arrived.
    pub(crate) fn next_arrived(&mut self, now: Instant) -> Option<Arrival> {
        self.queue.take(now)
    }

    /// Returns when the next message arrives.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.queue.due()
    }

    /// Drops all queued messages.
    pub(crate) fn lose(&mut self) {
        self.queue.clear();
    }
}

/// The direction from the cloud to the node.
#[derive(Debug)]
pub(crate) struct Downlink {
    faults: Faults,
    node: String,
    number: u64,
    queue: LinkQueue<Message>,
    stale: StaleMessages,
}

impl Downlink {
    /// Returns whether the message can be written now because there are no faults; otherwise it is queued or lost.
    pub(crate) fn passes(&mut self, message: &Message, size: usize, now: Instant) -> bool {
        let Some(set) = self.faults.on(&self.node) else {
            if self.queue.len() == 0 {
                return true;
            }
            self.queue.hasten(now + LATEST_ARRIVAL);
            self.queue
                .offer(&Conditions::default(), size, message.clone(), now);
            return false;
        };
        if LinkState::of(Some(&set), now).link != Link::Up {
            return false;
        }
        let conditions = set.of_message(Direction::ToNode, message);
        let refuses = conditions.refuse_answers == Some(true);
        if !refuses || message.header.parent_msg_id.is_empty() {
            self.queue.offer(&conditions, size, message.clone(), now);
            let older = conditions
                .stale
                .and_then(|part| self.stale.after(message, part));
            if let Some(older) = older {
                self.queue.offer(&conditions, size, older, now);
            }
        }
        false
    }

    /// Takes the next message that has arrived.
    pub(crate) fn next_arrived(&mut self, now: Instant) -> Option<Arrival> {
        if LinkState::of(self.faults.on(&self.node).as_ref(), now).link != Link::Up {
            self.queue.clear();
        }
        self.queue.take(now)
    }

    /// Returns when the next message arrives.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.queue.due()
    }

    /// Takes the next hostile message.
    pub(crate) fn hostile(&mut self) -> Option<Injection> {
        self.faults.next_hostile(&self.node)
    }
}

impl Drop for Downlink {
    fn drop(&mut self) {
        self.faults.end_session(&self.node, self.number);
    }
}

fn is_acknowledgement(message: &Message) -> bool {
    matches!(Up::from(message.clone()).body, Upstream::Ack { .. })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::{Change, Downstream, ResourceType};

    use super::{super::FaultTarget, *};

    fn object(name: &str) -> Message {
        let content = json!({"metadata": {"name": name}});
        Downstream::put(Change::Update, "default", &ResourceType::Pod, name, content)
            .into_message(0)
    }

    fn set(faults: &Faults, value: serde_json::Value) {
        faults
            .set(&FaultTarget::All, serde_json::from_value(value).unwrap())
            .unwrap();
    }

    #[test]
    fn where_nothing_is_wrong_messages_pass_as_they_are() {
        let (mut up, mut down) = session_link(&Faults::new(1), "edge-1");
        let now = Instant::now();
        let message = object("a");
        assert_eq!(up.offer(message.clone(), 1, now), Some(message));
        assert!(down.passes(&object("a"), 1, now));
    }

    #[test]
    fn messages_in_flight_when_a_fault_ends_come_first_and_soon() {
        for fault in [json!({"delay": "1s"}), json!({"throttle": 1})] {
            messages_in_flight_come_first(fault);
        }
    }

    fn messages_in_flight_come_first(fault: serde_json::Value) {
        let faults = Faults::new(1);
        let (mut up, mut down) = session_link(&faults, "edge-1");
        let now = Instant::now();
        set(&faults, fault);
        assert_eq!(up.offer(object("a"), 10_000, now), None);
        assert!(!down.passes(&object("a"), 10_000, now));
        faults.clear(&FaultTarget::All);
        assert_eq!(up.offer(object("b"), 1, now), None);
        assert!(!down.passes(&object("b"), 1, now));
        assert!(up.next_arrived(now).is_none() && down.next_arrived(now).is_none());
        let later = now + Duration::from_secs(1);
        let names = [
            up.next_arrived(later),
            up.next_arrived(later),
            down.next_arrived(later),
            down.next_arrived(later),
        ];
        let names =
            names.map(|message| message.unwrap().message.content["metadata"]["name"].clone());
        assert_eq!(names, ["a", "b", "a", "b"]);
        assert!(up.offer(object("c"), 1, later).is_some() && down.passes(&object("c"), 1, later));
    }

    #[test]
    fn acknowledgements_and_answers_are_refused_and_the_rest_passes() {
        let faults = Faults::new(1);
        let (mut up, mut down) = session_link(&faults, "edge-1");
        let now = Instant::now();
        set(
            &faults,
            json!({"refuseAcknowledgements": true, "refuseAnswers": true}),
        );
        let told = object("a");
        up.offer(told.acknowledgement(0), 1, now);
        down.passes(&object("b").answering("question"), 1, now);
        assert!(up.next_arrived(now).is_none() && down.next_arrived(now).is_none());
        up.offer(Upstream::keepalive().into_message(0), 1, now);
        down.passes(&told, 1, now);
        assert!(up.next_arrived(now).is_some() && down.next_arrived(now).is_some());
    }

    #[test]
    fn faults_act_together_and_only_on_the_selected_messages() {
        let faults = Faults::new(1);
        let (mut up, mut down) = session_link(&faults, "edge-1");
        let now = Instant::now();
        for fault in [
            json!({"delay": "1s", "kinds": ["pod"]}),
            json!({"duplicate": 1.0, "direction": "toNode"}),
            json!({"clockSkew": "1h"}),
        ] {
            let conditions = serde_json::from_value(fault).unwrap();
            faults.add(&FaultTarget::All, conditions).unwrap();
        }
        down.passes(&object("a"), 1, now);
        let mut other = object("b");
        other.route.resource = "default/configmap/b".into();
        down.passes(&other, 1, now);
        let mut arrived = |at: Instant| -> Vec<String> {
            let all = std::iter::from_fn(|| down.next_arrived(at));
            all.map(|one| one.message.content["metadata"]["name"].to_string())
                .collect()
        };
        assert_eq!(arrived(now), ["\"b\"", "\"b\""]);
        assert_eq!(arrived(now + Duration::from_secs(1)), ["\"a\"", "\"a\""]);
        let keepalive = Upstream::keepalive().into_message(1000);
        up.offer(keepalive, 1, now);
        let shifted = up.next_arrived(now).unwrap().message;
        assert_eq!(shifted.header.timestamp, 3_601_000);
        assert!(up.next_arrived(now).is_none());
    }

    #[test]
    fn a_dead_link_loses_what_is_on_it() {
        let faults = Faults::new(1);
        let (up, mut down) = session_link(&faults, "edge-1");
        let now = Instant::now();
        set(&faults, json!({"delay": "1s"}));
        down.passes(&object("a"), 1, now);
        set(&faults, json!({"link": "halfOpen"}));
        assert_eq!(up.link_state(now).link, Link::HalfOpen);
        down.passes(&object("b"), 1, now);
        assert!(down.next_arrived(now + Duration::from_secs(2)).is_none());
        faults.clear(&FaultTarget::All);
        assert!(down.next_arrived(now + Duration::from_secs(2)).is_none());
    }

    #[test]
    fn stale_versions_follow_newer_ones() {
        let faults = Faults::new(1);
        let (_, mut down) = session_link(&faults, "edge-1");
        let now = Instant::now();
        set(&faults, json!({"stale": 1.0}));
        let first = object("a");
        let mut second = object("a");
        second.content["metadata"]["labels"] = json!({"new": "yes"});
        down.passes(&first, 1, now);
        down.passes(&second, 1, now);
        let seen: Vec<_> = std::iter::from_fn(|| down.next_arrived(now))
            .map(|arrival| arrival.message.content)
            .collect();
        assert_eq!(seen, [first.content.clone(), second.content, first.content]);
    }
}
