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
mod objects;
mod plan;
mod report;
mod sender;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crds::operations::{ConfigUpdateJob, ImagePrePullJob, JobStatus, NodeJob, NodeUpgradeJob};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::controller::Action;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::sender::{NodeJobs, OpenNode};
use self::{objects::write_status, plan::Clocks};
use super::{
    events::{Component, NewEvent},
    informers::{Failure, Informer, Reflector, Triggers, work},
    workloads::{Shared, cluster},
};

cluster!(Nodes { nodes: Node });

/// What the leader needs to reconcile the jobs of one kind.
struct Context<J> {
    shared: Shared,
    nodes: Informer<Node>,
    jobs: Informer<J>,
    clocks: Mutex<Clocks>,
}

/// Runs the jobs of all kinds until `stop`.
pub(crate) async fn run(cluster: Nodes, stop: CancellationToken) {
    tokio::join!(
        Box::pin(run_kind::<NodeUpgradeJob>(
            &cluster,
            "nodeupgradejob",
            &stop
        )),
        Box::pin(run_kind::<ImagePrePullJob>(
            &cluster,
            "imageprepulljob",
            &stop
        )),
        Box::pin(run_kind::<ConfigUpdateJob>(
            &cluster,
            "configupdatejob",
            &stop
        )),
    );
}

async fn run_kind<J: NodeJob>(cluster: &Nodes, name: &'static str, stop: &CancellationToken) {
    let all = Reflector::<J>::default();
    let reconciling = async {
        let jobs = all.wait_synced().await;
        let context = Context {
            shared: cluster.shared.clone(),
            nodes: cluster.nodes.clone(),
            jobs: jobs.clone(),
            clocks: Mutex::default(),
        };
        let queue = (cluster.queues.queue(name), jobs);
        work(
            queue,
            Triggers::none(),
            context,
            reconcile,
            stop.child_token(),
        )
        .await;
    };
    tokio::join!(
        all.run(cluster.client.clone(), stop.child_token()),
        // ends with the token even if the list never arrives
        async {
            let _: Option<()> = stop.run_until_cancelled(Box::pin(reconciling)).await;
        },
    );
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
    let old = job.status().cloned();
    if let Some(written) = write_status(&context.shared.client, &*job, &status).await? {
        context.jobs.wrote(written);
        for event in events(&old.unwrap_or_default(), &status) {
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
