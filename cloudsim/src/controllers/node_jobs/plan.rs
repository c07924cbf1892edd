//! Decides what a job's status becomes next: which nodes take part, which are next, which are too late, and whether the job has ended.
//! Pure.

use std::{collections::BTreeSet, time::Duration};

use clock::HashMap;
use crds::operations::{JobStatus, NodeStatus, Terms};
use k8s_openapi::{
    api::core::v1::Node,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};
use tokio::time::Instant;
use wire::{node_job::Action, text::count};

use super::check::ValidJob;
use crate::controllers::{
    informers::Informer,
    scheduler::{EDGE_LABEL, is_ready},
};

/// The phase of a job whose nodes are known.
pub(super) const INIT: &str = "Init";
/// The phase of a job that runs, and of a node that was sent its action.
pub(super) const IN_PROGRESS: &str = "InProgress";
/// The phase of a job that has ended well enough.
pub(super) const COMPLETED: &str = "Completed";
/// The phase of a job or node that has failed.
pub(super) const FAILURE: &str = "Failure";
/// The phase of a node that waits for its turn.
const PENDING: &str = "Pending";
/// The phase of a node that has succeeded.
pub(super) const SUCCESSFUL: &str = "Successful";
/// The phase of a node that did not report in time.
pub(super) const UNKNOWN: &str = "Unknown";

/// Why a job ends whose spec was changed.
const CHANGED: &str =
    "spec: was changed after the job was created; delete the job and create it again";
/// The most jobs that are at work on a node at the same time. It does them one after the other, and rejects more than twice as many.
const MAX_JOBS_OF_NODE: usize = 16;
/// How often a job checks whether a node with too many jobs is free.
const FULL_NODE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Since when each node of each job has been at its action, by the job's uid: what was reported, and when that was first seen. After a
/// restart of the cloud the time begins anew.
#[derive(Debug, Default)]
pub(super) struct Clocks(HashMap<String, HashMap<String, (usize, Instant)>>);

impl Clocks {
    /// Keeps only the jobs whose uid `exists`.
    pub(super) fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.0.retain(|uid, _| exists(uid));
    }

    /// Returns since when the node has been at its action.
    fn since(&mut self, uid: &str, node: &NodeStatus, now: Instant) -> Instant {
        let nodes = self.0.entry(uid.to_owned()).or_default();
        let name = node.node_name.clone().unwrap_or_default();
        let seen = nodes.entry(name).or_insert((node.action_flow.len(), now));
        if seen.0 != node.action_flow.len() || is_waiting(node) {
            *seen = (node.action_flow.len(), now);
        }
        seen.1
    }
}

/// Returns the next status, and when to look again if nothing changes. `at_work` returns the number of jobs on each node.
pub(super) fn plan<J: ValidJob>(
    job: &J,
    (nodes, at_work): (&Informer<Node>, &dyn Fn() -> HashMap<String, usize>),
    clocks: &mut Clocks,
    now: Instant,
) -> (JobStatus, Option<Duration>) {
    let mut status = job.status().cloned().unwrap_or_default();
    let terms = job.terms();
    if is_final(&status) {
        return (status, None);
    }
    // an API server without our rules admits changes; nodes may have begun
    if job.meta().generation > Some(1) {
        abandon(&mut status, CHANGED);
        return (status, None);
    }
    if status.phase.is_empty() {
        let selected = match job.objection() {
            Some(why) => Err(why),
            None => select(&terms, nodes),
        };
        match selected {
            Ok(selected) => {
                status.phase = INIT.to_owned();
                status.node_status = selected;
                // the next look begins
                return (status, Some(Duration::ZERO));
            }
            Err(why) => {
                end(&mut status, FAILURE, Some(why));
                return (status, None);
            }
        }
    }
    let uid = job.meta().uid.as_deref().unwrap_or_default();
    let mut waits: Vec<Duration> = Vec::new();
    for node in status
        .node_status
        .iter_mut()
        .filter(|node| is_in(node, IN_PROGRESS))
    {
        let left = terms
            .timeout
            .saturating_sub(now - clocks.since(uid, node, now));
        if left.is_zero() {
            time_out(node, terms.timeout);
        } else {
            waits.push(left);
        }
    }
    let running = |status: &JobStatus| {
        let all = status.node_status.iter();
        all.filter(|node| is_in(node, IN_PROGRESS)).count()
    };
    let mut free = terms.concurrency.saturating_sub(running(&status));
    let is_pending = |node: &NodeStatus| is_in(node, PENDING);
    let at_work = (free > 0 && status.node_status.iter().any(is_pending)).then(at_work);
    let is_full = |name: &str| {
        let jobs = at_work.as_ref().and_then(|jobs| jobs.get(name));
        jobs.is_some_and(|jobs| *jobs >= MAX_JOBS_OF_NODE)
    };
    for node in status
        .node_status
        .iter_mut()
        .filter(|node| is_pending(node))
    {
        if free == 0 {
            break;
        }
        let name = node.node_name.as_deref().unwrap_or_default();
        match unfit(nodes.get("", name).as_deref()) {
            Some(why) => set(node, FAILURE, Some(why.to_owned())),
            None if is_full(name) => waits.push(FULL_NODE_POLL_INTERVAL),
            None => {
                set(node, IN_PROGRESS, None);
                clocks.since(uid, node, now);
                waits.push(terms.timeout);
                free -= 1;
            }
        }
    }
    conclude(&mut status, &terms);
    if is_final(&status) {
        return (status, None);
    }
    (status, waits.into_iter().min())
}

