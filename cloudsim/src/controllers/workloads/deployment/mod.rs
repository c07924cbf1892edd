//! Deployments: one replica set for each template, and the rollout from one to the next.

use std::{sync::Arc, time::Duration};

use crate::controllers::reconciler::Action;
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use serde_json::json;
use tokio_util::sync::CancellationToken;

mod revision;
mod rollout;
mod status;

pub(crate) use rollout::amount;

use self::rollout::{DESIRED, Limits, MAXIMUM, Set};
use super::{
    cluster::cluster,
    pods::{controller_of, is_finished},
    triggers::adopters,
};
use crate::controllers::{
    events::{Component, NewEvent},
    informers::{Change, Failure, Triggers, work},
};

cluster!(Cluster {
    deployments: Deployment,
    replica_sets: ReplicaSet,
    pods: Pod
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let triggers = Triggers::none().and_owned(&cluster.replica_sets).and(
        &cluster.replica_sets,
        adopters(&cluster.deployments, |deployment| {
            deployment.spec.as_ref().map(|spec| spec.selector.clone())
        }),
    );
    let triggers = triggers.and(&cluster.pods, on_last_pod_deleted(&cluster));
    let queue = (
        cluster.queues.queue("deployment"),
        cluster.deployments.clone(),
    );
    work(queue, triggers, cluster, reconcile, stop).await;
}

/// `Recreate` waits until the last pod is deleted, which no replica set reports.
fn on_last_pod_deleted(
    cluster: &Cluster,
) -> impl Fn(&Change<Pod>) -> Option<ObjectRef<Deployment>> + Send + use<> {
    let cluster = cluster.clone();
    move |change| {
        let namespace = change.object.namespace()?;
        let set = change.gone.then(|| controller_of(&*change.object))??;
        let set = cluster.replica_sets.get(&namespace, &set.name)?;
        let deployment = cluster
            .deployments
            .get(&namespace, &controller_of(&*set)?.name)?;
        let recreates = deployment
            .spec
            .as_ref()?
            .strategy
            .as_ref()?
            .type_
            .as_deref()
            == Some("Recreate");
        recreates.then(|| ObjectRef::from_obj(&*deployment))
    }
}

/// The replica sets of a deployment.
struct Sets {
    /// The replica set of the present template.
    new: Option<Arc<ReplicaSet>>,
    /// The others, the oldest first.
    old: Vec<Arc<ReplicaSet>>,
}

impl Sets {
    fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.new.iter().chain(&self.old)
    }
}

async fn reconcile(deployment: Arc<Deployment>, cluster: Arc<Cluster>) -> Result<Action, Failure> {
    let Some(spec) = &deployment.spec else {
        return Ok(Action::await_change());
    };
    let sets = find(&deployment, &cluster).await?;
    if deployment.meta().deletion_timestamp.is_some() {
        return report(&deployment, &sets, &cluster).await;
    }
    let limits = Limits::of(&deployment);
    let all: Vec<_> = sets.all().map(|set| Set::of(set)).collect();
    let paused = spec.paused == Some(true);
    if let Some(scalings) = rollout::proportional(limits, &all) {
        scale(&deployment, limits, &sets, scalings, &cluster).await?;
        return report(&deployment, &find(&deployment, &cluster).await?, &cluster).await;
    }
    if paused {
        return report(&deployment, &sets, &cluster).await;
    }
    let recreates = spec
        .strategy
        .as_ref()
        .and_then(|strategy| strategy.type_.as_deref())
        == Some("Recreate");
    let sets = if recreates {
        recreate(&deployment, sets, limits, &cluster).await?
    } else {
        roll(&deployment, sets, limits, &cluster).await?
    };
    revision::clean_up(&deployment, &sets.old, &cluster).await?;
    report(&deployment, &sets, &cluster).await
}

async fn find(deployment: &Arc<Deployment>, cluster: &Cluster) -> Result<Sets, Failure> {
    let Some(spec) = &deployment.spec else {
        return Ok(Sets {
            new: None,
            old: Vec::new(),
        });
    };
    let mut old = cluster
        .claim_objects(&cluster.replica_sets, &**deployment, &spec.selector)
        .await?;
    old.sort_by_key(|set| (set.metadata.creation_timestamp.clone(), set.name_any()));
    let new = old
        .iter()
        .position(|set| revision::is_of(set, &spec.template));
    let new = new.map(|at| old.remove(at));
    Ok(Sets { new, old })
}

