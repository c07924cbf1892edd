//! The nodes that are connected, as far as rules go: a way to send to each, and what each was told to listen to.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{Mutex as AsyncMutex, mpsc},
    time::timeout,
};
use wire::{Downstream, Message, bus::Terms};

use super::table::Subscription;
use crate::delivery::Reply;

/// How long a node may take none of its messages before one is given up.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a message does not go to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotSent {
    /// The node is not connected.
    NoSession,
    /// It takes no messages.
    Stuck,
}

/// The subscriptions that one node was sent.
#[derive(Debug, Default)]
struct SentSubscriptions {
    /// The session to which it was told.
    session: u64,
    subscriptions: BTreeSet<Subscription>,
}

#[derive(Debug)]
struct Node {
    /// Of the session that runs, with its number.
    sender: Option<(mpsc::Sender<Reply>, u64)>,
    told: Arc<AsyncMutex<SentSubscriptions>>,
}

#[derive(Debug, Default)]
struct All {
    sessions: u64,
    nodes: HashMap<String, Node>,
}

/// The nodes; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes(Arc<Mutex<All>>);

/// A node's session, until this is dropped; a newer one of the same node stays then.
#[derive(Debug)]
pub(crate) struct OpenNode {
    nodes: Nodes,
    node: String,
    session: u64,
}

impl Nodes {
    /// A session of `node` begins; `sender` leads to it.
    pub(super) fn open(&self, node: &str, sender: mpsc::Sender<Reply>) -> OpenNode {
        let mut all = self.0.lock();
        all.sessions += 1;
        let session = all.sessions;
        let known =
            all.nodes.entry(node.to_owned()).or_insert_with(|| Node { sender: None, told: Arc::default() });
        known.sender = Some((sender, session));
        OpenNode { nodes: self.clone(), node: node.to_owned(), session }
    }

    /// Who is connected.
    pub(super) fn connected(&self) -> Vec<String> {
        let all = self.0.lock();
        all.nodes.iter().filter(|(_, node)| node.sender.is_some()).map(|(name, _)| name.clone()).collect()
    }

    fn sender(&self, node: &str) -> Option<(mpsc::Sender<Reply>, u64)> {
        self.0.lock().nodes.get(node)?.sender.clone()
    }

    /// Whether the node is connected.
    pub(super) fn has(&self, node: &str) -> bool {
        self.sender(node).is_some_and(|(sender, _)| !sender.is_closed())
    }

    /// Sends a message; the session over which it went.
    pub(super) async fn send(&self, node: &str, message: Message) -> Result<SessionEnd, NotSent> {
        let (sender, _) = self.sender(node).ok_or(NotSent::NoSession)?;
        send(&sender, message).await?;
        Ok(SessionEnd(sender))
    }

    /// Tells `node` what of `wanted` it was not told, and what of what it was told is no more wanted. To a new session all is told
    /// again: nodes may have lost it.
    pub(super) async fn subscribe(&self, node: &str, wanted: impl Fn() -> BTreeSet<Subscription>) {
        let Some(told) = self.0.lock().nodes.get(node).map(|node| Arc::clone(&node.told)) else { return };
        let mut told = told.lock().await;
        let Some((sender, session)) = self.sender(node) else { return };
        // read now: what was wanted when this was called may be out of date
        let wanted = wanted();
        let is_new = told.session != session;
        let gone: Vec<_> = told.subscriptions.difference(&wanted).cloned().collect();
        let new: Vec<_> =
            wanted.iter().filter(|one| is_new || !told.subscriptions.contains(one)).cloned().collect();
        for (on, one) in
            gone.into_iter().map(|one| (false, one)).chain(new.into_iter().map(|one| (true, one)))
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

/// The end of a session can be waited for.
#[derive(Debug)]
pub(super) struct SessionEnd(mpsc::Sender<Reply>);

impl SessionEnd {
    /// Returns when the session has ended.
    pub(super) async fn ended(&self) {
        self.0.closed().await;
    }
}

async fn send(sender: &mpsc::Sender<Reply>, message: Message) -> Result<(), NotSent> {
    match timeout(SEND_TIMEOUT, sender.send(Reply::Direct(message))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(NotSent::NoSession),
        Err(_) => Err(NotSent::Stuck),
    }
}

/// The message that tells a node to listen, or not to.
pub(super) fn announcement(on: bool, one: &Subscription) -> Message {
    let body = match one {
        Subscription::Topic(topic) => {
            let content = if on { Terms::OURS.content() } else { Value::Null };
            Downstream::Subscription { on, topic: topic.clone(), content }
        }
        Subscription::Url(url) => Downstream::ServiceTarget { on, url: url.clone(), content: Value::Null },
    };
    body.into_message(crate::clock::now_ms())
}

impl Drop for OpenNode {
    fn drop(&mut self) {
        let mut all = self.nodes.0.lock();
        let Some(node) = all.nodes.get_mut(&self.node) else { return };
        node.sender.take_if(|(_, session)| *session == self.session);
        // what it was told is remembered, to be taken back when it comes again
        let is_told = node.told.try_lock().is_ok_and(|told| !told.subscriptions.is_empty());
        if node.sender.is_none() && !is_told {
            all.nodes.remove(&self.node);
        }
    }
}
