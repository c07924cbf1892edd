//! Sessions of the same nodes at other replicas of the cloud: a node has one session among all of them. Pure but for the clock.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use wire::instance::Instance;

/// What other replicas have said counts no longer than this, unless they say it again.
const FRESH: Duration = Duration::from_secs(60);

/// A node's session at another replica.
#[derive(Clone, Debug)]
pub(crate) struct RemoteSession {
    /// The node.
    pub(crate) node: String,
    /// Since when, by that replica's clock.
    pub(crate) since: Timestamp,
    /// Which run of an agent has it, where it says so.
    pub(crate) run: Option<Instance>,
    /// Which replica.
    pub(crate) replica: String,
}

/// The sessions at other replicas, the newest one of each node.
#[derive(Debug, Default)]
pub(super) struct RemoteSessions {
    nodes: HashMap<String, RemoteSession>,
    updated: Option<Instant>,
}

impl RemoteSessions {
    /// Keeps the newest session of each node, as known now.
    pub(super) fn new(sessions: Vec<RemoteSession>) -> Self {
        let mut nodes: HashMap<String, RemoteSession> = HashMap::new();
        for session in sessions {
            if nodes.get(&session.node).is_none_or(|known| known.since < session.since) {
                nodes.insert(session.node.clone(), session);
            }
        }
        Self { nodes, updated: Some(Instant::now()) }
    }

    /// The newest session of each node.
    pub(super) fn iter(&self) -> impl Iterator<Item = &RemoteSession> {
        self.nodes.values()
    }

    /// At which replica another run than this one has the node's session.
    pub(super) fn has_another(&self, node: &str, run: &Instance) -> Option<&str> {
        self.updated.filter(|updated| updated.elapsed() < FRESH)?;
        let other = self.nodes.get(node)?;
        other.run.as_ref().is_some_and(|other| other != run).then_some(&*other.replica)
    }
}
