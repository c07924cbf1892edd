//! Which nodes are at work for which jobs, and to which of them the first action was sent in their session. Pure.

use std::collections::{BTreeMap, BTreeSet};

use clock::HashMap;
use serde_json::Value;
use wire::node_job::JobKind;

/// A job that is at work on nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) kind: JobKind,
    pub(super) name: String,
    pub(super) uid: String,
    /// The job's spec, as nodes get it.
    pub(super) spec: Value,
    /// The nodes that are at work for it.
    pub(super) nodes: BTreeMap<String, NodeAtWork>,
    /// The Secret with credentials that the nodes may read: namespace and name.
    pub(super) secret: Option<(String, String)>,
}

/// What is known of a node that is at work for a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct NodeAtWork {
    /// Whether it has reported an action.
    pub(super) has_reported: bool,
    /// The session in which it was sent its action.
    sent: Option<u64>,
    /// The session in which it was asked to repeat its reports.
    asked: Option<u64>,
}

/// The jobs at work.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// By uid.
    tasks: HashMap<String, Task>,
    /// The uids of each node's jobs.
    by_node: HashMap<String, BTreeSet<String>>,
}

impl NodeAtWork {
    pub(super) fn new(has_reported: bool) -> Self {
        Self {
            has_reported,
            ..Self::default()
        }
    }
}

impl Due {
    /// Replaces what is known of a job, except to which nodes it was sent.
    pub(super) fn set(&mut self, mut task: Task) {
        let before = self.remove(&task.uid);
        if task.nodes.is_empty() {
            return;
        }
        for (name, node) in &mut task.nodes {
            let known = before.as_ref().and_then(|before| before.nodes.get(name));
            if let Some(known) = known {
                (node.sent, node.asked) = (known.sent, known.asked);
            }
            let jobs = self.by_node.entry(name.clone()).or_default();
            jobs.insert(task.uid.clone());
        }
        self.tasks.insert(task.uid.clone(), task);
    }

    /// Removes a job; returns what was known of it.
    pub(super) fn remove(&mut self, uid: &str) -> Option<Task> {
        let task = self.tasks.remove(uid)?;
        for node in task.nodes.keys() {
            if let Some(jobs) = self.by_node.get_mut(node) {
                jobs.remove(uid);
                if jobs.is_empty() {
                    self.by_node.remove(node);
                }
            }
        }
        Some(task)
    }

    fn node(&mut self, uid: &str, node: &str) -> Option<&mut NodeAtWork> {
        self.tasks.get_mut(uid)?.nodes.get_mut(node)
    }

    /// Returns the jobs of which the node was not sent the first action in this session, and notes that it is sent now. An agent that is
    /// not ours would begin anew: it is sent nothing again once it has reported.
    pub(super) fn take_unsent(
        &mut self,
        node: &str,
        session: u64,
        is_own_agent: bool,
    ) -> Vec<Task> {
        let uids = self.by_node.get(node).into_iter().flatten();
        let mut unsent = Vec::new();
        for uid in uids {
            let Some(task) = self.tasks.get_mut(uid) else {
                continue;
            };
            let Some(known) = task.nodes.get_mut(node) else {
                continue;
            };
            let sent = known.sent.replace(session);
            let is_wanted = is_own_agent || !known.has_reported;
            if sent != Some(session) && is_wanted {
                unsent.push(task.clone());
            }
        }
        unsent
    }

    /// Lets the first action of a job be sent again, so that the node repeats its reports. Returns `false` if that was done in this
    /// session, or the job has ended there.
    pub(super) fn ask_again(&mut self, uid: &str, node: &str, session: u64) -> bool {
        let Some(node) = self.node(uid, node) else {
            return false;
        };
        let is_new = node.asked.replace(session) != Some(session);
        if is_new {
            node.sent = None;
        }
        is_new
    }

    /// Notes that the first action of a job did not reach the node.
    pub(super) fn put_back(&mut self, uid: &str, node: &str) {
        if let Some(node) = self.node(uid, node) {
            (node.sent, node.asked) = (None, None);
        }
    }

    /// Reports whether a job is at work on the node.
    #[cfg(test)]
    pub(super) fn knows(&self, node: &str) -> bool {
        self.by_node.contains_key(node)
    }

    /// Reports whether a job at work on the node names this Secret.
    pub(super) fn has_secret(&self, node: &str, namespace: &str, name: &str) -> bool {
        let mut tasks = self.by_node.get(node).into_iter().flatten();
        tasks.any(|uid| {
            let secret = self.tasks.get(uid).and_then(|task| task.secret.as_ref());
            secret.is_some_and(|secret| secret.0 == namespace && secret.1 == name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(uid: &str, nodes: &[&str]) -> Task {
        let nodes = nodes
            .iter()
            .map(|name| (String::from(*name), NodeAtWork::new(false)));
        Task {
            kind: JobKind::ImagePrePull,
            name: "pull".to_owned(),
            uid: uid.to_owned(),
            spec: Value::Null,
            nodes: nodes.collect(),
            secret: None,
        }
    }

    #[test]
    fn what_is_known_of_nodes_ends_with_their_job() {
        let mut due = Due::default();
        due.set(task("1", &["a", "b"]));
        assert_eq!(due.take_unsent("a", 1, true).len(), 1);
        assert!(due.ask_again("1", "a", 1) && !due.ask_again("1", "a", 1));
        // what did not reach the node may be asked again
        due.put_back("1", "a");
        assert!(due.ask_again("1", "a", 1));
        // a change of the job keeps it
        due.set(task("1", &["a"]));
        assert!(!due.ask_again("1", "a", 1) && !due.knows("b"));
        due.remove("1");
        // a report that arrives now leaves nothing
        assert!(!due.ask_again("1", "a", 2) && !due.ask_again("2", "a", 2));
        due.put_back("1", "a");
        assert!(due.tasks.is_empty() && due.by_node.is_empty());
        due.set(task("1", &["a"]));
        assert_eq!(due.take_unsent("a", 2, true).len(), 1);
        due.set(task("1", &[]));
        assert!(due.tasks.is_empty() && due.by_node.is_empty());
    }
}
