//! The task manager: node jobs of `operations.kubeedge.io`, which upgrade agents, pull images and change edgecore.yaml on nodes.
//!
//! The leader decides which nodes are next ([`plan`]) and writes it into the job's status. Each replica sends the first action to those of
//! its nodes whose phase is `InProgress` ([`NodeJobs`]), and again when such a node reconnects, and writes what nodes report ([`report`]).
//! The status has everything: a job continues after a restart of the cloud.
//!
//! Source: KubeEdge's ControllerManager and `cloud/pkg/taskmanager`. Differences: the documented defaults apply, a timeout begins when the
//! node is sent its action and frees its place, a rollback counts as a failure, and a final phase stays.

pub(crate) mod check;
mod due;
mod plan;
mod report;
mod sender;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crds::operations::{ConfigUpdateJob, ImagePrePullJob, JobStatus, NodeJob, NodeUpgradeJob};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, runtime::controller::Action};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::plan::Clocks;
pub use self::sender::{NodeJobs, OpenNode};
use super::{
    events::{Component, NewEvent},
    informers::{Failure, Informer, Triggers, work},
    workloads::{Shared, cluster, patch_status},
};

cluster!(Cluster {
    nodes: Node,
    upgrades: NodeUpgradeJob,
    prepulls: ImagePrePullJob,
    updates: ConfigUpdateJob,
});

/// What the leader needs to reconcile the jobs of one kind.
struct Context<J> {
    shared: Shared,
    nodes: Informer<Node>,
    jobs: Informer<J>,
    clocks: Mutex<Clocks>,
}

/// Runs the jobs of all kinds until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let of_kind = (&cluster.shared, &cluster.nodes, &stop);
    tokio::join!(
        run_kind("nodeupgradejob", &cluster.upgrades, of_kind),
        run_kind("imageprepulljob", &cluster.prepulls, of_kind),
        run_kind("configupdatejob", &cluster.updates, of_kind),
    );
}

async fn run_kind<J: NodeJob>(
    name: &'static str,
    jobs: &Informer<J>,
    (shared, nodes, stop): (&Shared, &Informer<Node>, &CancellationToken),
) {
    let context = Context {
        shared: shared.clone(),
        nodes: nodes.clone(),
        jobs: jobs.clone(),
        clocks: Mutex::default(),
    };
    let queue = (shared.queues.queue(name), jobs.clone());
    let stop = stop.child_token();
    Box::pin(work(queue, Triggers::none(), context, reconcile, stop)).await;
}

async fn reconcile<J: NodeJob>(job: Arc<J>, context: Arc<Context<J>>) -> Result<Action, Failure> {
    if job.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let (status, wait) = {
        let mut clocks = context.clocks.lock();
        let jobs = context.jobs.all();
        clocks.retain(|uid| {
            jobs.iter()
                .any(|job| job.meta().uid.as_deref() == Some(uid))
        });
        plan::plan(&*job, &context.nodes, &mut clocks, Instant::now())
    };
    let api = Api::all(context.shared.client.clone());
    if let Some(written) = patch_status(&api, &*job, job.status(), &status).await? {
        context.jobs.wrote(written);
        let old = job.status().cloned().unwrap_or_default();
        for event in events(&old, &status) {
            context.shared.events.record(&*job, event);
        }
    }
    Ok(wait.map_or_else(Action::await_change, Action::requeue))
}

/// Returns the events of what is new in a status: the begin and the end of the job, and each node that failed.
fn events(old: &JobStatus, new: &JobStatus) -> Vec<NewEvent> {
    let mut all = Vec::new();
    let (by, total) = (Component::TaskManager, new.node_status.len());
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
        plan::COMPLETED => {
            NewEvent::normal(by, "Completed", format!("{total} nodes have finished"))
        }
        plan::FAILURE => NewEvent::warning(by, "Failed", why),
        plan::INIT => NewEvent::normal(by, "Started", format!("{total} nodes are selected")),
        _ => return all,
    });
    all
}
