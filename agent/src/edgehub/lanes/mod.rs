//! The messages that wait for the connection, in priority order. No clock, no IO.
//!
//! What keeps the node alive goes before what pods wait for, that before reports, and events go last. Of several reports of one
//! object only the newest waits: each holds all that the cloud has not confirmed yet.

use std::collections::VecDeque;

use wire::{Message, Operation};

use super::kind::Kind;

/// The most messages that wait in one lane. A full lane makes senders wait.
const LANE_CAPACITY: usize = 64;

/// The lanes, highest priority first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// Answers to the cloud's messages: the cloud waits for them before it sends more, and so sets their rate itself.
    Answer,
    /// Without leases the node counts as dead.
    Lease,
    /// The node's own state.
    Node,
    /// Queries: a pod that starts waits for the answer.
    Query,
    /// Reports of pods.
    Pod,
    /// Reports of devices and all others.
    Report,
    /// Events, which are not confirmed.
    Event,
}

const LANE_COUNT: usize = 7;
/// The lanes' names in metrics, in their order.
const LANE_NAMES: [&str; LANE_COUNT] = [
    "edgehub/answers",
    "edgehub/leases",
    "edgehub/node",
    "edgehub/queries",
    "edgehub/pods",
    "edgehub/reports",
    "edgehub/events",
];

impl Lane {
    /// Returns the lane of a message.
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

/// When the rate limit lets a message go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendCondition {
    /// At once; it does not count.
    Exempt,
    /// When the rate limit allows it.
    RateLimited,
    /// When the rate limit allows it with half of the burst to spare.
    LowPriority,
}

/// The result of an offered message.
#[derive(Debug, PartialEq)]
pub(super) enum Offered {
    /// The message is queued.
    Queued,
    /// The message replaced an older one with this id, which will not be sent.
    Replaced(String),
    /// The lane is full.
    Full(Box<Message>),
}

#[derive(Debug)]
struct QueuedMessage {
    /// Messages of the same key replace each other; `None` for those that must all be sent.
    key: Option<(Operation, String)>,
    message: Message,
}

/// The lanes with their queued messages.
#[derive(Debug, Default)]
pub(super) struct Lanes([VecDeque<QueuedMessage>; LANE_COUNT]);

impl Lanes {
    /// Queues a message if there is space.
    pub(super) fn offer(&mut self, message: Message) -> Offered {
        let lane = &mut self.0[Lane::of(&message) as usize];
        let key = replacement_key(&message);
        if key.is_some()
            && let Some(older) = lane.iter_mut().find(|waiting| waiting.key == key)
        {
            let older = std::mem::replace(&mut older.message, message);
            return Offered::Replaced(older.header.msg_id);
        }
        if lane.len() >= LANE_CAPACITY {
            return Offered::Full(Box::new(message));
        }
        lane.push_back(QueuedMessage { key, message });
        Offered::Queued
    }

    /// Returns what the next message waits for; `None` if there is none.
    pub(super) fn due(&self) -> Option<SendCondition> {
        let first = self.0.iter().position(|lane| !lane.is_empty())?;
        Some(match first {
            answer if answer == Lane::Answer as usize => SendCondition::Exempt,
            event if event == Lane::Event as usize => SendCondition::LowPriority,
            _ => SendCondition::RateLimited,
        })
    }

    /// Returns the next message with what it waited for.
    pub(super) fn take(&mut self) -> Option<(SendCondition, Message)> {
        let due = self.due()?;
        let message = self.0.iter_mut().find_map(VecDeque::pop_front)?.message;
        Some((due, message))
    }

    /// Reports how full the lanes are.
    pub(super) fn queues(&self) -> Vec<componentbase::Queue> {
        let queue = |(name, lane): (&'static str, &VecDeque<QueuedMessage>)| componentbase::Queue {
            name,
            waiting: lane.len(),
            bound: LANE_CAPACITY,
        };
        LANE_NAMES.into_iter().zip(&self.0).map(queue).collect()
    }

    /// Removes all messages.
    pub(super) fn clear(&mut self) {
        self.0.iter_mut().for_each(VecDeque::clear);
    }
}

/// Returns the replacement key: patches of a status and leases replace older ones of the same object; all other messages are
/// sent.
fn replacement_key(message: &Message) -> Option<(Operation, String)> {
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
