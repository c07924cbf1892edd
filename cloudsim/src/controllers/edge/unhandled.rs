//! Messages of nodes that no part of this cloud carries out: whoever sent one is answered that it was not, in the form in which the
//! protocol has its failures. Where it has none, or nobody waits, the log names the message, ever more rarely.

use std::{sync::Arc, time::Instant};

use limits::Repeated;
use parking_lot::Mutex;
use serde_json::Value;
use tracing::warn;
use wire::{Answer, Downstream, Group, Header, Message, Operation, ResourcePath, Route, Source, text::short};

use super::{request::Verb, status};
use crate::{clock::now_ms, delivery::Reply};

/// What has been said of such messages; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(in crate::controllers) struct Unhandled(Arc<Mutex<Repeated>>);

impl Unhandled {
    /// An event of `node` was not taken, of which no node is told.
    pub(super) fn event(&self, node: &str, reason: &str) {
        if let Some(times) = self.0.lock().count("events", Instant::now()) {
            warn!(node, reason, times, "an event of a node was not taken");
        }
    }

    /// A request about `path`, which names no object; it is answered as the request would have been.
    pub(super) fn request(
        &self,
        node: &str,
        header: &Header,
        verb: Verb,
        path: ResourcePath,
    ) -> Option<Reply> {
        let name = format!("{} of {}", Operation::from(verb), short(path.as_str()));
        self.report((node, header), ("objects", &name), |why| {
            let answer = Answer::Failed(status::failure(405, "MethodNotAllowed", &why));
            Some(Downstream::Answer { path, answer }.into_message(now_ms()))
        })
    }

    /// A message of MQTT, where there are no rules.
    pub(in crate::controllers) fn bus_upload(&self, node: &str, header: &Header) -> Option<Reply> {
        self.report((node, header), ("rules", "upload of bus"), |_| None)
    }

    /// A local application's call of `target`, for which it waits; or, without a target, a service's answer.
    pub(in crate::controllers) fn service_upload(
        &self,
        node: &str,
        header: &Header,
        target: ResourcePath,
    ) -> Option<Reply> {
        self.report((node, header), ("rules", "upload of servicebus"), |why| {
            (!target.is_empty()).then(|| error(Source::RouterServiceBus, Group::User, target, why))
        })
    }

    /// The outcome of a job at `path`.
    pub(in crate::controllers) fn job_status(
        &self,
        node: &str,
        header: &Header,
        operation: &Operation,
        path: &ResourcePath,
    ) -> Option<Reply> {
        let name = format!("{operation} of {} (there are no node jobs)", short(path.as_str()));
        self.report((node, header), ("node jobs", &name), |_| None)
    }

    /// A message that the protocol does not have.
    pub(in crate::controllers) fn unknown(&self, node: &str, header: &Header, route: Route) -> Option<Reply> {
        let name = route.summary();
        let group = route.group.clone();
        // however many words of its own a node invents, they are counted as one
        let key = if matches!(group, Group::Other(_)) { "unknown" } else { group.as_str() };
        self.report((node, header), (key, &name), |why| {
            let is_question = !matches!(route.operation, Operation::Error | Operation::Response);
            is_question.then(|| error(Source::CloudHub, Group::Resource, route.resource, why))
        })
    }

    /// Logs a message called `name`, as one of `key`; the answer, which `answer` makes of the reason.
    fn report(
        &self,
        (node, header): (&str, &Header),
        (key, name): (&str, &str),
        answer: impl FnOnce(String) -> Option<Message>,
    ) -> Option<Reply> {
        let answer = answer(format!("this cloud does not handle {name}"));
        // an answer to an answer would go to and fro
        let answer = answer.filter(|_| header.parent_msg_id.is_empty());
        let is_answered = answer.is_some();
        if let Some(times) = self.0.lock().count(key, Instant::now()) {
            warn!(
                node,
                message = name,
                times,
                is_answered,
                "a message of a node is of a kind that this cloud does not handle"
            );
        }
        answer.map(|answer| Reply::Direct(answer.answering(&header.msg_id)))
    }
}

/// KubeEdge's message for a failure: operation `error`, the reason as content.
fn error(source: Source, group: Group, resource: ResourcePath, why: String) -> Message {
    let route = Route { source, group, operation: Operation::Error, resource, destination: String::new() };
    Message::new(route, Value::from(why), now_ms())
}
