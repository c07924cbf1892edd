//! The task manager: node jobs of `operations.kubeedge.io`, which upgrade agents, pull images and change edgecore.yaml on nodes.
//!
//! The leader decides which nodes are next ([`plan`]) and writes it into the job's status. Each replica sends the first action to those of
//! its nodes whose phase is `InProgress` ([`NodeJobs`]), and again when such a node reconnects, and writes what nodes report ([`report`]).
//! The status has everything: a job continues after a restart of the cloud.
//!
//! Source: KubeEdge's ControllerManager and `cloud/pkg/taskmanager`. Differences: the documented defaults apply, a timeout begins when the
//! node is sent its action and frees its place, a rollback counts as a failure, and a final phase stays.

mod check;
mod due;
mod plan;
mod report;
mod sender;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use clock::HashMap;

use crate::controllers::reconciler::Action;
use crds::operations::{ConfigUpdateJob, ImagePrePullJob, JobStatus, NodeJob, NodeUpgradeJob};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::text;

pub use self::sender::{NodeJobs, OpenNode};
use self::{
    check::ValidJob,
    plan::{Clocks, IN_PROGRESS},
};
use super::{
    events::{Component, NewEvent},
    informers::{Failure, Informer, Triggers, work},
    workloads::{cluster, patch_status},
};

cluster!(Cluster {
    nodes: Node,
    upgrades: NodeUpgradeJob,
    prepulls: ImagePrePullJob,
    updates: ConfigUpdateJob,
});

/// What the leader needs to reconcile the jobs of one kind.
struct Context<J> {
    cluster: Cluster,
    jobs: Informer<J>,
    clocks: Mutex<Clocks>,
    /// Held while nodes are chosen, so that each job sees which nodes the others have taken.
    choosing: Arc<tokio::sync::Mutex<()>>,
}

/// Runs the jobs of all kinds until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let of_kind = (&cluster, &Arc::default(), &stop);
    tokio::join!(
        run_kind("nodeupgradejob", &cluster.upgrades, of_kind),
        run_kind("imageprepulljob", &cluster.prepulls, of_kind),
        run_kind("configupdatejob", &cluster.updates, of_kind),
    );
}

impl Cluster {
    /// Returns the number of jobs of all kinds that are at work on each node.
    fn jobs_at_work(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::default();
        count_at_work(&self.upgrades, &mut counts);
        count_at_work(&self.prepulls, &mut counts);
        count_at_work(&self.updates, &mut counts);
        counts
    }
}

fn count_at_work<J: NodeJob>(jobs: &Informer<J>, counts: &mut HashMap<String, usize>) {
    for job in jobs.all() {
        let status = job.status().filter(|status| !plan::is_final(status));
        let nodes = status.map_or(&[][..], |status| status.node_status.as_slice());
        for node in nodes.iter().filter(|node| plan::is_in(node, IN_PROGRESS)) {
            *counts
                .entry(node.node_name.clone().unwrap_or_default())
                .or_default() += 1;
        }
    }
}

async fn run_kind<J: ValidJob>(
    name: &'static str,
    jobs: &Informer<J>,
    (cluster, choosing, stop): (&Cluster, &Arc<tokio::sync::Mutex<()>>, &CancellationToken),
) {
    let context = Context {
        cluster: cluster.clone(),
        jobs: jobs.clone(),
        clocks: Mutex::default(),
        choosing: choosing.clone(),
    };
    let queue = (cluster.queues.queue(name), jobs.clone());
    let stop = stop.child_token();
    Box::pin(work(queue, Triggers::none(), context, reconcile, stop)).await;
}

async fn reconcile<J: ValidJob>(job: Arc<J>, context: Arc<Context<J>>) -> Result<Action, Failure> {
    if job.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let _choosing = context.choosing.lock().await;
    let (status, wait) = {
        let mut clocks = context.clocks.lock();
        let jobs = context.jobs.all();
        clocks.retain(|uid| {
            jobs.iter()
                .any(|job| job.meta().uid.as_deref() == Some(uid))
        });
        let Cluster { nodes, .. } = &context.cluster;
        let at_work = || context.cluster.jobs_at_work();
        plan::plan(&*job, (nodes, &at_work), &mut clocks, Instant::now())
    };
    let api = Api::all(context.cluster.client.clone());
    if let Some(written) = patch_status(&api, &*job, job.status(), &status).await? {
        context.jobs.wrote(written);
        let old = job.status().cloned().unwrap_or_default();
        for event in events(&old, &status) {
            context.cluster.events.record(&*job, event);
        }
    }
    Ok(wait.map_or_else(Action::await_change, Action::requeue))
}

/// Returns the events of what is new in a status: the begin and the end of the job, and each node that failed.
fn events(old: &JobStatus, new: &JobStatus) -> Vec<NewEvent> {
    let mut all = Vec::new();
    let (by, total) = (
        Component::TaskManager,
        text::count(new.node_status.len(), "node"),
    );
    for node in &new.node_status {
        let name = node.node_name.as_deref().unwrap_or_default();
        let before = old
            .node_status
            .iter()
            .find(|one| one.node_name == node.node_name);
        let is_new = before.is_none_or(|before| before.phase != node.phase);
        let reason = match node.phase.as_deref() {
            Some(plan::FAILURE) if is_new => "NodeFailed",
            Some(plan::UNKNOWN) if is_new => "NodeTimedOut",
            _ => continue,
        };
        let why = node
            .reason
            .as_deref()
            .unwrap_or("the agent named no reason");
        all.push(NewEvent::warning(by, reason, format!("node {name}: {why}")));
    }
    if old.phase == new.phase {
        return all;
    }
    let why = new.reason.clone().unwrap_or_default();
    all.push(match new.phase.as_str() {
        plan::COMPLETED => NewEvent::normal(by, "Completed", format!("{total} finished")),
        plan::FAILURE => NewEvent::warning(by, "Failed", why),
        plan::INIT => NewEvent::normal(by, "Started", format!("{total} selected")),
        _ => return all,
    });
    all
}
