//! Disruption budgets: how many of a budget's pods may be evicted now. The API's `eviction` decrements the number; this controller
//! recomputes it when pods or their controllers change.
//!
//! Source: Kubernetes' disruption controller.

use std::{collections::BTreeMap, sync::Arc};

use crate::controllers::reconciler::Action;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        core::v1::{Pod, ReplicationController},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DynamicObject, GroupVersionKind},
    discovery,
    runtime::reflector::ObjectRef,
};
use tokio_util::sync::CancellationToken;

mod status;

use self::status::Expected;
use super::{
    events::{Component, NewEvent},
    informers::{Change, Failure, Informer, Triggers, work},
    workloads::{cluster, pods::controller_of},
};

cluster!(Cluster {
    budgets: PodDisruptionBudget,
    pods: Pod,
    deployments: Deployment,
    replica_sets: ReplicaSet,
    replication_controllers: ReplicationController,
    stateful_sets: StatefulSet
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let budgets = cluster.budgets.clone();
    let selecting = move |change: &Change<Pod>| {
        let budgets = budgets.in_namespace(&change.object.namespace().unwrap_or_default());
        let selects = |budget: &&Arc<PodDisruptionBudget>| {
            change.states().any(|pod| status::selects(budget, pod)) && status::matters(change)
        };
        budgets
            .iter()
            .filter(selects)
            .map(|budget| ObjectRef::from_obj(&**budget))
            .collect::<Vec<_>>()
    };
    let triggers = Triggers::none()
        .and(&cluster.pods, selecting)
        .and(
            &cluster.deployments,
            scaled_budgets(&cluster.budgets, |one: &Deployment| {
                one.spec.as_ref()?.replicas
            }),
        )
        .and(
            &cluster.replica_sets,
            scaled_budgets(&cluster.budgets, |one: &ReplicaSet| {
                one.spec.as_ref()?.replicas
            }),
        )
        .and(
            &cluster.replication_controllers,
            scaled_budgets(&cluster.budgets, |one: &ReplicationController| {
                one.spec.as_ref()?.replicas
            }),
        )
        .and(
            &cluster.stateful_sets,
            scaled_budgets(&cluster.budgets, |one: &StatefulSet| {
                one.spec.as_ref()?.replicas
            }),
        );
    let queue = (cluster.queues.queue("disruption"), cluster.budgets.clone());
    work(queue, triggers, cluster, reconcile, stop).await;
}

/// Returns the budgets beside a controller whose replicas have changed.
fn scaled_budgets<K: Resource + 'static>(
    budgets: &Informer<PodDisruptionBudget>,
    replicas: impl Fn(&K) -> Option<i32> + Send + 'static,
) -> impl Fn(&Change<K>) -> Vec<ObjectRef<PodDisruptionBudget>> + Send + 'static {
    let budgets = budgets.clone();
    move |change| {
        let is_same = change
            .before
            .as_ref()
            .is_some_and(|before| replicas(before) == replicas(&change.object));
        if is_same && !change.gone {
            return Vec::new();
        }
        let beside = budgets.in_namespace(&change.object.namespace().unwrap_or_default());
        beside
            .iter()
            .map(|budget| ObjectRef::from_obj(&**budget))
            .collect()
    }
}

async fn reconcile(
    budget: Arc<PodDisruptionBudget>,
    cluster: Arc<Cluster>,
) -> Result<Action, Failure> {
    if budget.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let mut pods = cluster
        .pods
        .in_namespace(&budget.namespace().unwrap_or_default());
    pods.retain(|pod| status::selects(&budget, pod));
    let now = clock::now();
    if pods.is_empty() {
        record(
            &cluster,
            &budget,
            NewEvent::normal(
                Component::Disruption,
                "NoPods",
                "No matching pods found".into(),
            ),
        );
    }
    let expected = match status::needs_scale(&budget) {
        false => Ok(Expected::pods(&pods)),
        true => scale(&budget, &pods, &cluster).await?.map(Expected::scale),
    };
    if let Err(message) = &expected {
        let message = format!("Failed to calculate the number of expected pods: {message}");
        let told = NewEvent::warning(
            Component::Disruption,
            "CalculateExpectedPodCountFailed",
            message,
        );
        record(&cluster, &budget, told);
    }
    let (status, look_again) = match expected {
        Ok(expected) => status::status(&budget, &pods, expected, now),
        Err(message) => (status::failed_status(&budget, &message, now), None),
    };
    cluster
        .write_status(&cluster.budgets, &*budget, &budget.status, &status)
        .await?;
    Ok(look_again.map_or_else(Action::await_change, Action::requeue))
}

