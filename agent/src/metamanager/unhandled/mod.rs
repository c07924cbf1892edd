//! Messages of the cloud that no module of this agent handles: each is answered with an error in the form that the protocol has
//! for it. Where there is no such form, or no sender waits, the message is logged, repeated ones ever more rarely.

use limits::Repeated;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::{debug, warn};
use wire::{
    Downstream, Group, Header, Message, Operation, ResourcePath, Route, Source, Upstream,
    bus::ServiceResponse, text::printable_short,
};

/// How to enable ServiceBus.
const ENABLE_SERVICE_BUS: &str =
    "set modules.serviceBus.enable to true in edgecore.yaml of the node and restart its agent";

/// How to enable TaskManager.
const ENABLE_TASK_MANAGER: &str =
    "set modules.taskManager.enable to true in edgecore.yaml of the node and restart its agent";

/// Counts the logged messages.
#[derive(Debug, Default)]
pub(super) struct Unhandled(Mutex<Repeated>);

impl Unhandled {
    /// Returns the answer to a message that no module handles; `None` if there is none, which is logged.
    pub(super) fn answer(&self, node: &str, header: &Header, body: Downstream) -> Option<Message> {
        // answers to requests of this node that came after the request timed out
        let is_late = matches!(
            body,
            Downstream::Answer { .. }
                | Downstream::RootCa(_)
                | Downstream::TwinConfirmed(_)
                | Downstream::Application(_)
                | Downstream::WatchSync(_)
                | Downstream::UploadAnswer { .. }
        );
        if is_late {
            debug!(kind = body.form().as_str(), "unexpected answer ignored");
            return None;
        }
        let (key, name) = (key(&body).to_owned(), name(&body));
        let answer = answer(node, &name, body).filter(|_| header.parent_msg_id.is_empty());
        self.warn(&key, &name, answer.is_some());
        answer.map(|answer| answer.answering(&header.msg_id))
    }

    fn warn(&self, key: &str, name: &str, is_answered: bool) {
        if let Some(times) = self.0.lock().count(key, clock::Instant::now()) {
            warn!(
                what = name,
                times,
                is_answered,
                "message from the cloud skipped: this agent does not handle its kind"
            );
        }
    }
}

/// Returns the key under which messages are counted for the log: one for all unknown groups, however many there are.
fn key(body: &Downstream) -> &str {
    match body {
        Downstream::Unknown { route, .. } => match &route.group {
            Group::Other(_) => "unknown",
            group => group.as_str(),
        },
        Downstream::Volume { .. } => "CSI volumes",
        Downstream::Job { .. } => "node jobs",
        Downstream::ServiceCall { .. } | Downstream::ServiceTarget { .. } => "ServiceBus",
        Downstream::Subscription { .. } | Downstream::Publish { .. } => "EventBus",
        Downstream::Membership(_)
        | Downstream::MembershipDetail(_)
        | Downstream::TwinDesired { .. } => "DeviceTwin",
        // these are stored, or answer a question
        Downstream::Object { .. }
        | Downstream::Answer { .. }
        | Downstream::RootCa(_)
        | Downstream::TwinConfirmed(_)
        | Downstream::Application(_)
        | Downstream::WatchSync(_)
        | Downstream::UploadAnswer { .. } => "objects and answers",
    }
}

/// Returns the message's kind in the protocol's words: group, operation and resource, or the source.
fn name(body: &Downstream) -> String {
    match body {
        Downstream::Unknown { route, .. } => route.summary(),
        Downstream::Volume { operation, .. } => format!("{operation} (CSI volumes)"),
        Downstream::Job { action, path, .. } => {
            format!(
                "{} of {} (TaskManager is disabled)",
                printable_short(action),
                printable_short(path)
            )
        }
        Downstream::ServiceCall { method, .. } => {
            format!("{} (ServiceBus is disabled)", printable_short(method))
        }
        Downstream::ServiceTarget { on, .. } => {
            format!(
                "{} (ServiceBus is disabled)",
                if *on {
                    Operation::Start
                } else {
                    Operation::Stop
                }
            )
        }
        Downstream::Subscription { on, .. } => {
            format!(
                "{} (EventBus is disabled)",
                if *on {
                    Operation::Subscribe
                } else {
                    Operation::Unsubscribe
                }
            )
        }
        Downstream::Publish { .. } => "publish (EventBus is disabled)".to_owned(),
        Downstream::Membership(_) | Downstream::MembershipDetail(_) => {
            "membership (DeviceTwin is disabled)".to_owned()
        }
        Downstream::TwinDesired { .. } => "twin/cloud_updated (DeviceTwin is disabled)".to_owned(),
        Downstream::Object { path, .. } | Downstream::Answer { path, .. } => printable_short(path),
        Downstream::RootCa(_)
        | Downstream::TwinConfirmed(_)
        | Downstream::Application(_)
        | Downstream::WatchSync(_)
        | Downstream::UploadAnswer { .. } => "an answer".to_owned(),
    }
}

