//! Sessions at other replicas of the cloud: a node has one session among all of them. Pure except for the clock.

use std::time::Duration;

use clock::{HashMap, Instant};
use jiff::Timestamp;
use wire::instance::Instance;

/// How long a replica's report of its sessions is valid.
const MAX_AGE: Duration = Duration::from_secs(60);

/// A node's session at another replica.
#[derive(Clone, Debug)]
pub(crate) struct RemoteSession {
    /// The name of the node.
    pub(crate) node: String,
    /// When the session began, by that replica's clock.
    pub(crate) since: Timestamp,
    /// The run of the agent, if the agent sends it.
    pub(crate) run: Option<Instance>,
    /// The name of the replica.
    pub(crate) replica: String,
}

/// The sessions at other replicas, the newest of each node.
#[derive(Debug, Default)]
pub(super) struct RemoteSessions {
    nodes: HashMap<String, RemoteSession>,
    updated: Option<Instant>,
}

impl RemoteSessions {
    /// Keeps the newest session of each node.
    pub(super) fn new(sessions: Vec<RemoteSession>) -> Self {
        let mut nodes: HashMap<String, RemoteSession> = HashMap::default();
        for session in sessions {
            if nodes
                .get(&session.node)
                .is_none_or(|known| known.since < session.since)
            {
                nodes.insert(session.node.clone(), session);
            }
        }
        Self {
            nodes,
            updated: Some(Instant::now()),
        }
    }

    /// Iterates over the newest session of each node.
    pub(super) fn iter(&self) -> impl Iterator<Item = &RemoteSession> {
        self.nodes.values()
    }

    /// Returns the replica at which another run of the node's agent has the session.
    pub(super) fn has_another(&self, node: &str, run: &Instance) -> Option<&str> {
        self.updated.filter(|updated| updated.elapsed() < MAX_AGE)?;
        let other = self.nodes.get(node)?;
        other
            .run
            .as_ref()
            .is_some_and(|other| other != run)
            .then_some(&*other.replica)
    }
}
