//! Reports messages that are larger than a node accepts, and are therefore not sent: in the log, and as an event on their object.

use k8s_openapi::api::core::v1::ObjectReference;
use limits::Repeated;
use tracing::warn;
use wire::{Message, text::printable_short};

use crate::{
    controllers::events::{Component, NewEvent, Recorder},
    delivery::ObjectRef,
};

/// The reason of the events.
const REASON: &str = "FailedToSendToNode";

/// Counts the messages of a session that were not sent.
#[derive(Debug)]
pub(super) struct OversizedMessages {
    limit: usize,
    reported: Repeated,
}

impl OversizedMessages {
    /// Creates the counter of a session whose node accepts messages of `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            reported: Repeated::default(),
        }
    }

    /// Reports that a message of this size was not sent to the node.
    pub(super) fn report(
        &mut self,
        events: &Recorder,
        node: &str,
        message: &Message,
        object: Option<&ObjectRef>,
        bytes: usize,
    ) {
        let resource = message.route.resource.as_str();
        let limit = self.limit;
        if let Some(times) = self.reported.count(resource, clock::Instant::now()) {
            warn!(
                node,
                resource = printable_short(resource),
                bytes,
                limit,
                times,
                "failed to send message: it is larger than the node accepts; the node continues with its version"
            );
        }
        if let Some(object) = object {
            let message = format!(
                "node {node} was not sent this object: the message has {bytes} bytes, and the node accepts {limit}; make the object smaller"
            );
            events.record_about(
                reference(object),
                NewEvent::warning(Component::CloudHub, REASON, message),
            );
        }
    }
}

fn reference(ObjectRef { path, uid }: &ObjectRef) -> ObjectReference {
    ObjectReference {
        api_version: Some(path.kind.api_version().to_owned()),
        kind: Some(path.kind.kind().to_owned()),
        namespace: Some(path.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        name: Some(path.name.clone()),
        uid: Some(uid.clone()),
        ..ObjectReference::default()
    }
}
