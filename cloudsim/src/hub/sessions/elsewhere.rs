//! Sessions of the same nodes at other replicas of the cloud: a node has one session, wherever that is.
//!
//! In: what other replicas have written down of theirs. Out: the end of older sessions here, and refusals of agents that had the node's
//! session before, as where both come to the same replica.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tracing::warn;
use wire::instance::Instance;

use super::Sessions;

/// What was not heard again for so long says nothing any more.
const FRESH: Duration = Duration::from_secs(60);

/// A node's session at another replica.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere {
    /// The node.
    pub(crate) node: String,
    /// Since when, by that replica's clock.
    pub(crate) since: Timestamp,
    /// Which run of an agent has it, where it says so.
    pub(crate) run: Option<Instance>,
    /// Which replica.
    pub(crate) replica: String,
}

/// The newest of each node.
#[derive(Debug, Default)]
pub(super) struct Others {
    nodes: HashMap<String, Elsewhere>,
    heard: Option<Instant>,
}

impl Others {
    /// At which replica another run than this one has the node's session.
    pub(super) fn has_another(&self, node: &str, run: &Instance) -> Option<&str> {
        self.heard.filter(|heard| heard.elapsed() < FRESH)?;
        let other = self.nodes.get(node)?;
        other.run.as_ref().is_some_and(|other| other != run).then_some(&*other.replica)
    }
}

impl Sessions {
    /// Which run of an agent has which node's session, as [`Instance`] writes it.
    pub(crate) fn runs(&self) -> HashMap<String, String> {
        let register = self.0.lock();
        let run = |entry: &super::Entry| entry.arrival.instance.as_ref().map(ToString::to_string);
        register.nodes.iter().filter_map(|(node, entry)| Some((node.clone(), run(entry)?))).collect()
    }

    /// Hears of all sessions at other replicas: one here that began before another one of the same node ends.
    pub(crate) fn hear(&self, others: Vec<Elsewhere>) {
        let mut register = self.0.lock();
        let mut nodes: HashMap<String, Elsewhere> = HashMap::new();
        for other in others {
            if nodes.get(&other.node).is_none_or(|known| known.since < other.since) {
                nodes.insert(other.node.clone(), other);
            }
        }
        for (node, other) in &nodes {
            if let Some(run) = &other.run {
                register.rivals.has_session(node, run);
            }
            let Some(entry) = register.nodes.get(node) else { continue };
            if entry.since >= other.since {
                continue;
            }
            if let (Some(own), Some(run)) = (&entry.arrival.instance, &other.run)
                && own != run
            {
                warn!(
                    node,
                    older = entry.arrival.place(),
                    replica = other.replica,
                    "an agent of the same name has connected to another replica and takes the session over; if both run, give one of them \
                     another name"
                );
                // nobody sets it again: a session that has ended leaves
                let _ = entry
                    .taken_over
                    .set(format!("an agent of this name at replica {} has taken over", other.replica));
            }
            entry.token.cancel();
        }
        register.elsewhere = Others { nodes, heard: Some(Instant::now()) };
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;
    use wire::instance::TAKEN_OVER;

    use super::{
        super::{Arrival, Carrier, Session},
        *,
    };

    fn run(id: &str) -> Option<Instance> {
        Instance::new(id, "2026-11-26T16:00:00Z")
    }

    fn admit(sessions: &Sessions, id: &str) -> Result<(), String> {
        sessions.admit("edge-1", run(id).as_ref(), ([10, 0, 0, 7], 1).into())
    }

    fn begin(sessions: &Sessions, id: &str) -> Session {
        let arrival = Arrival {
            node: "edge-1".to_owned(),
            ticket: sessions.ticket(),
            address: ([10, 0, 0, 7], 1).into(),
            transport: Carrier::WebSocket,
            replica: 0,
            instance: run(id),
            begins: None,
            certificate: None,
        };
        sessions.begin(arrival, 9, &CancellationToken::new()).unwrap()
    }

    /// What a replica writes down.
    fn told(sessions: &Sessions, replica: &str) -> Vec<Elsewhere> {
        let runs = sessions.runs();
        let session = |session: super::super::NodeSession| Elsewhere {
            run: runs.get(&session.node).and_then(|run| Instance::parse(run)),
            node: session.node,
            since: session.since,
            replica: replica.to_owned(),
        };
        sessions.list().into_iter().map(session).collect()
    }

    #[test]
    fn two_agents_of_one_name_at_two_replicas_do_not_take_turns() {
        let [one, other, third] = [(); 3].map(|()| Sessions::default());
        admit(&one, "a").unwrap();
        let first = begin(&one, "a");
        other.hear(told(&one, "one"));
        third.hear(told(&one, "one"));
        admit(&other, "b").unwrap();
        let second = begin(&other, "b");
        one.hear(told(&other, "other"));
        other.hear(told(&one, "one"));
        third.hear([told(&one, "one"), told(&other, "other")].concat());
        assert!(first.token.is_cancelled() && !second.token.is_cancelled());
        let (code, words) = first.farewell();
        assert_eq!((u16::from(code), words.contains("replica other")), (TAKEN_OVER, true), "{words}");
        drop(first);
        for (sessions, place) in [(&one, "replica other"), (&other, "10.0.0.7"), (&third, "replica other")] {
            let refused = admit(sessions, "a").unwrap_err();
            assert!(refused.contains(place), "{refused}");
            admit(sessions, "b").unwrap();
            admit(sessions, "c").unwrap();
        }
        // the other one has gone
        drop(second);
        one.hear(told(&other, "other"));
        admit(&one, "a").unwrap();
    }

    #[test]
    fn a_node_that_has_gone_to_another_replica_leaves_its_old_session_there() {
        let [one, other] = [(); 2].map(|()| Sessions::default());
        let (first, second) = (begin(&one, "a"), begin(&other, "a"));
        one.hear(told(&other, "other"));
        other.hear(told(&one, "one"));
        assert!(first.token.is_cancelled() && !second.token.is_cancelled());
        assert_ne!(u16::from(first.farewell().0), TAKEN_OVER);
    }
}
