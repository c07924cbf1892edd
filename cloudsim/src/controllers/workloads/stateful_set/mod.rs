//! Stateful sets: pods with stable names and claims, created and deleted in order.

use std::{sync::Arc, time::Duration};

use crate::controllers::reconciler::Action;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus},
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::ResourceExt;
use tokio_util::sync::CancellationToken;

mod plan;
mod retention;

use self::plan::{Set, Step};
use super::{
    cluster::cluster,
    hash,
    history::{self, Observed, Owner},
    pods::{is_available, is_ready, phase},
    replica_set::count,
    triggers::adopters,
};
use crate::controllers::{
    api_status,
    events::{Component, NewEvent},
    informers::{Failure, Triggers, work},
};

cluster!(Cluster {
    stateful_sets: StatefulSet,
    pods: Pod,
    claims: PersistentVolumeClaim,
    revisions: ControllerRevision
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let triggers = Triggers::none().and_owned(&cluster.pods).and(
        &cluster.pods,
        adopters(&cluster.stateful_sets, |set| {
            set.spec.as_ref().map(|spec| spec.selector.clone())
        }),
    );
    let queue = (
        cluster.queues.queue("statefulset"),
        cluster.stateful_sets.clone(),
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

async fn reconcile(set: Arc<StatefulSet>, cluster: Arc<Cluster>) -> Result<Action, Failure> {
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
        present: update,
    }) = history::observe(&owner, &cluster.history()).await?
    else {
        return Ok(Action::await_change());
    };
    let current = current(&set, &revisions, &update);
    let now = clock::now();
    let view = Set {
        object: &set,
        current: current.name_any(),
        update: update.name_any(),
    };
    retention::apply(&view, &pods, &cluster).await?;
    let steps = plan::steps(&view, &pods, now);
    let mut wait: Option<Duration> = None;
    for step in steps {
        match step {
            Step::Create(ordinal) => {
                create(&set, ordinal, &view, &current, &update, &cluster).await?
            }
            Step::Delete(pod) => {
                // a failed pod is kept during its back-off: the next one may fail too
                let (uid, generation) = (
                    set.metadata.uid.as_deref().unwrap_or_default(),
                    set.metadata.generation,
                );
                let place = format!("{uid}/{generation:?}/{}", pod.name_any());
                let left = (phase(&pod) == "Failed")
                    .then(|| cluster.failures.remaining_delay(&place, &pod, now))
                    .flatten();
                if left.is_some() {
                    wait = wait.into_iter().chain(left).min();
                    continue;
                }
                cluster.delete(&cluster.pods, &*pod).await?;
                record(
                    &set,
                    "SuccessfulDelete",
                    format!("delete Pod {}", pod.name_any()),
                    &cluster,
                );
            }
        }
    }
    let pods = cluster
        .pods
        .controlled_by(set.metadata.uid.as_deref().unwrap_or_default());
    let status = status(&view, &pods, now);
    let in_use: Vec<_> = pods
        .iter()
        .filter_map(|pod| pod.labels().get(hash::REVISION).cloned())
        .collect();
    cluster
        .write_status(&cluster.stateful_sets, &*set, &set.status, &status)
        .await?;
    let kept = [history::label(&current), history::label(&update)];
    let in_use: Vec<_> = in_use.iter().chain(&kept).map(String::as_str).collect();
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

/// Returns the revision before the present one, until all pods have the present one.
fn current(
    set: &StatefulSet,
    revisions: &[Arc<ControllerRevision>],
    update: &Arc<ControllerRevision>,
) -> Arc<ControllerRevision> {
    let name = set
        .status
        .as_ref()
        .and_then(|status| status.current_revision.clone());
    let known = revisions
        .iter()
        .find(|revision| name.as_ref() == revision.metadata.name.as_ref());
    Arc::clone(known.unwrap_or(update))
}

async fn create(
    set: &StatefulSet,
    ordinal: i32,
    view: &Set<'_>,
    current: &ControllerRevision,
    update: &ControllerRevision,
    cluster: &Cluster,
) -> Result<(), Failure> {
    for claim in plan::claims(set, ordinal) {
        let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
        if cluster.claims.get(&namespace, &name).is_none() {
            match cluster.create(&cluster.claims, &claim).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                result => {
                    result?;
                    let what = format!("create Claim {name} Pod {}-{ordinal}", set.name_any());
                    record(set, "SuccessfulCreate", what, cluster);
                }
            }
        }
    }
    let revision = if view.is_updated(ordinal) {
        update
    } else {
        current
    };
    let pod = plan::pod(set, ordinal, revision);
    match cluster.create(&cluster.pods, &pod).await {
        // the name is taken: its pod is being deleted, or has another owner
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => {
            let message = format!(
                "create Pod {} in StatefulSet {} failed error: {}",
                pod.name_any(),
                set.name_any(),
                api_status::text(&error)
            );
            cluster.events.record(
                set,
                NewEvent::warning(Component::StatefulSet, "FailedCreate", message),
            );
            Err(error.into())
        }
        Ok(_) => {
            record(
                set,
                "SuccessfulCreate",
                format!("create Pod {}", pod.name_any()),
                cluster,
            );
            Ok(())
        }
    }
}

fn record(set: &StatefulSet, reason: &'static str, what: String, cluster: &Cluster) {
    let message = format!("{what} in StatefulSet {} successful", set.name_any());
    cluster.events.record(
        set,
        NewEvent::normal(Component::StatefulSet, reason, message),
    );
}

fn status(view: &Set<'_>, pods: &[Arc<Pod>], now: Timestamp) -> StatefulSetStatus {
    let set = view.object;
    let min_ready = set
        .spec
        .as_ref()
        .and_then(|spec| spec.min_ready_seconds)
        .unwrap_or_default();
    let replicas = set
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    let count =
        |wanted: &dyn Fn(&Pod) -> bool| count(pods.iter().filter(|pod| wanted(pod)).count());
    let is_of = |pod: &Pod, name: &str| {
        pod.labels()
            .get(hash::REVISION)
            .is_some_and(|own| own == name)
    };
    let updated = count(&|pod| is_of(pod, &view.update));
    let ready = count(&is_ready);
    let some = |number: i32| (number > 0).then_some(number);
    // when all pods have the new revision, it is the current one
    let complete = updated == replicas && ready == replicas && count(&|_| true) == replicas;
    let current = if complete {
        &view.update
    } else {
        &view.current
    };
    StatefulSetStatus {
        replicas: count(&|_| true),
        ready_replicas: some(ready),
        available_replicas: Some(count(&|pod| is_available(pod, min_ready, now))),
        current_replicas: some(count(&|pod| is_of(pod, current))),
        updated_replicas: some(updated),
        current_revision: Some(current.clone()),
        update_revision: Some(view.update.clone()),
        observed_generation: set.metadata.generation,
        collision_count: Some(
            set.status
                .as_ref()
                .and_then(|status| status.collision_count)
                .unwrap_or_default(),
        ),
        conditions: None,
    }
}
