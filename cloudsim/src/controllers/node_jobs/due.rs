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
    /// The nodes that are at work for it; whether each has reported an action.
    pub(super) nodes: BTreeMap<String, bool>,
    /// The Secret with credentials that the nodes may read: namespace and name.
    pub(super) secret: Option<(String, String)>,
}

/// The jobs at work.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// By uid.
    tasks: HashMap<String, Task>,
    /// The uids of each node's jobs.
    by_node: HashMap<String, BTreeSet<String>>,
    /// The sessions in which nodes were sent their action, by uid and node.
    sent: HashMap<(String, String), u64>,
    /// The sessions in which nodes were asked to repeat their reports.
    asked: HashMap<(String, String), u64>,
}

impl Due {
    /// Replaces what is known of a job.
    pub(super) fn set(&mut self, task: Task) {
        let before = self
            .tasks
            .get(&task.uid)
            .map(|task| task.nodes.keys().cloned().collect());
        let before: BTreeSet<String> = before.unwrap_or_default();
        for node in before.iter().filter(|node| !task.nodes.contains_key(*node)) {
            self.forget(&task.uid, node);
        }
        for node in task.nodes.keys() {
            self.by_node
                .entry(node.clone())
                .or_default()
                .insert(task.uid.clone());
        }
        if task.nodes.is_empty() {
            self.tasks.remove(&task.uid);
        } else {
            self.tasks.insert(task.uid.clone(), task);
        }
    }

    /// Removes a job; returns what was known of it.
    pub(super) fn remove(&mut self, uid: &str) -> Option<Task> {
        let task = self.tasks.remove(uid)?;
        for node in task.nodes.keys() {
            self.forget(uid, node);
        }
        Some(task)
    }

    fn forget(&mut self, uid: &str, node: &str) {
        let key = (uid.to_owned(), node.to_owned());
        self.sent.remove(&key);
        self.asked.remove(&key);
        if let Some(jobs) = self.by_node.get_mut(node) {
            jobs.remove(uid);
            if jobs.is_empty() {
                self.by_node.remove(node);
            }
        }
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
        for task in uids.filter_map(|uid| self.tasks.get(uid)) {
            let sent = self
                .sent
                .insert((task.uid.clone(), node.to_owned()), session);
            let has_reported = task.nodes.get(node).copied().unwrap_or_default();
            if sent != Some(session) && (is_own_agent || !has_reported) {
                unsent.push(task.clone());
            }
        }
        unsent
    }

    /// Lets the first action of a job be sent again, so that the node repeats its reports. Returns `false` if that was done in this
    /// session.
    pub(super) fn ask_again(&mut self, uid: &str, node: &str, session: u64) -> bool {
        let key = (uid.to_owned(), node.to_owned());
        let is_new = self.asked.insert(key.clone(), session) != Some(session);
        if is_new {
            self.sent.remove(&key);
        }
        is_new
    }

    /// Notes that the first action of a job did not reach the node.
    pub(super) fn put_back(&mut self, uid: &str, node: &str) {
        self.sent.remove(&(uid.to_owned(), node.to_owned()));
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
