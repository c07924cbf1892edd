//! Provisions volumes of the class `standard`: a directory on the node of the first pod that uses the claim. The node's agent creates the
//! directory when the pod starts; when a released volume is deleted, a helper pod on that node removes it.
//!
//! Source: the provisioner of `rancher.io/local-path`, and sig-storage-lib-external-provisioner.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::info;

mod helper;
mod plan;

use self::plan::{FINALIZER, Step, StorageObjects};
use super::{
    events::{Component, NewEvent, PROVISIONER},
    informers::{Changes, Failure},
    panics::catch_panic,
    volume_binder::SELECTED_NODE,
    workloads::{cluster, or_null, pods::phase},
};

/// The name of the default class.
const STANDARD: &str = "standard";
/// The name in the log.
const NAME: &str = "persistentvolume-provisioner";
/// How often it is looked whether a helper pod that failed is to be replaced.
const HELPER_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Creates the default class if there is none of its name.
pub(crate) async fn ensure_class(client: &Client) -> Result<(), kube::Error> {
    let class = json!({
        "metadata": {"name": STANDARD, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let class: StorageClass = serde_json::from_value(class).map_err(kube::Error::SerdeError)?;
    match Api::<StorageClass>::all(client.clone())
        .create(&PostParams::default(), &class)
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        created => created.map(drop),
    }
}

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
        .and(&cluster.classes)
        .and(&cluster.nodes)
        .and(&cluster.pods);
    let mut provisioner = Provisioner {
        cluster,
        told: BTreeMap::new(),
    };
    let work = async {
        loop {
            let again = catch_panic(NAME, "all claims", provisioner.pass())
                .await
                .unwrap_or_else(Some);
            changes.wait(again).await;
        }
    };
    let _: Option<()> = stop.run_until_cancelled(Box::pin(work)).await;
}

struct Provisioner {
    cluster: Cluster,
    /// The last warning about each claim and volume, by uid: it is not repeated.
    told: BTreeMap<String, String>,
}

impl Provisioner {
    /// Makes one pass; returns when the next one is needed although nothing changes.
    async fn pass(&mut self) -> Option<Duration> {
        let (claims, volumes) = (self.cluster.claims.all(), self.cluster.volumes.all());
        let pods = self.cluster.pods.all();
        let steps = plan::steps(&StorageObjects {
            claims: &claims,
            volumes: &volumes,
            classes: &self.cluster.classes.all(),
            nodes: &self.cluster.nodes.all(),
            pods: &pods,
        });
        self.told.retain(|uid, _| {
            let is_it = |known: &Option<String>| known.as_ref() == Some(uid);
            claims.iter().any(|claim| is_it(&claim.metadata.uid))
                || volumes.iter().any(|volume| is_it(&volume.metadata.uid))
        });
        let has_failed_helper = pods
            .iter()
            .any(|pod| helper::volume_of(pod).is_some() && phase(pod) == "Failed");
        let mut again = has_failed_helper.then_some(HELPER_CHECK_INTERVAL);
        // one object that cannot be written holds up no other
        let mut check = |done: Result<(), Failure>, object: &str| {
            if let Err(failure) = done {
                let wait = failure.log_and_wait(NAME, object);
                again = again.into_iter().chain([wait]).min();
            }
        };
        for step in steps {
            let object = step.object();
            check(self.act(step).await, &object);
        }
        for pod in helper::leftover(&pods, &volumes) {
            check(
                self.cluster.delete(&self.cluster.pods, &**pod).await,
                &pod.name_any(),
            );
        }
        again
    }

    async fn act(&mut self, step: Step) -> Result<(), Failure> {
        match step {
            Step::Create(claim, volume) => self.create(&claim, *volume).await,
            Step::Refuse(claim, why) => {
                self.refuse(&claim, why);
                Ok(())
            }
            Step::Reselect(claim) => self.reselect(&claim).await,
            Step::Remove(volume) => self.remove(&volume).await,
            Step::Release(volume) => self.release(&volume).await,
        }
    }

    fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.cluster.client.clone())
    }

    async fn create(
        &mut self,
        claim: &PersistentVolumeClaim,
        volume: PersistentVolume,
    ) -> Result<(), Failure> {
        let name = volume.name_any();
        match self.volumes().create(&PostParams::default(), &volume).await {
            Ok(created) => {
                info!(
                    claim = claim.name_any(),
                    volume = name,
                    "volume provisioned"
                );
                self.cluster.volumes.wrote(created);
                let message = format!("Successfully provisioned volume {name}");
                let event =
                    NewEvent::normal(Component::Provisioner, "ProvisioningSucceeded", message);
                self.cluster.events.record(claim, event);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Records why a claim is not provisioned, once.
    fn refuse(&mut self, claim: &PersistentVolumeClaim, why: String) {
        let uid = claim.uid().unwrap_or_default();
        if self.told.get(&uid) != Some(&why) {
            let class = claim
                .spec
                .as_ref()
                .and_then(|spec| spec.storage_class_name.as_deref());
            let message = format!(
                "failed to provision volume with StorageClass {:?}: {why}",
                class.unwrap_or_default()
            );
            let event = NewEvent::warning(Component::Provisioner, "ProvisioningFailed", message);
            self.cluster.events.record(claim, event);
            self.told.insert(uid, why);
        }
    }

    /// Has the scheduler select another node.
    async fn reselect(&mut self, claim: &PersistentVolumeClaim) -> Result<(), Failure> {
        let patch = json!({"metadata": {"uid": claim.uid(), "resourceVersion": claim.resource_version(),
            "annotations": {SELECTED_NODE: null}}});
        self.cluster
            .patch(&self.cluster.claims, claim, &patch)
            .await
    }

    /// Removes the volume's directory by a helper pod, and then the volume.
    async fn remove(&mut self, volume: &PersistentVolume) -> Result<(), Failure> {
        if !self.is_released(volume).await? {
            return Ok(());
        }
        let node = plan::node_name(volume).unwrap_or_default();
        let name = helper::name(volume);
        let helper = self.cluster.pods.get(helper::NAMESPACE, &name);
        // the caches may be behind
        let nodes = Api::<Node>::all(self.cluster.client.clone());
        let node_exists = self.cluster.nodes.get("", node).is_some()
            || nodes.get_metadata_opt(node).await?.is_some();
        if !node_exists {
            self.warn(
                volume,
                format!("node {node} no longer exists; its directory is not removed"),
            );
            return self.delete(volume).await;
        }
        let Some(helper) = helper else {
            return self.start_helper(volume).await;
        };
        if helper.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        match phase(&helper) {
            "Succeeded" => {
                self.delete(volume).await?;
                self.cluster.delete(&self.cluster.pods, &*helper).await
            }
            "Failed" => {
                let why = helper::failure(&helper);
                self.warn(
                    volume,
                    format!(
                        "helper pod {}/{name} failed: {why}; retrying",
                        helper::NAMESPACE
                    ),
                );
                // until then, its log can be read
                match self
                    .cluster
                    .failures
                    .remaining_delay(&name, &helper, clock::now())
                {
                    Some(_) => Ok(()),
                    None => self.cluster.delete(&self.cluster.pods, &*helper).await,
                }
            }
            _ => Ok(()),
        }
    }

    async fn start_helper(&mut self, volume: &PersistentVolume) -> Result<(), Failure> {
        let class = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.storage_class_name.clone())
            .unwrap_or_default();
        let class = self.cluster.classes.get("", &class);
        let pod = match helper::pod(volume, class.as_deref()) {
            Ok(pod) => pod,
            Err(why) => {
                self.warn(volume, why);
                return Ok(());
            }
        };
        match self.cluster.create(&self.cluster.pods, &pod).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            created => Ok(created.map(drop)?),
        }
    }

    /// Asks the API whether the volume's claim is gone: a cache lacks a claim also if it cannot be read.
    async fn is_released(&self, volume: &PersistentVolume) -> Result<bool, Failure> {
        let Some(claim) = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.claim_ref.as_ref())
        else {
            return Ok(true);
        };
        let (namespace, name) = (
            claim.namespace.clone().unwrap_or_default(),
            claim.name.clone().unwrap_or_default(),
        );
        let claims =
            Api::<PersistentVolumeClaim>::namespaced(self.cluster.client.clone(), &namespace);
        let found = claims.get_metadata_opt(&name).await?;
        Ok(found.is_none_or(|found| found.uid() != claim.uid))
    }

    async fn delete(&mut self, volume: &PersistentVolume) -> Result<(), Failure> {
        let preconditions = Some(Preconditions {
            uid: volume.uid(),
            resource_version: None,
        });
        let params = DeleteParams {
            preconditions,
            ..DeleteParams::background()
        };
        match self.volumes().delete(&volume.name_any(), &params).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(()),
            deleted => drop(deleted?),
        }
        info!(
            volume = volume.name_any(),
            "volume and its directory removed"
        );
        self.release(volume).await
    }

    /// Removes the finalizer by which the volume waits for its directory.
    async fn release(&mut self, volume: &PersistentVolume) -> Result<(), Failure> {
        let Some(volume) = self.volumes().get_opt(&volume.name_any()).await? else {
            return Ok(());
        };
        let left: Vec<_> = volume
            .finalizers()
            .iter()
            .filter(|own| *own != FINALIZER)
            .collect();
        let patch = Patch::Merge(json!({"metadata": {"uid": volume.uid(),
            "resourceVersion": volume.resource_version(), "finalizers": or_null(&left)}}));
        match self
            .volumes()
            .patch(&volume.name_any(), &PatchParams::default(), &patch)
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            patched => Ok(patched.map(drop)?),
        }
    }

    /// Records why a volume cannot be deleted, once.
    fn warn(&mut self, volume: &PersistentVolume, message: String) {
        let uid = volume.uid().unwrap_or_default();
        if self.told.get(&uid) != Some(&message) {
            let event = NewEvent::warning(
                Component::Provisioner,
                "VolumeFailedDelete",
                message.clone(),
            );
            self.cluster.events.record(volume, event);
            self.told.insert(uid, message);
        }
    }
}
