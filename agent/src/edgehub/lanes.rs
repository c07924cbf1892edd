//! What waits for the connection, in the order in which it should go. No clock, no IO.
//!
//! What keeps the node alive goes before what pods wait for, that before what is reported, and what is only told goes last. Of
//! several reports on one object only the newest waits: each holds all that the cloud has not confirmed yet.

use std::collections::VecDeque;

use wire::{Message, Operation};

use super::kind::Kind;

/// Messages that wait in one lane. A full lane makes senders wait.
const ROOM: usize = 64;

/// The lanes; the first goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// Answers to the cloud's own messages: it holds back the next of them until they have come, and sets their rate itself.
    Answer,
    /// Without it the node is given up.
    Lease,
    /// The node's own state.
    Node,
    /// Questions: a pod that starts waits for the answer.
    Query,
    /// What pods are.
    Pod,
    /// What devices and all others report.
    Report,
    /// Events: told, not promised.
    Event,
}

const LANES: usize = 7;
/// Their names in metrics, in their order.
const NAMES: [&str; LANES] = [
    "edgehub/answers",
    "edgehub/leases",
    "edgehub/node",
    "edgehub/queries",
    "edgehub/pods",
    "edgehub/reports",
    "edgehub/events",
];

impl Lane {
    /// The lane of a message.
    pub(super) fn of(message: &Message) -> Self {
        if !message.header.parent_msg_id.is_empty() {
            return Self::Answer;
        }
        match (Kind::of(message), &message.route.operation) {
            (Kind::Lease, _) => Self::Lease,
            (Kind::Node, _) => Self::Node,
            (_, Operation::Query | Operation::Get) => Self::Query,
            (Kind::Pod, _) => Self::Pod,
            (Kind::Event, _) => Self::Event,
            _ => Self::Report,
        }
    }
}

/// When the rate lets a message go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// At once; it does not count.
    Now,
    /// When the rate has room.
    Rated,
    /// When the rate has room to spare.
    Spare,
}

/// What became of an offered message.
#[derive(Debug, PartialEq)]
pub(super) enum Offered {
    /// It waits.
    Taken,
    /// It waits in the place of an older one with this id, which will not be sent.
    Instead(String),
    /// Its lane is full.
    Full(Box<Message>),
}

#[derive(Debug)]
struct Waiting {
    /// What it replaces and is replaced by; `None` for what must all be sent.
    key: Option<(Operation, String)>,
    message: Message,
}

/// The lanes with what waits in them.
#[derive(Debug, Default)]
pub(super) struct Lanes([VecDeque<Waiting>; LANES]);

impl Lanes {
    /// Takes a message, where there is room.
    pub(super) fn offer(&mut self, message: Message) -> Offered {
        let lane = &mut self.0[Lane::of(&message) as usize];
        let key = key(&message);
        if key.is_some()
            && let Some(older) = lane.iter_mut().find(|waiting| waiting.key == key)
        {
            let older = std::mem::replace(&mut older.message, message);
            return Offered::Instead(older.header.msg_id);
        }
        if lane.len() >= ROOM {
            return Offered::Full(Box::new(message));
        }
        lane.push_back(Waiting { key, message });
        Offered::Taken
    }

    /// What the next message waits for; `None`: there is none.
    pub(super) fn due(&self) -> Option<Due> {
        let first = self.0.iter().position(|lane| !lane.is_empty())?;
        Some(match first {
            answer if answer == Lane::Answer as usize => Due::Now,
            event if event == Lane::Event as usize => Due::Spare,
            _ => Due::Rated,
        })
    }

    /// The next message, with what it waited for.
    pub(super) fn take(&mut self) -> Option<(Due, Message)> {
        let due = self.due()?;
        let message = self.0.iter_mut().find_map(VecDeque::pop_front)?.message;
        Some((due, message))
    }

    /// How full they are.
    pub(super) fn queues(&self) -> Vec<crate::rt::Queue> {
        let queue = |(name, lane): (&'static str, &VecDeque<Waiting>)| crate::rt::Queue {
            name,
            waiting: lane.len(),
            bound: ROOM,
        };
        NAMES.into_iter().zip(&self.0).map(queue).collect()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.0.iter_mut().for_each(VecDeque::clear);
    }
}

/// Patches of a status and leases replace older ones of the same object. Everything else is a step of its own.
fn key(message: &Message) -> Option<(Operation, String)> {
    let route = &message.route;
    let newest_wins = match Lane::of(message) {
        Lane::Lease => route.operation == Operation::Update,
        Lane::Node | Lane::Pod | Lane::Event => route.operation == Operation::Patch,
        Lane::Answer | Lane::Query | Lane::Report => false,
    };
    newest_wins.then(|| (route.operation.clone(), route.resource.as_str().to_owned()))
}

#[cfg(test)]
mod tests;
