//! Runs of agents that had a node's session, and the one that asks for it while another run has it. Pure.

use std::net::SocketAddr;

use clock::HashMap;
use jiff::{SignedDuration, Timestamp};
use wire::instance::Instance;

use super::node_session::DuplicateAgent;

/// Runs remembered for one node; older ones of an often restarted machine do not come back.
const MAX_RUNS: usize = 8;
/// Nodes remembered; beyond it all are forgotten, and a second agent is noticed a little later.
const MAX_NODES: usize = 10_000;
/// A second agent asks at least every five minutes; one that was silent for this long is gone.
const REMEMBER_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

/// The runs known of each node.
#[derive(Debug, Default)]
pub(super) struct DuplicateAgents(HashMap<String, NodeRuns>);

#[derive(Debug, Default)]
struct NodeRuns {
    /// The ids of runs, the newest last.
    runs: Vec<String>,
    rival: Option<(String, DuplicateAgent)>,
}

impl DuplicateAgents {
    /// Records that this run has the session.
    pub(super) fn has_session(&mut self, node: &str, run: &Instance) {
        if self.0.len() >= MAX_NODES && !self.0.contains_key(node) {
            self.0.clear();
        }
        let known = self.0.entry(node.to_owned()).or_default();
        known.runs.retain(|id| id != run.id());
        if known.runs.len() >= MAX_RUNS {
            known.runs.remove(0);
        }
        known.runs.push(run.id().to_owned());
        known.rival.take_if(|(id, _)| id == run.id());
    }

    /// Reports whether this run has had the session before.
    pub(super) fn had_session(&self, node: &str, run: &Instance) -> bool {
        self.0
            .get(node)
            .is_some_and(|known| known.runs.iter().any(|id| id == run.id()))
    }

    /// Records that this run was refused.
    pub(super) fn record_refused(
        &mut self,
        node: &str,
        run: &Instance,
        address: SocketAddr,
        now: Timestamp,
    ) {
        let Some(known) = self.0.get_mut(node) else {
            return;
        };
        let before = known
            .rival
            .as_ref()
            .filter(|(id, _)| id == run.id())
            .map_or(0, |(_, rival)| rival.refused);
        let rival = DuplicateAgent {
            address,
            started: run.start_time().to_owned(),
            refused: before + 1,
            last: now,
        };
        known.rival = Some((run.id().to_owned(), rival));
    }

    /// Returns the node's second agent, if there is one.
    pub(super) fn of(&self, node: &str, now: Timestamp) -> Option<DuplicateAgent> {
        let (_, rival) = self.0.get(node)?.rival.as_ref()?;
        (now.duration_since(rival.last) < REMEMBER_TIMEOUT).then(|| rival.clone())
    }
}
