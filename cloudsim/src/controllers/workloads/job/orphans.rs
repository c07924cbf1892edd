//! Removes the finalizer from pods whose job is deleted, finished or no longer their controller: nothing counts them, and they could
//! never be deleted.
//!
//! Source: Kubernetes' job controller (`syncOrphanPod`).

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, stream};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Resource, ResourceExt};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Cluster, is_foreign, outcome::is_finished, tally::is_tracked, untrack};
use crate::controllers::{
    informers::{Change, Failure},
    panics::catch_panic,
    workloads::{pods::controller_of, shared::CONCURRENT_WRITES},
};

/// The wait after a failed call.
const ERROR_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Namespace and name of a pod.
type Key = (String, String);

/// Runs until `stop`.
pub(super) async fn run(cluster: Cluster, stop: CancellationToken) {
    let (mut pods, mut jobs) = (cluster.pods.listen(), cluster.jobs.listen());
    let mut again = tokio::time::interval(ERROR_RETRY_INTERVAL);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pending: BTreeSet<Key> = cluster
        .pods
        .all()
        .iter()
        .filter(|pod| is_tracked(pod))
        .map(|pod| key(pod))
        .collect();
    loop {
        release_all(&cluster, &mut pending).await;
        // every branch can be dropped at its await: messages stay in their channel, and ticks come again
        clock::select! {
            () = stop.cancelled() => return,
            Some(change) = pods.recv() => pending.extend(of_pod(&change)),
            Some(change) = jobs.recv() => pending.extend(of_job(&cluster, &change)),
            _ = again.tick(), if !pending.is_empty() => {}
        }
    }
}

fn key(pod: &Pod) -> Key {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}

fn of_pod(change: &Change<Pod>) -> Option<Key> {
    (!change.gone && is_tracked(&change.object)).then(|| key(&change.object))
}

/// Returns the pods of a deleted job. A finished one is handled by its own reconciliation.
fn of_job(cluster: &Cluster, change: &Change<Job>) -> Vec<Key> {
    if !change.gone {
        return Vec::new();
    }
    let pods = cluster
        .pods
        .controlled_by(change.object.metadata.uid.as_deref().unwrap_or_default());
    pods.iter()
        .filter(|pod| is_tracked(pod))
        .map(|pod| key(pod))
        .collect()
}

/// Removes the finalizer from pods whose job is gone; those for which that fails stay in `pending`.
async fn release_all(cluster: &Cluster, pending: &mut BTreeSet<Key>) {
    let looked = stream::iter(std::mem::take(pending)).map(|key| async move {
        let done = catch_panic("job", &key.1, release_one(cluster, &key)).await;
        (key, done)
    });
    let looked: Vec<_> = looked.buffer_unordered(CONCURRENT_WRITES).collect().await;
    for (key, done) in looked {
        if matches!(done, Ok(Ok(()))) {
            continue;
        }
        if let Ok(Err(error)) = done
            && !error.is_conflict()
        {
            warn!(
                pod = key.1,
                error = &error as &dyn std::error::Error,
                "failed to remove finalizer from an orphaned pod; retrying"
            );
        }
        pending.insert(key);
    }
}

async fn release_one(cluster: &Cluster, (namespace, name): &Key) -> Result<(), Failure> {
    let Some(pod) = cluster
        .pods
        .get(namespace, name)
        .filter(|pod| is_tracked(pod))
    else {
        return Ok(());
    };
    let owner = controller_of(&*pod).filter(|owner| owner.kind == Job::kind(&()));
    if let Some(owner) = owner {
        let is_it = |job: &Job| job.metadata.uid.as_deref() == Some(owner.uid.as_str());
        let needs_it = |job: &Job| is_it(job) && (!is_finished(job) || is_foreign(job));
        if cluster
            .jobs
            .get(namespace, &owner.name)
            .is_some_and(|job| needs_it(&job))
        {
            return Ok(());
        }
        // the cache may be behind
        let live = cluster.beside::<Job>(&*pod).get_opt(&owner.name).await?;
        if live.is_some_and(|job| needs_it(&job)) {
            return Ok(());
        }
    }
    untrack(cluster, &[pod]).await
}
