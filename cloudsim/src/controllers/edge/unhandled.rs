//! Messages of nodes that no part of this cloud carries out: whoever sent one is answered that it was not, in the form in which the
//! protocol has its failures. Where it has none, or nobody waits, the log names the message, ever more rarely.

use std::{sync::Arc, time::Instant};

use agent::Repeated;
use parking_lot::Mutex;
use serde_json::Value;
use tracing::warn;
use wire::{
    Answer, Downstream, Group, Header, Message, Operation, ResourcePath, Route, Source, Upstream, text::short,
};

use super::{now_ms, status};

/// What has been said of such messages; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Unhandled(Arc<Mutex<Repeated>>);

impl Unhandled {
    /// An event of `node` was not taken, of which no node is told.
    pub(super) fn event(&self, node: &str, reason: &str) {
        if let Some(times) = self.0.lock().count("events", Instant::now()) {
            warn!(node, reason, times, "an event of a node was not taken");
        }
    }

    /// The answer to a message of `node` that nothing carries out; `None` where there is none.
    pub(super) fn answer(&self, node: &str, header: &Header, body: Upstream) -> Option<Message> {
        let (name, key) = (name(&body)?, key(&body).to_owned());
        // an answer to an answer would go to and fro
        let answer = answer(&name, body).filter(|_| header.parent_msg_id.is_empty());
        let is_answered = answer.is_some();
        if let Some(times) = self.0.lock().count(&key, Instant::now()) {
            warn!(
                node,
                message = name,
                times,
                is_answered,
                "a message of a node is of a kind that this cloud does not handle"
            );
        }
        answer.map(|answer| answer.answering(&header.msg_id))
    }
}

/// What is logged as one, however many words of its own a node invents.
fn key(body: &Upstream) -> &str {
    match body {
        Upstream::Unknown { route, .. } => match &route.group {
            Group::Other(_) => "unknown",
            group => group.as_str(),
        },
        Upstream::BusUpload { .. } | Upstream::ServiceUpload { .. } => "rules",
        Upstream::ActionStatus { .. } | Upstream::TaskStatus { .. } => "node jobs",
        _ => "objects",
    }
}

/// What kind of message it is, in the protocol's words; `None` where nothing is to be done for it.
fn name(body: &Upstream) -> Option<String> {
    Some(match body {
        Upstream::Keepalive(_) | Upstream::Shutdown | Upstream::Ack { .. } | Upstream::BusAnswer { .. } => {
            return None;
        }
        Upstream::BusUpload { .. } => "upload of bus".to_owned(),
        Upstream::ServiceUpload { .. } => "upload of servicebus".to_owned(),
        Upstream::ActionStatus { path, .. } => {
            format!("UpdateNodeActionStatus of {} (there are no node jobs)", short(path.as_str()))
        }
        Upstream::TaskStatus { operation, path, .. } => {
            format!("{operation} of {} (there are no node jobs)", short(path.as_str()))
        }
        Upstream::Object { change, path, .. } => {
            format!("{} of {}", Operation::from(*change), short(path.as_str()))
        }
        Upstream::Patch { path, .. } => format!("patch of {}", short(path.as_str())),
        Upstream::Query { path, .. } => format!("query of {}", short(path.as_str())),
        Upstream::Device { path, .. } => format!("update of {}", short(path.as_str())),
        Upstream::RootCa(_)
        | Upstream::MembershipDetail(_)
        | Upstream::Application(_)
        | Upstream::WatchSync(_) => "a request of another part".to_owned(),
        Upstream::Unknown { route, .. } => route.summary(),
    })
}

/// The failure in the form of the message's own answer.
fn answer(name: &str, body: Upstream) -> Option<Message> {
    let why = format!("this cloud does not handle {name}");
    match body {
        Upstream::Object { path, .. } | Upstream::Patch { path, .. } | Upstream::Query { path, .. } => {
            let answer = Answer::Failed(status::failure(405, "MethodNotAllowed", &why));
            Some(Downstream::Answer { path, answer }.into_message(now_ms()))
        }
        // an application on the node waits for it
        Upstream::ServiceUpload { target, .. } if !target.is_empty() => {
            Some(error(Source::RouterServiceBus, Group::User, target, why))
        }
        Upstream::Unknown { route, .. }
            if !matches!(route.operation, Operation::Error | Operation::Response) =>
        {
            Some(error(Source::CloudHub, Group::Resource, route.resource, why))
        }
        _ => None,
    }
}

/// KubeEdge's message for a failure: operation `error`, the reason as content.
fn error(source: Source, group: Group, resource: ResourcePath, why: String) -> Message {
    let route = Route { source, group, operation: Operation::Error, resource, destination: String::new() };
    Message::new(route, Value::from(why), now_ms())
}

#[cfg(test)]
mod tests;
