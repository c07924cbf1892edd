//! The retention of stateful sets' claims (`persistentVolumeClaimRetentionPolicy`): a claim that is to be deleted with the set or its pod
//! is owned by it, and the garbage collector deletes it.
//!
//! Source: `stateful_set_utils.go` of Kubernetes.

use std::sync::Arc;

use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::ResourceExt;
use serde_json::json;

use super::{
    Cluster,
    plan::{self, Set},
};
use crate::controllers::{
    informers::Failure,
    workloads::{pods::controller_reference, shared::or_null},
};

/// Sets the owners of these pods' claims.
pub(super) async fn apply(
    set: &Set<'_>,
    pods: &[Arc<Pod>],
    cluster: &Cluster,
) -> Result<(), Failure> {
    for pod in pods {
        let Some(ordinal) = plan::ordinal(set.object, pod) else {
            continue;
        };
        for claim in plan::claims(set.object, ordinal) {
            let known = cluster
                .claims
                .get(&claim.namespace().unwrap_or_default(), &claim.name_any());
            let Some(known) = known.filter(|known| known.metadata.deletion_timestamp.is_none())
            else {
                continue;
            };
            if let Some(owners) = owners(set.object, pod, !set.has(ordinal), &known) {
                let patch = json!({"metadata": {"uid": known.uid(), "resourceVersion": known.resource_version(),
                    "ownerReferences": or_null(&owners)}});
                cluster.patch(&cluster.claims, &*known, &patch).await?;
            }
        }
    }
    Ok(())
}

/// Returns the owners that a claim should have; `None` if it has them, or belongs to somebody else.
fn owners(
    set: &StatefulSet,
    pod: &Pod,
    is_surplus: bool,
    claim: &PersistentVolumeClaim,
) -> Option<Vec<OwnerReference>> {
    let policy = set
        .spec
        .as_ref()
        .and_then(|spec| spec.persistent_volume_claim_retention_policy.clone());
    let policy = policy.unwrap_or_default();
    let goes_with_pod = policy.when_scaled.as_deref() == Some("Delete") && is_surplus;
    let goes_with_set = policy.when_deleted.as_deref() == Some("Delete") && !goes_with_pod;
    let is_sets = |owner: &OwnerReference| Some(&owner.uid) == set.metadata.uid.as_ref();
    let is_pods = |owner: &OwnerReference| owner.kind == "Pod" && owner.name == pod.name_any();
    let has = claim.owner_references();
    let is_others = |owner: &OwnerReference| {
        owner.controller == Some(true) && !is_sets(owner) && !is_pods(owner)
    };
    if has.iter().any(is_others) {
        return None;
    }
    let mut owners = has.to_vec();
    owners.retain(|owner| {
        let is_this_pod = Some(&owner.uid) == pod.metadata.uid.as_ref();
        (!is_sets(owner) || goes_with_set) && (!is_pods(owner) || (goes_with_pod && is_this_pod))
    });
    if goes_with_set && !owners.iter().any(is_sets) {
        owners.push(controller_reference(set));
    }
    if goes_with_pod && !owners.iter().any(is_pods) {
        owners.push(controller_reference(pod));
    }
    (owners != has).then_some(owners)
}
