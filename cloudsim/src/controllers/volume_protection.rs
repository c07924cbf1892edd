//! Keeps claims and volumes that are used: removes the finalizers `kubernetes.io/pvc-protection` and `kubernetes.io/pv-protection` from
//! deleted ones that nothing uses, and adds them to those that lack them.
//!
//! Source: Kubernetes' pvc-protection and pv-protection controllers.

use std::sync::Arc;

use crate::controllers::reconciler::Action;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    runtime::reflector::ObjectRef,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    informers::{Change, Failure, Triggers, work},
    scheduler::claims_of,
    workloads::{Shared, cluster, or_null},
};

/// The finalizer of claims.
const CLAIM: &str = "kubernetes.io/pvc-protection";
/// The finalizer of volumes.
const VOLUME: &str = "kubernetes.io/pv-protection";

cluster!(Claims {
    claims: PersistentVolumeClaim,
    pods: Pod
});
cluster!(Volumes {
    volumes: PersistentVolume
});

/// Protects claims until `stop`.
pub(crate) async fn run_claims(cluster: Claims, stop: CancellationToken) {
    let triggers = Triggers::none().and(&cluster.pods, |change: &Change<Pod>| {
        let is_over = change.gone || !uses_node(&change.object);
        let namespace = change.object.namespace().unwrap_or_default();
        let names = if is_over {
            claims_of(&change.object)
        } else {
            Vec::new()
        };
        names
            .into_iter()
            .map(move |name| ObjectRef::new(&name).within(&namespace))
    });
    let queue = (
        cluster.queues.queue("persistentvolumeclaim-protection"),
        cluster.claims.clone(),
    );
    work(queue, triggers, cluster, protect_claim, stop).await;
}

/// Protects volumes until `stop`.
pub(crate) async fn run_volumes(cluster: Volumes, stop: CancellationToken) {
    let queue = (
        cluster.queues.queue("persistentvolume-protection"),
        cluster.volumes.clone(),
    );
    work(queue, Triggers::none(), cluster, protect_volume, stop).await;
}

/// Reports whether a node may run the pod. A node does not start a pod whose claim is being deleted.
fn uses_node(pod: &Pod) -> bool {
    pod.spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.as_ref().is_some_and(|node| !node.is_empty()))
}

fn uses(pod: &Pod, claim: &str) -> bool {
    uses_node(pod) && claims_of(pod).iter().any(|own| own == claim)
}

async fn protect_claim(
    claim: Arc<PersistentVolumeClaim>,
    cluster: Arc<Claims>,
) -> Result<Action, Failure> {
    let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
    if claim.metadata.deletion_timestamp.is_some()
        && claim.finalizers().iter().any(|own| own == CLAIM)
    {
        let is_used = cluster
            .pods
            .in_namespace(&namespace)
            .iter()
            .any(|pod| uses(pod, &name));
        // the cache may be behind
        if is_used || is_used_now(&cluster, &namespace, &name).await? {
            return Ok(Action::await_change());
        }
    }
    if let Some(patch) = change(&*claim, CLAIM) {
        cluster.patch(&cluster.claims, &*claim, &patch).await?;
    }
    Ok(Action::await_change())
}

async fn is_used_now(cluster: &Shared, namespace: &str, claim: &str) -> Result<bool, Failure> {
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), namespace)
        .list(&ListParams::default())
        .await?;
    Ok(pods.items.iter().any(|pod| uses(pod, claim)))
}

async fn protect_volume(
    volume: Arc<PersistentVolume>,
    cluster: Arc<Volumes>,
) -> Result<Action, Failure> {
    let is_bound = volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        == Some("Bound");
    if volume.metadata.deletion_timestamp.is_some() && is_bound {
        return Ok(Action::await_change());
    }
    if let Some(patch) = change(&*volume, VOLUME) {
        let volumes = Api::<PersistentVolume>::all(cluster.client.clone());
        match volumes
            .patch(
                &volume.name_any(),
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await
        {
            Ok(written) => cluster.volumes.wrote(written),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Action::await_change())
}

/// Returns the patch that adds the finalizer, or removes it from an object that is being deleted; `None` if nothing is to be done.
fn change(object: &impl ResourceExt, finalizer: &str) -> Option<Value> {
    let has = object.finalizers().iter().any(|own| own == finalizer);
    let is_deleting = object.meta().deletion_timestamp.is_some();
    if has != is_deleting {
        return None;
    }
    let mut finalizers: Vec<&str> = object.finalizers().iter().map(String::as_str).collect();
    if is_deleting {
        finalizers.retain(|own| *own != finalizer);
    } else {
        finalizers.push(finalizer);
    }
    Some(
        json!({"metadata": {"uid": object.uid(), "resourceVersion": object.resource_version(),
        "finalizers": or_null(&finalizers)}}),
    )
}
