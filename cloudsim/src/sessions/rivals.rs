//! Which runs of agents had a node's session, and which of them would have it now, while another one has it. Pure.

use std::{collections::HashMap, net::SocketAddr};

use jiff::{SignedDuration, Timestamp};
use wire::instance::Instance;

use super::node_session::Rival;

/// Runs of one node that are remembered; a machine is restarted more often, but then the older ones do not come back.
const RUNS: usize = 8;
/// Nodes that are remembered; beyond it all are forgotten, and each second agent is noticed a little later.
const NODES: usize = 10_000;
/// A second agent asks at least each five minutes: one that was not heard of for so long has gone.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(15);

/// What is known of each node.
#[derive(Debug, Default)]
pub(super) struct Rivals(HashMap<String, Known>);

#[derive(Debug, Default)]
struct Known {
    /// Ids of runs, the newest last.
    runs: Vec<String>,
    rival: Option<(String, Rival)>,
}

impl Rivals {
    /// This run has the session.
    pub(super) fn has_session(&mut self, node: &str, run: &Instance) {
        if self.0.len() >= NODES && !self.0.contains_key(node) {
            self.0.clear();
        }
        let known = self.0.entry(node.to_owned()).or_default();
        known.runs.retain(|id| id != run.id());
        if known.runs.len() >= RUNS {
            known.runs.remove(0);
        }
        known.runs.push(run.id().to_owned());
        known.rival.take_if(|(id, _)| id == run.id());
    }

    /// Whether this run had the session at any time.
    pub(super) fn has_had(&self, node: &str, run: &Instance) -> bool {
        self.0.get(node).is_some_and(|known| known.runs.iter().any(|id| id == run.id()))
    }

    /// This run was refused.
    pub(super) fn refused(&mut self, node: &str, run: &Instance, address: SocketAddr, now: Timestamp) {
        let Some(known) = self.0.get_mut(node) else { return };
        let before =
            known.rival.as_ref().filter(|(id, _)| id == run.id()).map_or(0, |(_, rival)| rival.refused);
        let rival = Rival { address, started: run.started().to_owned(), refused: before + 1, last: now };
        known.rival = Some((run.id().to_owned(), rival));
    }

    /// The node's second agent, if there is one.
    pub(super) fn of(&self, node: &str, now: Timestamp) -> Option<Rival> {
        let (_, rival) = self.0.get(node)?.rival.as_ref()?;
        (now.duration_since(rival.last) < REMEMBERED).then(|| rival.clone())
    }
}
