//! The connected nodes for rules: the channel to each, and the subscriptions that each was sent.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use clock::HashMap;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{Mutex as AsyncMutex, mpsc},
    time::timeout,
};
use wire::{Downstream, Message, bus::Terms};

use super::table::Subscription;
use crate::delivery::Reply;

/// How long a node may accept no message before sending fails.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// A message cannot be sent to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendError {
    /// The node is not connected.
    NoSession,
    /// Its channel is full.
    Stuck,
}

/// The subscriptions that one node was sent.
#[derive(Debug, Default)]
struct SentSubscriptions {
    /// The session in which they were sent.
    session: u64,
    subscriptions: BTreeSet<Subscription>,
}

#[derive(Debug)]
struct Node {
    /// The running session with its number.
    sender: Option<(mpsc::Sender<Box<Reply>>, u64)>,
    told: Arc<AsyncMutex<SentSubscriptions>>,
}

#[derive(Debug, Default)]
struct NodeTable {
    sessions: u64,
    nodes: HashMap<String, Node>,
}

/// The nodes; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes(Arc<Mutex<NodeTable>>);

/// A node's session. Dropping it removes it, unless a newer one of the node has replaced it.
#[derive(Debug)]
pub(crate) struct OpenNode {
    nodes: Nodes,
    node: String,
    session: u64,
}

impl Nodes {
    /// Begins a session of `node`; `sender` sends to it.
    pub(super) fn open(&self, node: &str, sender: mpsc::Sender<Box<Reply>>) -> OpenNode {
        let mut all = self.0.lock();
        all.sessions += 1;
        let session = all.sessions;
        let known = all.nodes.entry(node.to_owned()).or_insert_with(|| Node {
            sender: None,
            told: Arc::default(),
        });
        known.sender = Some((sender, session));
        OpenNode {
            nodes: self.clone(),
            node: node.to_owned(),
            session,
        }
    }

    /// Returns the connected nodes.
    pub(super) fn connected_nodes(&self) -> Vec<String> {
        let all = self.0.lock();
        all.nodes
            .iter()
            .filter(|(_, node)| node.sender.is_some())
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn sender(&self, node: &str) -> Option<(mpsc::Sender<Box<Reply>>, u64)> {
        self.0.lock().nodes.get(node)?.sender.clone()
    }

    /// Reports whether the node is connected.
    pub(super) fn has(&self, node: &str) -> bool {
        self.sender(node)
            .is_some_and(|(sender, _)| !sender.is_closed())
    }

    /// Sends a message; returns the end of the session that was used.
    pub(super) async fn send(&self, node: &str, message: Message) -> Result<SessionEnd, SendError> {
        let (sender, _) = self.sender(node).ok_or(SendError::NoSession)?;
        send(&sender, message).await?;
        Ok(SessionEnd(sender))
    }

    /// Sends `node` the difference between the wanted subscriptions and those it was sent. A new session is sent all of them, since the
    /// node may have lost them.
    pub(super) async fn subscribe(&self, node: &str, wanted: impl Fn() -> BTreeSet<Subscription>) {
        let Some(told) = self
            .0
            .lock()
            .nodes
            .get(node)
            .map(|node| Arc::clone(&node.told))
        else {
            return;
        };
        let mut told = told.lock().await;
        let Some((sender, session)) = self.sender(node) else {
            return;
        };
        // read now: the value at the time of the call may be outdated
        let wanted = wanted();
        let is_new = told.session != session;
        let gone: Vec<_> = told.subscriptions.difference(&wanted).cloned().collect();
        let new: Vec<_> = wanted
            .iter()
            .filter(|one| is_new || !told.subscriptions.contains(one))
            .cloned()
            .collect();
        for (on, one) in gone
            .into_iter()
            .map(|one| (false, one))
            .chain(new.into_iter().map(|one| (true, one)))
        {
            if send(&sender, announcement(on, &one)).await.is_err() {
                return;
            }
            if on {
                told.subscriptions.insert(one);
            } else {
                told.subscriptions.remove(&one);
            }
        }
        told.session = session;
    }
}

/// The end of a session, for waiting.
#[derive(Debug)]
pub(super) struct SessionEnd(mpsc::Sender<Box<Reply>>);

impl SessionEnd {
    /// Waits until the session has ended.
    pub(super) async fn wait_ended(&self) {
        self.0.closed().await;
    }
}

async fn send(sender: &mpsc::Sender<Box<Reply>>, message: Message) -> Result<(), SendError> {
    match timeout(SEND_TIMEOUT, sender.send(Box::new(Reply::Direct(message)))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(SendError::NoSession),
        Err(_) => Err(SendError::Stuck),
    }
}

/// Builds the message that subscribes a node, or unsubscribes it.
pub(super) fn announcement(on: bool, one: &Subscription) -> Message {
    let body = match one {
        Subscription::Topic(topic) => {
            let content = if on {
                Terms::OURS.content()
            } else {
                Value::Null
            };
            Downstream::Subscription {
                on,
                topic: topic.clone(),
                content,
            }
        }
        Subscription::Url(url) => Downstream::ServiceTarget {
            on,
            url: url.clone(),
            content: Value::Null,
        },
    };
    body.into_message(clock::unix_millis())
}

impl Drop for OpenNode {
    fn drop(&mut self) {
        let mut all = self.nodes.0.lock();
        let Some(node) = all.nodes.get_mut(&self.node) else {
            return;
        };
        node.sender.take_if(|(_, session)| *session == self.session);
        // kept, to be unsubscribed when the node connects again
        let is_told = node
            .told
            .try_lock()
            .is_ok_and(|told| !told.subscriptions.is_empty());
        if node.sender.is_none() && !is_told {
            all.nodes.remove(&self.node);
        }
    }
}
