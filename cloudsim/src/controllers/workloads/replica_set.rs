//! Keeps as many pods of a replica set as it asks for.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetStatus},
    core::v1::Pod,
};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
    runtime::controller::Action,
};
use tokio_util::sync::CancellationToken;

use super::{
    backoff::after_refusals,
    cluster::Cluster,
    conditions::Condition,
    pods::{deletion_rank, from_template, is_active, is_available, is_ready},
    triggers::adopters,
};
use crate::controllers::{
    events::Component,
    informers::{Failure, Triggers, work},
};

/// The most pods that one reconciliation makes or deletes; the rest follows in the next.
const BURST: usize = 500;

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let triggers = Triggers::none().and_owned(&cluster.pods).and(
        &cluster.pods,
        adopters(&cluster.replica_sets, |set| set.spec.as_ref().map(|spec| &spec.selector)),
    );
    let queue = (cluster.queues.named("replicaset"), cluster.replica_sets.clone());
    work(queue, triggers, cluster, reconcile, stop).await;
}

async fn reconcile(set: Arc<ReplicaSet>, cluster: Arc<Cluster>) -> Result<Action, Failure> {
    let Some(spec) = &set.spec else { return Ok(Action::await_change()) };
    let desired = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default();
    let mut pods = cluster.claimed(&cluster.pods, &*set, &spec.selector).await?;
    // a node that refuses a pod refuses the next one too
    let wait = after_refusals(pods.iter().map(|pod| &**pod), Timestamp::now());
    pods.retain(|pod| is_active(pod));
    let waits = wait.is_some() && pods.len() < desired;
    let mut failed = None;
    if set.metadata.deletion_timestamp.is_none() && !waits {
        failed = scale(&cluster, &set, pods, desired).await?;
        pods = cluster.controlled_by_active(&set);
    }
    let now = Timestamp::now();
    let status = status(&set, &pods, failed.as_ref(), now);
    cluster.write_status(&cluster.replica_sets, &*set, &set.status, &status).await?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    if let Some(wait) = wait.filter(|_| waits) {
        return Ok(Action::requeue(wait));
    }
    let active = cluster.controlled_by_active(&set).len();
    if active != desired && set.metadata.deletion_timestamp.is_none() {
        // more than one burst
        return Ok(Action::requeue(Duration::ZERO));
    }
    Ok(super::until_available(&pods, spec.min_ready_seconds, now))
}

/// Makes what is missing, deletes what is too much. Answers why pods could not be made, which the status says too.
async fn scale(
    cluster: &Cluster,
    set: &ReplicaSet,
    mut pods: Vec<Arc<Pod>>,
    desired: usize,
) -> Result<Option<kube::Error>, Failure> {
    if let Some(missing) = desired.checked_sub(pods.len()).filter(|missing| *missing > 0) {
        let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
        let made = vec![from_template(&template, set); missing.min(BURST)];
        return Ok(cluster.create_pods(set, Component::ReplicaSet, made).await.err());
    }
    let surplus = pods.len() - desired;
    pods.sort_by_cached_key(|pod| deletion_rank(pod));
    pods.truncate(surplus.min(BURST));
    cluster.delete_pods(set, Component::ReplicaSet, pods).await?;
    Ok(None)
}

impl Cluster {
    fn controlled_by_active(&self, set: &ReplicaSet) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.controlled_by(set.metadata.uid.as_deref().unwrap_or_default());
        pods.retain(|pod| is_active(pod));
        pods
    }
}

fn status(
    set: &ReplicaSet,
    pods: &[Arc<Pod>],
    failed: Option<&kube::Error>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or_default();
    let labels = set.spec.as_ref().and_then(|spec| spec.template.as_ref()?.metadata.as_ref()?.labels.clone());
    let labels: Selector = labels.unwrap_or_default().into_iter().collect();
    let count = |wanted: &dyn Fn(&Pod) -> bool| count(pods.iter().filter(|pod| wanted(pod)).count());
    let some = |number| (number > 0).then_some(number);
    let old = set.status.clone().unwrap_or_default();
    let mut conditions = old.conditions.unwrap_or_default();
    match failed {
        Some(error) => Condition {
            type_: "ReplicaFailure",
            holds: true,
            reason: "FailedCreate",
            message: error.to_string(),
        }
        .set_replica_set(&mut conditions, now),
        None => conditions.retain(|condition| condition.type_ != "ReplicaFailure"),
    }
    ReplicaSetStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: some(count(&|pod| labels.matches(pod.labels()))),
        ready_replicas: some(count(&is_ready)),
        available_replicas: some(count(&|pod| is_available(pod, min_ready, now))),
        observed_generation: set.metadata.generation,
        conditions: (!conditions.is_empty()).then_some(conditions),
        ..old
    }
}

/// As the API counts.
pub(super) fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
