//! Maintains the number of pods of replica sets and replication controllers, which differ only in their types.

use std::{ops::Deref, sync::Arc, time::Duration};

use crate::controllers::reconciler::Action;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetStatus},
        core::v1::{Pod, PodTemplateSpec, ReplicationController},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{
    backoff::after_refusals,
    cluster::cluster,
    conditions::Condition,
    pods::{deletion_rank, from_template, is_active, is_available, is_ready},
    shared::{Namespaced, Shared},
    triggers::adopters,
};
use crate::controllers::{
    api_status,
    events::Component,
    informers::{Failure, Informer, Triggers, work},
};

mod controller;

/// The most pods that one reconciliation creates or deletes; the rest follows in the next.
const BURST: usize = 500;

/// An object that maintains a number of pods of one template.
pub(super) trait Replicas: Namespaced {
    /// The status type of the kind.
    type Status: Serialize + Send + Sync;

    /// The component of its events.
    const COMPONENT: Component;

    /// Returns the selector of its pods.
    fn selector(&self) -> Option<LabelSelector>;
    /// Returns the wanted number of pods.
    fn replicas(&self) -> i32;
    /// Returns the template of its pods.
    fn template(&self) -> Option<&PodTemplateSpec>;
    /// Returns how many seconds a pod must have been ready to be available.
    fn min_ready_seconds(&self) -> Option<i32>;
    /// Returns the stored status.
    fn stored_status(&self) -> &Option<Self::Status>;
    /// Returns the stored status in the form that both kinds share.
    fn common_status(&self) -> ReplicaSetStatus;
    /// Converts a status to that of the kind.
    fn of_common(status: ReplicaSetStatus) -> Self::Status;
}

impl Replicas for ReplicaSet {
    type Status = ReplicaSetStatus;

    const COMPONENT: Component = Component::ReplicaSet;

    fn selector(&self) -> Option<LabelSelector> {
        self.spec.as_ref().map(|spec| spec.selector.clone())
    }

