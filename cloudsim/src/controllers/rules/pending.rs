//! Calls of nodes that wait for an answer, by the message's id. Only the called node can answer.

use std::sync::Arc;

use clock::HashMap;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use wire::{Header, Message, Up, Upstream, bus::ServiceResponse};

/// Calls of one node at a time.
const MAX_CALLS_PER_NODE: usize = 256;
/// Calls of all nodes at a time.
const MAX_CALLS: usize = 4096;

/// The answer of a node.
#[derive(Debug, PartialEq)]
pub(super) enum NodeAnswer {
    /// The answer of the service.
    Service(ServiceResponse),
    /// EdgeCore's answer in place of the service.
    Refused(ServiceResponse),
    /// The message was published to the node's broker.
    Published,
    /// Publishing failed, for this reason.
    Failed(String),
}

#[derive(Debug, Default)]
struct Waiting {
    calls: HashMap<String, (String, oneshot::Sender<NodeAnswer>)>,
    by_node: HashMap<String, usize>,
}

/// The waiting calls; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending(Arc<Mutex<Waiting>>);

/// A waiting call. Dropping it forgets the call.
#[derive(Debug)]
pub(super) struct PendingCall {
    pending: Pending,
    node: String,
    id: String,
    answer: oneshot::Receiver<NodeAnswer>,
}

impl Pending {
    /// Registers a call with message `id` of `node`; returns `None` if there are too many.
    pub(super) fn begin(&self, node: &str, id: &str) -> Option<PendingCall> {
        let mut waiting = self.0.lock();
        let own = waiting.by_node.get(node).copied().unwrap_or_default();
        if own >= MAX_CALLS_PER_NODE || waiting.calls.len() >= MAX_CALLS {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        waiting.by_node.insert(node.to_owned(), own + 1);
        waiting
            .calls
            .insert(id.to_owned(), (node.to_owned(), sender));
        Some(PendingCall {
            pending: self.clone(),
            node: node.to_owned(),
            id: id.to_owned(),
            answer,
        })
    }

    /// Handles an answer of `node`; returns the message if no call waits for it.
    pub(super) fn answer(&self, node: &str, up: Up) -> Option<Up> {
        let parent = &up.header.parent_msg_id;
        if parent.is_empty() {
            return Some(up);
        }
        let sender = {
            let mut waiting = self.0.lock();
            match waiting.calls.get(parent) {
                Some((own, _)) if own == node => waiting.calls.remove(parent),
                _ => None,
            }
        };
        let Some((_, sender)) = sender else {
            return Some(up);
        };
        // the caller may have gone
        let _ = sender.send(read(up.body));
        None
    }
}

impl PendingCall {
    /// Waits for the answer; `None` if there will be none.
    pub(super) async fn answer(&mut self) -> Option<NodeAnswer> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        let mut waiting = self.pending.0.lock();
        waiting.calls.remove(&self.id);
        if let Some(own) = waiting.by_node.get_mut(&self.node) {
            *own -= 1;
            if *own == 0 {
                waiting.by_node.remove(&self.node);
            }
        }
    }
}

/// Failures of EdgeCore's ServiceBus have no operation: only the parent identifies them, and no service's answer has that form.
fn read(body: Upstream) -> NodeAnswer {
    if let Upstream::BusAnswer {
        failed, content, ..
    } = &body
    {
        let reason = || content.as_str().unwrap_or("it says no reason").to_owned();
        return if *failed {
            NodeAnswer::Failed(reason())
        } else {
            NodeAnswer::Published
        };
    }
    let message = Message::from(Up {
        header: Header::default(),
        body,
    });
    let read = message
        .content_json()
        .and_then(serde_json::from_value::<ServiceResponse>);
    match (read, message.content.as_str()) {
        (Ok(response), _) if message.route.operation.as_str().is_empty() => {
            NodeAnswer::Refused(response)
        }
        (Ok(response), _) => NodeAnswer::Service(response),
        (Err(_), Some(reason)) => NodeAnswer::Failed(reason.to_owned()),
        (Err(error), None) => NodeAnswer::Failed(format!("cannot parse its answer: {error}")),
    }
}