async fn roll(
    deployment: &Arc<Deployment>,
    sets: Sets,
    limits: Limits,
    cluster: &Cluster,
) -> Result<Sets, Failure> {
    let old: Vec<_> = sets.old.iter().map(|set| Set::of(set)).collect();
    let total: i32 = old.iter().map(|set| set.wanted).sum();
    let first = (limits.maximum() - total).clamp(0, limits.desired);
    let new = revision::ensure(deployment, &sets, first, cluster).await?;
    let sets = Sets {
        new: Some(Arc::clone(&new)),
        old: sets.old,
    };
    let Some(scalings) = rollout::rolling(limits, &Set::of(&new), &old) else {
        return Ok(sets);
    };
    scale(deployment, limits, &sets, scalings, cluster).await?;
    find(deployment, cluster).await
}

/// The strategy `Recreate`: all old pods end before the first new one is created.
async fn recreate(
    deployment: &Arc<Deployment>,
    sets: Sets,
    limits: Limits,
    cluster: &Cluster,
) -> Result<Sets, Failure> {
    let running = sets.old.iter().filter(|set| Set::of(set).wanted > 0);
    let ending: Vec<_> = running.map(|set| (set.name_any(), 0)).collect();
    if !ending.is_empty() {
        scale(deployment, limits, &sets, ending, cluster).await?;
        return find(deployment, cluster).await;
    }
    let has_pods = |set: &Arc<ReplicaSet>| {
        let pods = cluster
            .pods
            .controlled_by(set.metadata.uid.as_deref().unwrap_or_default());
        pods.iter().any(|pod| !is_finished(pod))
    };
    if sets.old.iter().any(has_pods) {
        return Ok(sets);
    }
    let new = revision::ensure(deployment, &sets, limits.desired, cluster).await?;
    let sets = Sets {
        new: Some(Arc::clone(&new)),
        old: sets.old,
    };
    if Set::of(&new).wanted != limits.desired {
        scale(
            deployment,
            limits,
            &sets,
            vec![(new.name_any(), limits.desired)],
            cluster,
        )
        .await?;
    }
    find(deployment, cluster).await
}

/// Records the event that a replica set was scaled.
fn record_scaled(deployment: &Deployment, name: &str, from: i32, to: i32, cluster: &Cluster) {
    if from != to {
        let way = if from < to { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {name} from {from} to {to}");
        cluster.events.record(
            deployment,
            NewEvent::normal(Component::Deployment, "ScalingReplicaSet", message),
        );
    }
}

/// Scales replica sets, and annotates them with the deployment's wanted number.
async fn scale(
    deployment: &Deployment,
    limits: Limits,
    sets: &Sets,
    scalings: Vec<rollout::Scaling>,
    cluster: &Cluster,
) -> Result<(), Failure> {
    for (name, replicas) in scalings {
        let Some(set) = sets.all().find(|set| set.name_any() == name) else {
            continue;
        };
        let annotations =
            json!({DESIRED: limits.desired.to_string(), MAXIMUM: limits.maximum().to_string()});
        let patch = json!({
            "metadata": {"resourceVersion": set.resource_version(), "annotations": annotations},
            "spec": {"replicas": replicas},
        });
        // fails if the replica set's controller wrote its status meanwhile, which then counts
        cluster.patch(&cluster.replica_sets, &**set, &patch).await?;
        record_scaled(deployment, &name, Set::of(set).wanted, replicas, cluster);
    }
    Ok(())
}

async fn report(
    deployment: &Arc<Deployment>,
    sets: &Sets,
    cluster: &Cluster,
) -> Result<Action, Failure> {
    let now = clock::now();
    let (new, old): (Vec<_>, Vec<_>) = (
        sets.new.as_deref().into_iter().collect(),
        sets.old.iter().map(|set| &**set).collect(),
    );
    let status = status::status(deployment, new.first().copied(), &old, now);
    let look_again = status::deadline_in(deployment, &status, now);
    cluster
        .write_status(
            &cluster.deployments,
            &**deployment,
            &deployment.status,
            &status,
        )
        .await?;
    Ok(look_again.map_or_else(Action::await_change, |left| {
        Action::requeue(left.max(Duration::from_secs(1)))
    }))
}
