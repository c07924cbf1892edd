//! Messages of nodes that no controller handles: the sender gets the protocol's failure message. If there is none, or nobody waits, the
//! message is logged, at growing intervals.

use std::sync::Arc;

use clock::Instant;
use limits::Repeated;
use parking_lot::Mutex;
use serde_json::Value;
use tracing::warn;
use wire::{
    Answer, Downstream, Group, Header, Message, Operation, ResourcePath, Route, Source,
    text::printable_short,
};

use super::request::Verb;
use crate::{controllers::api_status, delivery::Reply};

/// The messages that were logged; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(in crate::controllers) struct Unhandled(Arc<Mutex<Repeated>>);

impl Unhandled {
    /// Logs an event of `node` that was refused, which is not answered.
    pub(super) fn event(&self, node: &str, reason: &str) {
        if let Some(times) = self.0.lock().count("events", Instant::now()) {
            warn!(node, reason, times, "event of a node rejected");
        }
    }

    /// Answers a request about `path`, which names no object, in the form of its regular answer.
    pub(super) fn request(
        &self,
        node: &str,
        header: &Header,
        verb: Verb,
        path: ResourcePath,
    ) -> Option<Reply> {
        let name = format!(
            "{} of {}: this names no object, whose path is <namespace>/<type>/<name> with names as Kubernetes allows them",
            Operation::from(verb),
            printable_short(&path)
        );
        self.report(node, header, "objects", &name, |why| {
            let answer = Answer::Failed(api_status::failure(405, "MethodNotAllowed", &why));
            Some(Downstream::Answer { path, answer }.into_message(clock::unix_millis()))
        })
    }

    /// Handles an MQTT message if there are no rules.
    pub(in crate::controllers) fn bus_upload(&self, node: &str, header: &Header) -> Option<Reply> {
        self.report(node, header, "rules", "upload of bus", |_| None)
    }

    /// Answers a local application's call of `target`; without a target it is an unexpected answer of a service.
    pub(in crate::controllers) fn service_upload(
        &self,
        node: &str,
        header: &Header,
        target: ResourcePath,
    ) -> Option<Reply> {
        self.report(node, header, "rules", "upload of servicebus", |why| {
            (!target.is_empty()).then(|| error(Source::RouterServiceBus, Group::User, target, why))
        })
    }

    /// Handles the status of a job at `path`.
    pub(in crate::controllers) fn job_status(
        &self,
        node: &str,
        header: &Header,
        operation: &Operation,
        path: &ResourcePath,
    ) -> Option<Reply> {
        let name = format!(
            "{operation} of {} (there are no node jobs)",
            printable_short(path)
        );
        self.report(node, header, "node jobs", &name, |_| None)
    }

    /// Handles a message that the protocol does not have.
    pub(in crate::controllers) fn unknown(
        &self,
        node: &str,
        header: &Header,
        route: Route,
    ) -> Option<Reply> {
        let name = route.summary();
        let group = route.group.clone();
        // unknown words count as one key, however many a node invents
        let key = if matches!(group, Group::Other(_)) {
            "unknown"
        } else {
            group.as_str()
        };
        self.report(node, header, key, &name, |why| {
            let is_question = !matches!(route.operation, Operation::Error | Operation::Response);
            is_question.then(|| error(Source::CloudHub, Group::Resource, route.resource, why))
        })
    }

    /// Logs a message under `key`; returns the answer, which `answer` builds from the reason.
    fn report(
        &self,
        node: &str,
        header: &Header,
        key: &str,
        name: &str,
        answer: impl FnOnce(String) -> Option<Message>,
    ) -> Option<Reply> {
        let answer = answer(format!("this cloud does not handle {name}"));
        // an answer to an answer would loop
        let answer = answer.filter(|_| header.parent_msg_id.is_empty());
        let is_answered = answer.is_some();
        if let Some(times) = self.0.lock().count(key, Instant::now()) {
            warn!(
                node,
                what = name,
                times,
                is_answered,
                "unsupported message of a node rejected"
            );
        }
        answer.map(|answer| Reply::Direct(answer.answering(&header.msg_id)))
    }
}

/// Builds KubeEdge's failure message: operation `error`, with the reason as content.
fn error(source: Source, group: Group, resource: ResourcePath, why: String) -> Message {
    let route = Route {
        source,
        group,
        operation: Operation::Error,
        resource,
        destination: String::new(),
    };
    Message::new(route, Value::from(why), clock::unix_millis())
}