fn record(cluster: &Cluster, budget: &PodDisruptionBudget, told: NewEvent) {
    cluster.events.record(budget, told);
}

/// Returns how many pods the controllers of these pods want together, or why that is unknown.
async fn scale(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    cluster: &Cluster,
) -> Result<Result<i32, String>, Failure> {
    let mut scales: BTreeMap<String, i32> = BTreeMap::new();
    let mut unmanaged = Vec::new();
    for pod in pods {
        let Some(owner) = controller_of(&**pod) else {
            unmanaged.push(pod.name_any());
            continue;
        };
        if scales.contains_key(&owner.uid) {
            continue;
        }
        match of_controller(pod, owner, cluster).await? {
            Ok((uid, replicas)) => {
                scales.insert(owner.uid.clone(), 0);
                scales.insert(uid, replicas);
            }
            Err(message) => return Ok(Err(message)),
        }
    }
    if !unmanaged.is_empty() {
        let message = format!(
            "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
            status::selector_text(budget)
        );
        record(
            cluster,
            budget,
            NewEvent::warning(Component::Disruption, "UnmanagedPods", message),
        );
    }
    Ok(Ok(scales
        .values()
        .fold(0, |sum, replicas| sum.saturating_add(*replicas))))
}

/// Returns the uid of the controller that determines the number of pods, and that number.
async fn of_controller(
    pod: &Pod,
    owner: &OwnerReference,
    cluster: &Cluster,
) -> Result<Result<(String, i32), String>, Failure> {
    let namespace = pod.namespace().unwrap_or_default();
    let unknown = || Err(format!("found no controllers for pod {:?}", pod.name_any()));
    let found = match owner.kind.as_str() {
        "ReplicaSet" => cluster
            .replica_sets
            .get(&namespace, &owner.name)
            .map(|set| {
                let above = controller_of(&*set).filter(|above| above.kind == "Deployment");
                let above =
                    above.and_then(|above| cluster.deployments.get(&namespace, &above.name));
                match above {
                    Some(one) => (one.uid(), one.spec.as_ref().and_then(|spec| spec.replicas)),
                    None => (set.uid(), set.spec.as_ref().and_then(|spec| spec.replicas)),
                }
            }),
        "ReplicationController" => cluster
            .replication_controllers
            .get(&namespace, &owner.name)
            .map(|one| (one.uid(), one.spec.as_ref().and_then(|spec| spec.replicas))),
        "StatefulSet" => cluster
            .stateful_sets
            .get(&namespace, &owner.name)
            .map(|set| (set.uid(), set.spec.as_ref().and_then(|spec| spec.replicas))),
        _ => return of_other(&namespace, owner, cluster).await,
    };
    Ok(found.map_or_else(unknown, |(uid, replicas)| {
        Ok((uid.unwrap_or_default(), replicas.unwrap_or(1)))
    }))
}

/// Reads the number from the `scale` subresource of any kind.
async fn of_other(
    namespace: &str,
    owner: &OwnerReference,
    cluster: &Cluster,
) -> Result<Result<(String, i32), String>, Failure> {
    let (group, version) = owner
        .api_version
        .split_once('/')
        .unwrap_or(("", &owner.api_version));
    let gvk = GroupVersionKind::gvk(group, version, &owner.kind);
    let (resource, capabilities) = match discovery::pinned_kind(&cluster.client, &gvk).await {
        Ok(found) => found,
        Err(kube::Error::Discovery(_)) => return Ok(Err(format!("{} is not served", owner.kind))),
        Err(error) => return Err(error.into()),
    };
    if !capabilities
        .subresources
        .iter()
        .any(|(sub, _)| sub.plural == "scale" || sub.plural.ends_with("/scale"))
    {
        let dot = if group.is_empty() { "" } else { "." };
        return Ok(Err(format!(
            "{}{dot}{group} does not implement the scale subresource",
            resource.plural
        )));
    }
    let api = Api::<DynamicObject>::namespaced_with(cluster.client.clone(), namespace, &resource);
    match api.get_scale(&owner.name).await {
        Ok(scale) => {
            let replicas = scale
                .spec
                .and_then(|spec| spec.replicas)
                .unwrap_or_default();
            Ok(Ok((owner.uid.clone(), replicas)))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Err(format!(
            "found no controller {} {:?}",
            owner.kind, owner.name
        ))),
        Err(error) => Err(error.into()),
    }
}