    fn replicas(&self) -> i32 {
        self.spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn min_ready_seconds(&self) -> Option<i32> {
        self.spec.as_ref()?.min_ready_seconds
    }

    fn stored_status(&self) -> &Option<ReplicaSetStatus> {
        &self.status
    }

    fn common_status(&self) -> ReplicaSetStatus {
        self.status.clone().unwrap_or_default()
    }

    fn of_common(status: ReplicaSetStatus) -> ReplicaSetStatus {
        status
    }
}

cluster!(ReplicaSets {
    replica_sets: ReplicaSet,
    pods: Pod
});
cluster!(ReplicationControllers {
    replication_controllers: ReplicationController,
    pods: Pod
});

/// The objects of one of the two controllers.
struct Cluster<R> {
    shared: Shared,
    sets: Informer<R>,
    pods: Informer<Pod>,
}

impl<R> Deref for Cluster<R> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// Runs the controller of replica sets until `stop`.
pub(crate) async fn run(cluster: ReplicaSets, stop: CancellationToken) {
    let ReplicaSets {
        shared,
        replica_sets,
        pods,
    } = cluster;
    run_for(
        "replicaset",
        Cluster {
            shared,
            sets: replica_sets,
            pods,
        },
        stop,
    )
    .await;
}

/// Runs the controller of replication controllers until `stop`.
pub(crate) async fn run_replication(cluster: ReplicationControllers, stop: CancellationToken) {
    let ReplicationControllers {
        shared,
        replication_controllers,
        pods,
    } = cluster;
    run_for(
        "replicationmanager",
        Cluster {
            shared,
            sets: replication_controllers,
            pods,
        },
        stop,
    )
    .await;
}

async fn run_for<R: Replicas>(queue: &'static str, cluster: Cluster<R>, stop: CancellationToken) {
    let triggers = Triggers::none()
        .and_owned(&cluster.pods)
        .and(&cluster.pods, adopters(&cluster.sets, R::selector));
    let queue = (cluster.queues.queue(queue), cluster.sets.clone());
    work(queue, triggers, cluster, reconcile::<R>, stop).await;
}

async fn reconcile<R: Replicas>(set: Arc<R>, cluster: Arc<Cluster<R>>) -> Result<Action, Failure> {
    let Some(selector) = set.selector() else {
        return Ok(Action::await_change());
    };
    let desired = usize::try_from(set.replicas()).unwrap_or_default();
    let mut pods = cluster
        .claim_objects(&cluster.pods, &*set, &selector)
        .await?;
    // a node that refuses a pod refuses the next one too
    let wait = after_refusals(pods.iter().map(|pod| &**pod), clock::now());
    pods.retain(|pod| is_active(pod));
    let waits = wait.is_some() && pods.len() < desired;
    let is_deleted = set.meta().deletion_timestamp.is_some();
    let mut failed = None;
    if !is_deleted && !waits {
        failed = scale(&cluster, &*set, pods, desired).await?;
        pods = cluster.controlled_by_active(&*set);
    }
    let now = clock::now();
    let status = R::of_common(status(&*set, &pods, failed.as_ref(), now));
    cluster
        .write_status(&cluster.sets, &*set, set.stored_status(), &status)
        .await?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    if let Some(wait) = wait.filter(|_| waits) {
        return Ok(Action::requeue(wait));
    }
    let active = cluster.controlled_by_active(&*set).len();
    if active != desired && !is_deleted {
        // more than one burst
        return Ok(Action::requeue(Duration::ZERO));
    }
    Ok(super::until_available(&pods, set.min_ready_seconds(), now))
}

/// Creates missing pods and deletes surplus ones. Returns why pods could not be created, for the status.
async fn scale<R: Replicas>(
    cluster: &Cluster<R>,
    set: &R,
    mut pods: Vec<Arc<Pod>>,
    desired: usize,
) -> Result<Option<kube::Error>, Failure> {
    if let Some(missing) = desired
        .checked_sub(pods.len())
        .filter(|missing| *missing > 0)
    {
        let template = set.template().cloned().unwrap_or_default();
        let made = vec![from_template(&template, set); missing.min(BURST)];
        return Ok(cluster
            .create_pods(&cluster.pods, set, R::COMPONENT, made)
            .await
            .err());
    }
    let surplus = pods.len() - desired;
    pods.sort_by_cached_key(|pod| deletion_rank(pod));
    pods.truncate(surplus.min(BURST));
    cluster
        .delete_pods(&cluster.pods, set, R::COMPONENT, pods)
        .await?;
    Ok(None)
}

impl<R: Replicas> Cluster<R> {
    fn controlled_by_active(&self, set: &R) -> Vec<Arc<Pod>> {
        let mut pods = self
            .pods
            .controlled_by(set.meta().uid.as_deref().unwrap_or_default());
        pods.retain(|pod| is_active(pod));
        pods
    }
}

fn status<R: Replicas>(
    set: &R,
    pods: &[Arc<Pod>],
    failed: Option<&kube::Error>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let min_ready = set.min_ready_seconds().unwrap_or_default();
    let labels = set
        .template()
        .and_then(|template| template.metadata.as_ref()?.labels.clone());
    let labels: Selector = labels.unwrap_or_default().into_iter().collect();
    let count =
        |wanted: &dyn Fn(&Pod) -> bool| count(pods.iter().filter(|pod| wanted(pod)).count());
    let some = |number| (number > 0).then_some(number);
    let old = set.common_status();
    let mut conditions = old.conditions.unwrap_or_default();
    match failed {
        Some(error) => Condition {
            type_: "ReplicaFailure",
            holds: true,
            reason: "FailedCreate",
            message: api_status::text(error),
        }
        .set_replica_set(&mut conditions, now),
        None => conditions.retain(|condition| condition.type_ != "ReplicaFailure"),
    }
    ReplicaSetStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: some(count(&|pod| labels.matches(pod.labels()))),
        ready_replicas: some(count(&is_ready)),
        available_replicas: some(count(&|pod| is_available(pod, min_ready, now))),
        observed_generation: set.meta().generation,
        conditions: (!conditions.is_empty()).then_some(conditions),
        ..old
    }
}

/// Converts a count to the API's type.
pub(super) fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