/// Returns an entry for each selected node, in the order of the spec, or by name for a selector.
fn select(terms: &Terms<'_>, nodes: &Informer<Node>) -> Result<Vec<NodeStatus>, String> {
    let names: Vec<String> = match (terms.node_names, terms.label_selector) {
        (names, None) => {
            let mut seen = BTreeSet::new();
            let each = names.iter().filter(|name| seen.insert(name.as_str()));
            each.cloned().collect()
        }
        (_, Some(selector)) => {
            let selector = Selector::try_from(selector.clone())
                .map_err(|error| format!("labelSelector is invalid: {error}"))?;
            let all = nodes.all();
            let matching = all.iter().filter(|node| selector.matches(node.labels()));
            let names: BTreeSet<String> = matching.map(|node| node.name_any()).collect();
            names.into_iter().collect()
        }
    };
    if names.is_empty() {
        return Err("no node has the labels of labelSelector".into());
    }
    let entry = |name: String| {
        let mut entry = NodeStatus::default();
        match unfit(nodes.get("", &name).as_deref()) {
            Some(why) => set(&mut entry, FAILURE, Some(why.to_owned())),
            None => set(&mut entry, PENDING, None),
        }
        entry.node_name = Some(name);
        entry
    };
    Ok(names.into_iter().map(entry).collect())
}

/// Ends a job, and each node of it that has not ended.
fn abandon(status: &mut JobStatus, why: &str) {
    for node in &mut status.node_status {
        if is_in(node, PENDING) || is_in(node, IN_PROGRESS) {
            set(node, FAILURE, Some(why.to_owned()));
        }
    }
    end(status, FAILURE, Some(why.to_owned()));
}

/// Returns why a node cannot run jobs.
fn unfit(node: Option<&Node>) -> Option<&'static str> {
    let Some(node) = node else {
        return Some("the node does not exist");
    };
    let is_edge = node.labels().get(EDGE_LABEL).is_some_and(String::is_empty);
    match (is_edge, is_ready(node)) {
        (false, _) => Some("the node is not an edge node"),
        (true, false) => Some("the node is not ready"),
        (true, true) => None,
    }
}

/// Reports whether the node waits until somebody there confirms the upgrade: its clock stands still.
fn is_waiting(node: &NodeStatus) -> bool {
    let last = node.action_flow.last();
    last.is_some_and(|last| last.action.as_deref() == Some(Action::WaitingConfirmation.as_str()))
}

/// Ends a node that did not report in time. One that has failed and did not report its rollback has failed for sure.
fn time_out(node: &mut NodeStatus, timeout: Duration) {
    let seconds = timeout.as_secs();
    let failed = node
        .action_flow
        .iter()
        .rfind(|action| action.status.as_deref() == Some("False"));
    let (phase, why) = match (failed, node.action_flow.last()) {
        (Some(failed), _) => (
            FAILURE,
            format!(
                "{}; the node has not reported the rollback within {seconds} s",
                failed.reason.as_deref().unwrap_or("an action failed")
            ),
        ),
        (None, Some(last)) => (
            UNKNOWN,
            format!(
                "the node has not reported the action after {} within {seconds} s",
                last.action.as_deref().unwrap_or_default()
            ),
        ),
        (None, None) => (
            UNKNOWN,
            format!(
                "the node has not reported anything within {seconds} s; its agent may be disconnected, or have no task manager \
                 (modules.taskManager.enable in edgecore.yaml)"
            ),
        ),
    };
    set(node, phase, Some(why));
}

/// Sets the phase of a job from those of its nodes.
fn conclude(status: &mut JobStatus, terms: &Terms<'_>) {
    let total = status.node_status.len();
    let in_phase = |phase: &str| {
        status
            .node_status
            .iter()
            .filter(|node| is_in(node, phase))
            .count()
    };
    let failed = in_phase(FAILURE) + in_phase(UNKNOWN);
    if in_phase(SUCCESSFUL) + failed < total {
        status.phase = IN_PROGRESS.to_owned();
        return;
    }
    #[allow(clippy::cast_precision_loss)]
    let share = (failed as f64 / total.max(1) as f64 * 100.0).round() / 100.0;
    if total > 0 && share <= terms.tolerated_fraction().unwrap_or_default() {
        end(status, COMPLETED, None);
    } else {
        let (all, tolerated) = (count(total, "node"), terms.failure_tolerate);
        let why = format!("{failed} of {all} failed, more than failureTolerate {tolerated}");
        end(status, FAILURE, Some(why));
    }
}

fn end(status: &mut JobStatus, phase: &str, reason: Option<String>) {
    let (type_, word) = if phase == COMPLETED {
        ("Complete", "Completed")
    } else {
        ("Failed", "Failed")
    };
    status.conditions = vec![Condition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: word.to_owned(),
        message: reason.clone().unwrap_or_default(),
        last_transition_time: Time(clock::now()),
        observed_generation: None,
    }];
    (status.phase, status.reason) = (phase.to_owned(), reason);
}

pub(super) fn is_final(status: &JobStatus) -> bool {
    matches!(status.phase.as_str(), COMPLETED | FAILURE)
}

/// Reports whether a node is in this phase.
pub(super) fn is_in(node: &NodeStatus, phase: &str) -> bool {
    node.phase.as_deref() == Some(phase)
}

fn set(node: &mut NodeStatus, phase: &str, reason: Option<String>) {
    (node.phase, node.reason) = (Some(phase.to_owned()), reason);
}
