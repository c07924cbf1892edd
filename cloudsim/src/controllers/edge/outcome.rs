//! The outcome of a node's request, and the message with it.

use std::sync::Arc;

use serde_json::Value;
use wire::{Answer, Downstream, ObjectResp, ResourcePath, ResourceType};

use super::request::{Request, Verb};
use crate::{
    delivery::{Delivery, DeliveryKey, ObjectRef, Reply},
    mailbox::ObjectPath,
};

/// The outcome of a request: the answer, and the revision in the answer's header.
pub(super) enum Outcome {
    Nothing,
    Answer(Answer, Option<String>),
    Object(ObjectPath, Value),
}

/// Builds a refusal in the form of the request's answer.
pub(super) fn refuse(request: &Request<'_>, status: Value) -> Outcome {
    let answer = match (&request.kind, request.verb) {
        (ResourceType::Event, _) => return Outcome::Nothing,
        (ResourceType::Lease, _) | (_, Verb::Insert | Verb::Update | Verb::Patch) => {
            Answer::Response(ObjectResp::failed(status))
        }
        (_, Verb::Delete | Verb::Query) => Answer::Failed(status),
    };
    Outcome::Answer(answer, None)
}

/// Builds the message with `outcome` for the request `parent` about `path`.
pub(super) fn reply(outcome: Outcome, path: ResourcePath, parent: &str) -> Option<Reply> {
    match outcome {
        Outcome::Nothing => None,
        Outcome::Answer(answer, revision) => {
            let message = Downstream::Answer { path, answer }
                .into_message(clock::unix_millis())
                .answering(parent);
            Some(Reply::Direct(match revision {
                Some(revision) => message.at_revision(&revision),
                None => message,
            }))
        }
        Outcome::Object(place, object) => {
            let text = object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let uid = object["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let answer = Downstream::Answer {
                path,
                answer: Answer::Found(object),
            };
            Some(Reply::Acknowledged(Delivery {
                key: DeliveryKey::Answer(parent.to_owned()),
                object: Some(ObjectRef { path: place, uid }),
                revision: text.parse().ok(),
                message: Arc::new(
                    answer
                        .into_message(clock::unix_millis())
                        .answering(parent)
                        .at_revision(&text),
                ),
            }))
        }
    }
}
