//! Takes the finalizer from pods whose job is gone, has ended or no longer controls them: nobody counts them, and with it they
//! would stay for ever.
//!
//! Source: Kubernetes' job controller (`syncOrphanPod`).

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, stream};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Resource, ResourceExt};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{ending::is_finished, is_foreign, tally::is_tracked, untrack};
use crate::controllers::{
    informers::{Change, Failure},
    workloads::{
        cluster::{CONCURRENT_WRITES, Cluster},
        pods::controller_of,
    },
};

/// After a failed call; the API is in this process or near it.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// Namespace and name of a pod.
type Key = (String, String);

/// Runs until `stop`.
pub(super) async fn run(cluster: Cluster, stop: CancellationToken) {
    let (mut pods, mut jobs) = (cluster.pods.listen(), cluster.jobs.listen());
    let complete = async {
        cluster.pods.completed().await;
        cluster.jobs.completed().await;
    };
    if stop.run_until_cancelled(complete).await.is_none() {
        return;
    }
    let mut again = tokio::time::interval(AFTER_ERROR);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pending: BTreeSet<Key> =
        cluster.pods.all().iter().filter(|pod| is_tracked(pod)).map(|pod| key(pod)).collect();
    loop {
        release_all(&cluster, &mut pending).await;
        // every arm can be dropped at its await: what waits in a channel stays there, and a tick comes again
        tokio::select! {
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

/// The pods of a job that is no more. Its end is noted by its own reconciliation.
fn of_job(cluster: &Cluster, change: &Change<Job>) -> Vec<Key> {
    if !change.gone {
        return Vec::new();
    }
    let pods = cluster.pods.controlled_by(change.object.metadata.uid.as_deref().unwrap_or_default());
    pods.iter().filter(|pod| is_tracked(pod)).map(|pod| key(pod)).collect()
}

/// Takes the finalizer off pods whose job is gone; those of which that fails stay in `pending`.
async fn release_all(cluster: &Cluster, pending: &mut BTreeSet<Key>) {
    let looked = stream::iter(std::mem::take(pending)).map(|key| async move {
        let done = release_one(cluster, &key).await;
        (key, done)
    });
    let looked: Vec<_> = looked.buffer_unordered(CONCURRENT_WRITES).collect().await;
    for (key, done) in looked {
        let Err(error) = done else { continue };
        if !error.is_race() {
            warn!(
                pod = key.1,
                error = &error as &dyn std::error::Error,
                "a pod without a job keeps its finalizer for now"
            );
        }
        pending.insert(key);
    }
}

async fn release_one(cluster: &Cluster, (namespace, name): &Key) -> Result<(), Failure> {
    let Some(pod) = cluster.pods.get(namespace, name).filter(|pod| is_tracked(pod)) else { return Ok(()) };
    let owner = controller_of(&*pod).filter(|owner| owner.kind == Job::kind(&()));
    if let Some(owner) = owner {
        let is_it = |job: &Job| job.metadata.uid.as_deref() == Some(owner.uid.as_str());
        let needs_it = |job: &Job| is_it(job) && (!is_finished(job) || is_foreign(job));
        if cluster.jobs.get(namespace, &owner.name).is_some_and(|job| needs_it(&job)) {
            return Ok(());
        }
        // the cache may be late
        let live = cluster.beside::<Job>(&*pod).get_opt(&owner.name).await?;
        if live.is_some_and(|job| needs_it(&job)) {
            return Ok(());
        }
    }
    untrack(cluster, &[pod]).await
}
