//! Revisions of deployments: the replica set of each template, their numbers, and how many old ones are kept.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec},
    core::v1::PodTemplateSpec,
};
use kube::{ResourceExt, api::ObjectMeta};
use serde_json::json;

use super::{
    Cluster, Sets,
    rollout::{DESIRED, Limits, MAXIMUM},
};
use crate::controllers::{
    informers::Failure,
    workloads::{hash, pods::controller_reference},
};

/// The annotation with the revision's number, of a deployment and of its replica sets.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// The annotation with earlier numbers of a replica set whose template was restored.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// kubectl's annotation of a deployment, which its replica sets do not inherit.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Reports whether the replica set has this template.
pub(super) fn is_of(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let Some(own) = set.spec.as_ref().and_then(|spec| spec.template.clone()) else {
        return false;
    };
    without_hash(own) == without_hash(template.clone())
}

fn without_hash(mut template: PodTemplateSpec) -> PodTemplateSpec {
    if let Some(metadata) = &mut template.metadata {
        if let Some(labels) = &mut metadata.labels {
            labels.remove(hash::POD_TEMPLATE);
        }
        metadata.creation_timestamp = None;
        metadata.labels = metadata.labels.take().filter(|labels| !labels.is_empty());
    }
    template.metadata = template
        .metadata
        .filter(|metadata| *metadata != ObjectMeta::default());
    template
}

fn number(annotations: &BTreeMap<String, String>) -> i64 {
    annotations
        .get(REVISION)
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

/// Returns the replica set of the present template, created if it is missing; it and the deployment get the newest number.
pub(super) async fn ensure(
    deployment: &Arc<Deployment>,
    sets: &Sets,
    replicas: i32,
    cluster: &Cluster,
) -> Result<Arc<ReplicaSet>, Failure> {
    let newest = sets
        .old
        .iter()
        .map(|set| number(set.annotations()))
        .max()
        .unwrap_or_default()
        + 1;
    let set = match &sets.new {
        Some(set) => renumber(deployment, set, newest, cluster).await?,
        None => create(deployment, newest, replicas, cluster).await?,
    };
    let own = set.annotations().get(REVISION);
    if own != deployment.annotations().get(REVISION) {
        let patch = json!({"metadata": {"annotations": {REVISION: own}}});
        cluster
            .patch(&cluster.deployments, &**deployment, &patch)
            .await?;
    }
    Ok(set)
}

async fn renumber(
    deployment: &Deployment,
    set: &Arc<ReplicaSet>,
    newest: i64,
    cluster: &Cluster,
) -> Result<Arc<ReplicaSet>, Failure> {
    let mut wanted = inherited_annotations(deployment);
    let old = number(set.annotations());
    wanted.insert(REVISION.into(), old.max(newest).to_string());
    if old > 0 && old < newest {
        let history = set
            .annotations()
            .get(HISTORY)
            .map(|history| format!("{history},"))
            .unwrap_or_default();
        wanted.insert(HISTORY.into(), format!("{history}{old}"));
    }
    let changed = wanted
        .iter()
        .any(|(key, value)| set.annotations().get(key) != Some(value));
    if changed {
        let patch = json!({"metadata": {"annotations": wanted}});
        cluster.patch(&cluster.replica_sets, &**set, &patch).await?;
    }
    let now = cluster
        .replica_sets
        .get(&set.namespace().unwrap_or_default(), &set.name_any());
    Ok(now.unwrap_or_else(|| Arc::clone(set)))
}

/// Returns the annotations that a replica set inherits from its deployment.
fn inherited_annotations(deployment: &Deployment) -> BTreeMap<String, String> {
    let own = [
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
        LAST_APPLIED,
        "deprecated.deployment.rollback.to",
    ];
    let annotations = deployment
        .annotations()
        .iter()
        .filter(|(key, _)| !own.contains(&key.as_str()));
    annotations
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

async fn create(
    deployment: &Arc<Deployment>,
    revision: i64,
    replicas: i32,
    cluster: &Cluster,
) -> Result<Arc<ReplicaSet>, Failure> {
    let collisions = deployment
        .status
        .as_ref()
        .and_then(|status| status.collision_count);
    let set = new_set(deployment, revision, replicas, collisions);
    let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
    match cluster.create(&cluster.replica_sets, &set).await {
        Ok(set) => {
            super::record_scaled(deployment, &name, 0, replicas, cluster);
            Ok(Arc::new(set))
        }
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let there = cluster
                .beside::<ReplicaSet>(&**deployment)
                .get_opt(&name)
                .await?;
            let template = deployment.spec.as_ref().map(|spec| &spec.template);
            let own = there.filter(|set| {
                let owner = crate::controllers::workloads::pods::controller_of(set);
                owner.is_some_and(|owner| Some(&owner.uid) == deployment.metadata.uid.as_ref())
                    && template.is_some_and(|template| is_of(set, template))
            });
            if let Some(set) = own {
                cluster.replica_sets.wrote(set.clone());
                return Ok(Arc::new(set));
            }
            // another template has the same hash: the count changes the next one
            let patch = json!({"status": {"collisionCount": collisions.unwrap_or_default() + 1}});
            let api = cluster.beside::<Deployment>(&**deployment);
            api.patch_status(
                &deployment.name_any(),
                &kube::api::PatchParams::default(),
                &kube::api::Patch::Merge(patch),
            )
            .await?;
            Err(Failure::Invalid(format!(
                "a replica set {namespace}/{name} of another template is in the way"
            )))
        }
        Err(error) => Err(error.into()),
    }
}

fn new_set(
    deployment: &Deployment,
    revision: i64,
    replicas: i32,
    collisions: Option<i32>,
) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let hash = hash::hash(&spec.template, collisions);
    let mut template = spec.template;
    let labels = template
        .metadata
        .get_or_insert_default()
        .labels
        .get_or_insert_default();
    labels.insert(hash::POD_TEMPLATE.into(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector;
    selector
        .match_labels
        .get_or_insert_default()
        .insert(hash::POD_TEMPLATE.into(), hash.clone());
    let limits = Limits::of(deployment);
    let mut annotations = inherited_annotations(deployment);
    annotations.extend([
        (REVISION.to_owned(), revision.to_string()),
        (DESIRED.to_owned(), limits.desired.to_string()),
        (MAXIMUM.to_owned(), limits.maximum().to_string()),
    ]);
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name_any())),
            namespace: deployment.namespace(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    }
}

/// Deletes the oldest replica sets without pods beyond the history limit.
pub(super) async fn clean_up(
    deployment: &Deployment,
    old: &[Arc<ReplicaSet>],
    cluster: &Cluster,
) -> Result<(), Failure> {
    let limit = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.revision_history_limit)
        .unwrap_or(10);
    let is_empty = |set: &&Arc<ReplicaSet>| {
        let wanted = set
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1);
        let status = set.status.clone().unwrap_or_default();
        let observed = status.observed_generation >= set.metadata.generation;
        wanted == 0 && status.replicas == 0 && observed && set.metadata.deletion_timestamp.is_none()
    };
    let mut empty: Vec<_> = old.iter().filter(is_empty).cloned().collect();
    empty.sort_by_key(|set| number(set.annotations()));
    let surplus = empty
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or_default());
    empty.truncate(surplus);
    cluster.delete_all(&cluster.replica_sets, empty).await
}