/// Returns the error in the form of the message's own answer.
fn answer(node: &str, name: &str, body: Downstream) -> Option<Message> {
    let why = format!("this agent does not handle {name}");
    let answer_with = |body: Upstream| Some(body.into_message(clock::unix_millis()));
    match body {
        // an answer to an answer would start an endless exchange
        Downstream::Unknown { route, .. }
            if matches!(route.operation, Operation::Error | Operation::Response) =>
        {
            None
        }
        Downstream::Unknown { route, .. } => Some(error(route.group, route.resource, why)),
        // the CSI driver reads the operation, and the text as the reason
        Downstream::Volume { path, .. } => Some(error(Group::Resource, path, why)),
        Downstream::Job {
            origin,
            action,
            path,
            ..
        } => answer_with(job(
            node,
            &origin,
            &action,
            path,
            &format!("{why}; {ENABLE_TASK_MANAGER}"),
        )),
        Downstream::ServiceCall { .. } => answer_with(Upstream::ServiceUpload {
            target: ResourcePath::default(),
            content: json!(ServiceResponse::failure(
                501,
                &format!("{why}; {ENABLE_SERVICE_BUS}\n")
            )),
        }),
        Downstream::Publish { topic, .. } => answer_with(Upstream::BusAnswer {
            topic: topic.into(),
            failed: true,
            content: why.into(),
        }),
        // those of devices and topics have no form for a failure, the others are answers or are stored
        Downstream::ServiceTarget { .. }
        | Downstream::Subscription { .. }
        | Downstream::Membership(_)
        | Downstream::MembershipDetail(_)
        | Downstream::TwinDesired { .. }
        | Downstream::Object { .. }
        | Downstream::Answer { .. }
        | Downstream::RootCa(_)
        | Downstream::TwinConfirmed(_)
        | Downstream::Application(_)
        | Downstream::WatchSync(_)
        | Downstream::UploadAnswer { .. } => None,
    }
}

/// Builds KubeEdge's message for an error: operation `error`, the reason as content.
fn error(group: Group, resource: ResourcePath, why: String) -> Message {
    let (source, operation) = (Source::MetaManager, Operation::Error);
    let route = Route {
        source,
        group,
        operation,
        resource,
        destination: String::new(),
    };
    Message::new(route, Value::from(why), clock::unix_millis())
}

/// Builds the status of a node's part of a job as failed. The older tasks and those of `operations.kubeedge.io` have forms of
/// their own.
fn job(node: &str, origin: &Source, action: &str, path: ResourcePath, why: &str) -> Upstream {
    let time = clock::now().to_string();
    let parts: Vec<&str> = path.as_str().split('/').collect();
    let [_, task, "node", _] = parts.as_slice() else {
        let status = json!({"action": action, "succ": false, "finishTime": time, "reason": why, "extend": ""});
        return Upstream::ActionStatus { path, status };
    };
    debug!(%origin, action, "outdated task ignored");
    let status = json!({
        "NodeName": node, "State": "", "Event": "Check", "Action": "Failure", "Reason": why, "Time": time, "ExternalMessage": "",
    });
    let path = format!("task/{task}/node/{node}").into();
    Upstream::TaskStatus {
        operation: action.to_owned().into(),
        path,
        status,
    }
}

#[cfg(test)]
mod tests;
