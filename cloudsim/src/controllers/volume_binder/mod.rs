//! Binds claims to persistent volumes: level-triggered, a full pass after each change. No volume is created, wiped or deleted here.
//!
//! Source: Kubernetes, "Persistent Volumes"; kube-controller-manager's persistentvolume-binder.

use std::time::Duration;

use clock::Instant;

use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::info;

mod choose;
mod unbound;

pub(crate) use self::choose::{SELECTED_NODE, is_compatible, is_pending, users};
use self::{
    choose::{STORAGE_PROVISIONER, Step, VolumeState},
    unbound::RecordedEvents,
};
use super::{
    informers::{Changes, Failure},
    panics::catch_panic,
    workloads::cluster,
};

/// The name in the log.
const NAME: &str = "persistentvolume-binder";

cluster!(Cluster {
    claims: PersistentVolumeClaim,
    volumes: PersistentVolume,
    classes: StorageClass,
    nodes: Node,
    pods: Pod
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let mut changes = Changes::default()
        .and(&cluster.claims)
        .and(&cluster.volumes)
        .and(&cluster.pods)
        .and(&cluster.classes);
    let work = async {
        let mut recorded = RecordedEvents::new(cluster.start);
        loop {
            let passing = pass(&cluster, &mut recorded);
            let again = catch_panic(NAME, "all claims", passing)
                .await
                .unwrap_or_else(Some);
            changes.wait(again).await;
        }
    };
    let _: Option<()> = stop.run_until_cancelled(Box::pin(work)).await;
}

/// Makes one pass; returns when the next one is needed although nothing changes.
async fn pass(cluster: &Cluster, recorded: &mut RecordedEvents) -> Option<Duration> {
    let (claims, classes) = (cluster.claims.all(), cluster.classes.all());
    let (volumes, pods, nodes) = (
        cluster.volumes.all(),
        cluster.pods.all(),
        cluster.nodes.all(),
    );
    let known = VolumeState {
        claims: &claims,
        volumes: &volumes,
        pods: &pods,
        nodes: &nodes,
        classes: &classes,
    };
    let steps = choose::steps(&known);
    let some_wait = recorded.record(&cluster.events, &known, &steps, Instant::now());
    let mut again = some_wait.then_some(unbound::REPEAT_INTERVAL);
    for step in steps {
        let object = step.object();
        // one object that cannot be written holds up no other
        if let Err(failure) = act(cluster, step).await {
            let wait = failure.log_and_wait(NAME, &object);
            again = again.into_iter().chain([wait]).min();
        }
    }
    again
}

async fn act(cluster: &Cluster, step: Step) -> Result<(), Failure> {
    match step {
        Step::Phase(volume, "Released") if has_claim(cluster, &volume).await? => Ok(()),
        Step::Phase(volume, phase) => status(cluster, &volume, phase).await,
        Step::Lost(claim) if has_volume(cluster, &claim).await? => Ok(()),
        Step::Lost(claim) => claim_status(cluster, &claim, &json!({"phase": "Lost"})).await,
        Step::Bind(claim, volume) => bind(cluster, &claim, &volume).await,
        Step::SetClass(claim, class) => {
            let patch = json!({"metadata": {"uid": claim.uid(), "resourceVersion": claim.resource_version()},
                "spec": {"storageClassName": class}});
            cluster.patch(&cluster.claims, &*claim, &patch).await
        }
        Step::Announce(claim, provisioner) => {
            let patch = json!({"metadata": {"uid": claim.uid(), "annotations": {STORAGE_PROVISIONER: provisioner}}});
            cluster.patch(&cluster.claims, &*claim, &patch).await
        }
    }
}

/// Asks the API whether the volume's claim exists: a cache lacks a claim also if it cannot be read, and the data of a volume whose claim
/// is gone may be deleted.
async fn has_claim(cluster: &Cluster, volume: &PersistentVolume) -> Result<bool, Failure> {
    let Some(owner) = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref())
    else {
        return Ok(false);
    };
    let (namespace, name) = (
        owner.namespace.clone().unwrap_or_default(),
        owner.name.clone().unwrap_or_default(),
    );
    let claims = Api::<PersistentVolumeClaim>::namespaced(cluster.client.clone(), &namespace);
    Ok(claims
        .get_metadata_opt(&name)
        .await?
        .is_some_and(|found| found.uid() == owner.uid))
}

/// Asks the API whether the claim's volume exists.
async fn has_volume(cluster: &Cluster, claim: &PersistentVolumeClaim) -> Result<bool, Failure> {
    let name = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.clone())
        .unwrap_or_default();
    let volumes = Api::<PersistentVolume>::all(cluster.client.clone());
    Ok(!name.is_empty() && volumes.get_metadata_opt(&name).await?.is_some())
}

/// Binds the volume first: a bound claim always has a volume that names it.
async fn bind(
    cluster: &Cluster,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<(), Failure> {
    let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
    let reference = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace, "name": name,
        "uid": claim.uid(), "resourceVersion": claim.resource_version()});
    // with the version that was examined: another claim may have been bound meanwhile
    let patch = json!({"metadata": {"resourceVersion": volume.resource_version()}, "spec": {"claimRef": reference}});
    let all = Api::<PersistentVolume>::all(cluster.client.clone());
    let written = all
        .patch(
            &volume.name_any(),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await?;
    cluster.volumes.wrote(written.clone());
    status(cluster, &written, "Bound").await?;
    let patch = json!({"metadata": {"uid": claim.uid(), "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume.name_any()}});
    cluster.patch(&cluster.claims, claim, &patch).await?;
    let spec = volume.spec.as_ref();
    let new = json!({"phase": "Bound", "accessModes": spec.and_then(|spec| spec.access_modes.clone()),
        "capacity": spec.and_then(|spec| spec.capacity.clone())});
    claim_status(cluster, claim, &new).await?;
    info!(
        namespace,
        claim = name,
        volume = volume.name_any(),
        "PersistentVolumeClaim bound"
    );
    Ok(())
}

async fn status(cluster: &Cluster, volume: &PersistentVolume, phase: &str) -> Result<(), Failure> {
    let all = Api::<PersistentVolume>::all(cluster.client.clone());
    let patch = Patch::Merge(json!({"status": {"phase": phase}}));
    match all
        .patch_status(&volume.name_any(), &PatchParams::default(), &patch)
        .await
    {
        Ok(written) => cluster.volumes.wrote(written),
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn claim_status(
    cluster: &Cluster,
    claim: &PersistentVolumeClaim,
    new: &Value,
) -> Result<(), Failure> {
    let api = cluster.beside::<PersistentVolumeClaim>(claim);
    let patch = Patch::Merge(json!({"status": new}));
    match api
        .patch_status(&claim.name_any(), &PatchParams::default(), &patch)
        .await
    {
        Ok(written) => cluster.claims.wrote(written),
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
