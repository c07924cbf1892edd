//! Daemon sets: one pod on each matching node.

use std::{sync::Arc, time::Duration};

use crate::controllers::reconciler::Action;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, DaemonSetStatus},
    core::v1::{Node, Pod},
};
use kube::{ResourceExt, runtime::reflector::ObjectRef};
use tokio_util::sync::CancellationToken;

mod placement;
mod plan;
mod surge;

use self::placement::Placement;
use super::{
    cluster::cluster,
    hash,
    history::{self, Observed, Owner},
    pods::{is_available, is_ready, phase},
    triggers::adopters,
};
use crate::controllers::{
    events::Component,
    informers::{Change, Failure, Triggers, work},
};

cluster!(Cluster {
    daemon_sets: DaemonSet,
    pods: Pod,
    nodes: Node,
    revisions: ControllerRevision
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let sets = cluster.daemon_sets.clone();
    let every_set = move |change: &Change<Node>| {
        let sets = if placement::concerns_daemons(change) {
            sets.all()
        } else {
            Vec::new()
        };
        sets.iter()
            .map(|set| ObjectRef::from_obj(&**set))
            .collect::<Vec<_>>()
    };
    let triggers = Triggers::none()
        .and_owned(&cluster.pods)
        .and(&cluster.nodes, every_set)
        .and(
            &cluster.pods,
            adopters(&cluster.daemon_sets, |set| {
                set.spec.as_ref().map(|spec| spec.selector.clone())
            }),
        );
    let queue = (
        cluster.queues.queue("daemonset"),
        cluster.daemon_sets.clone(),
    );
    work(queue, triggers, cluster, reconcile, stop).await;
}

impl Cluster {
    fn history(&self) -> history::Caches<'_> {
        history::Caches {
            shared: &self.shared,
            pods: &self.pods,
            revisions: &self.revisions,
        }
    }
}

async fn reconcile(set: Arc<DaemonSet>, cluster: Arc<Cluster>) -> Result<Action, Failure> {
    let Some(spec) = &set.spec else {
        return Ok(Action::await_change());
    };
    let collisions = set
        .status
        .as_ref()
        .and_then(|status| status.collision_count);
    let owner = Owner {
        object: &*set,
        selector: &spec.selector,
        template: &spec.template,
        collisions,
    };
    let Some(Observed {
        pods,
        revisions,
        present,
    }) = history::observe(&owner, &cluster.history()).await?
    else {
        return Ok(Action::await_change());
    };
    let revision = history::label(&present);
    let nodes = cluster.nodes.all();
    let now = clock::now();
    let mut plan = plan::plan(&set, &revision, &nodes, &pods, now);
    let wait = delay_failed(&set, &mut plan, &cluster, now);
    cluster
        .delete_pods(&cluster.pods, &*set, Component::DaemonSet, plan.delete)
        .await?;
    let made = plan
        .create
        .iter()
        .map(|node| placement::pod(&set, &revision, node))
        .collect();
    cluster
        .create_pods(&cluster.pods, &*set, Component::DaemonSet, made)
        .await?;
    let pods = cluster
        .pods
        .controlled_by(set.metadata.uid.as_deref().unwrap_or_default());
    let status = status(&set, &revision, &nodes, &pods, now);
    cluster
        .write_status(&cluster.daemon_sets, &*set, &set.status, &status)
        .await?;
    let in_use: Vec<_> = pods
        .iter()
        .filter_map(|pod| pod.labels().get(hash::REVISION))
        .map(String::as_str)
        .collect();
    let in_use: Vec<&str> = in_use.into_iter().chain([revision.as_str()]).collect();
    history::clean_up(
        &revisions,
        spec.revision_history_limit,
        &in_use,
        &cluster.history(),
    )
    .await?;
    Ok(wait.map_or_else(
        || super::until_available(&pods, spec.min_ready_seconds, now),
        Action::requeue,
    ))
}

/// Keeps failed pods during their back-off, since the next one may fail too. Returns the shortest rest of a back-off.
fn delay_failed(
    set: &DaemonSet,
    plan: &mut plan::Plan,
    cluster: &Cluster,
    now: Timestamp,
) -> Option<Duration> {
    let mut wait: Option<Duration> = None;
    let create = &mut plan.create;
    plan.delete.retain(|pod| {
        let node = placement::node_of(pod).unwrap_or_default();
        let place = format!(
            "{}/{:?}/{node}",
            set.metadata.uid.as_deref().unwrap_or_default(),
            set.metadata.generation
        );
        let left = (phase(pod) == "Failed")
            .then(|| cluster.failures.remaining_delay(&place, pod, now))
            .flatten();
        if left.is_some() {
            create.retain(|wanted| wanted != node);
        }
        wait = wait.into_iter().chain(left).min();
        left.is_none()
    });
    wait
}

fn status(
    set: &DaemonSet,
    revision: &str,
    nodes: &[Arc<Node>],
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> DaemonSetStatus {
    let min_ready = set
        .spec
        .as_ref()
        .and_then(|spec| spec.min_ready_seconds)
        .unwrap_or_default();
    let mut status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        collision_count: set
            .status
            .as_ref()
            .and_then(|status| status.collision_count),
        ..DaemonSetStatus::default()
    };
    let (mut updated, mut available) = (0, 0);
    let (placement, by_node) = (Placement::of(set), placement::by_node(pods));
    for node in nodes {
        let here = by_node.get(node.name_any().as_str());
        let here = here.map(Vec::as_slice).unwrap_or_default();
        if !placement.should_run(node) {
            status.number_misscheduled += i32::from(!here.is_empty());
            continue;
        }
        status.desired_number_scheduled += 1;
        status.current_number_scheduled += i32::from(!here.is_empty());
        let any = |holds: &dyn Fn(&Pod) -> bool| i32::from(here.iter().any(|pod| holds(pod)));
        status.number_ready += any(&|pod| is_ready(pod));
        available += any(&|pod| is_available(pod, min_ready, now));
        updated += any(&|pod| {
            pod.labels()
                .get(hash::REVISION)
                .is_some_and(|own| own == revision)
        });
    }
    let some = |number: i32| (number > 0).then_some(number);
    status.updated_number_scheduled = some(updated);
    status.number_available = some(available);
    status.number_unavailable = some(status.desired_number_scheduled - available);
    status
}
