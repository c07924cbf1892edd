//! Plans the next pods of a stateful set to create and delete. Pure.
//!
//! Source: Kubernetes' `stateful_set_control.go`.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, StatefulSet},
        core::v1::{
            PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
        },
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;

use crate::controllers::workloads::{
    hash,
    pods::{from_template, is_available, is_finished},
};

/// The label with the pod's name, for services of one pod.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// The label with the pod's ordinal.
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// A set and the names of its two revisions.
#[derive(Clone, Debug)]
pub(super) struct Set<'a> {
    pub(super) object: &'a StatefulSet,
    /// The current revision.
    pub(super) current: String,
    /// The update revision.
    pub(super) update: String,
}

/// A step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Create the pod with this ordinal.
    Create(i32),
    /// Delete this pod.
    Delete(Arc<Pod>),
}

impl Set<'_> {
    fn start(&self) -> i32 {
        let ordinals = self
            .object
            .spec
            .as_ref()
            .and_then(|spec| spec.ordinals.as_ref());
        ordinals
            .and_then(|ordinals| ordinals.start)
            .unwrap_or_default()
    }

    fn end(&self) -> i32 {
        self.start()
            + self
                .object
                .spec
                .as_ref()
                .and_then(|spec| spec.replicas)
                .unwrap_or(1)
    }

    /// Reports whether a pod with this ordinal is wanted.
    pub(super) fn has(&self, ordinal: i32) -> bool {
        (self.start()..self.end()).contains(&ordinal)
    }

    fn is_parallel(&self) -> bool {
        let policy = self
            .object
            .spec
            .as_ref()
            .and_then(|spec| spec.pod_management_policy.as_deref());
        policy == Some("Parallel")
    }

    /// Returns the first ordinal that gets the new revision; `None` with the strategy `OnDelete`.
    fn partition(&self) -> Option<i32> {
        let strategy = self
            .object
            .spec
            .as_ref()?
            .update_strategy
            .clone()
            .unwrap_or_default();
        if strategy.type_.as_deref() == Some("OnDelete") {
            return None;
        }
        let partition = strategy
            .rolling_update
            .and_then(|rolling| rolling.partition)
            .unwrap_or_default();
        Some(self.start() + partition)
    }

    /// Returns how many pods may be unavailable during an update: at least one.
    fn max_unavailable(&self) -> usize {
        let strategy = self
            .object
            .spec
            .as_ref()
            .and_then(|spec| spec.update_strategy.as_ref());
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let wanted = match rolling.and_then(|rolling| rolling.max_unavailable.as_ref()) {
            None => 1,
            Some(IntOrString::Int(number)) => *number,
            Some(IntOrString::String(share)) => {
                let share: i32 = share.trim_end_matches('%').parse().unwrap_or_default();
                (self.end() - self.start()).saturating_mul(share) / 100
            }
        };
        usize::try_from(wanted).unwrap_or_default().max(1)
    }

    /// Reports whether a new pod with this ordinal has the new revision.
    pub(super) fn is_updated(&self, ordinal: i32) -> bool {
        self.partition()
            .is_none_or(|partition| ordinal >= partition)
    }
}

/// Returns the ordinal in a pod's name.
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    pod.name_any()
        .strip_prefix(&set.name_any())?
        .strip_prefix('-')?
        .parse()
        .ok()
}

/// Returns the next steps for the set's `pods`.
pub(super) fn steps(set: &Set<'_>, pods: &[Arc<Pod>], now: Timestamp) -> Vec<Step> {
    let mut wanted: BTreeMap<i32, &Arc<Pod>> = BTreeMap::new();
    let mut surplus: BTreeMap<i32, &Arc<Pod>> = BTreeMap::new();
    for pod in pods {
        let Some(ordinal) = ordinal(set.object, pod) else {
            continue;
        };
        let into = if set.has(ordinal) {
            &mut wanted
        } else {
            &mut surplus
        };
        into.insert(ordinal, pod);
    }
    let min_ready = set
        .object
        .spec
        .as_ref()
        .and_then(|spec| spec.min_ready_seconds)
        .unwrap_or_default();
    let works = |pod: &Pod| is_available(pod, min_ready, now) && !is_deleting(pod);
    let mut steps = Vec::new();
    for ordinal in set.start()..set.end() {
        match wanted.get(&ordinal) {
            None => steps.push(Step::Create(ordinal)),
            Some(pod) if is_finished(pod) && !is_deleting(pod) => {
                steps.push(Step::Delete(Arc::clone(pod)))
            }
            Some(pod) if works(pod) => continue,
            Some(_) => {}
        }
        if !set.is_parallel() {
            // in order: this one first
            return steps;
        }
    }
    // one that never becomes ready does not stop the others for ever: the lowest of those may go
    let lowest = surplus.values().find(|pod| !works(pod));
    for pod in surplus.values().rev() {
        let may_go =
            set.is_parallel() || works(pod) || lowest.is_some_and(|own| Arc::ptr_eq(own, pod));
        if may_go && !is_deleting(pod) {
            steps.push(Step::Delete(Arc::clone(pod)));
        }
        if !set.is_parallel() {
            return steps;
        }
    }
    if steps.is_empty() {
        steps.extend(outdated_pods(set, &wanted, works));
    }
    steps
}

/// Returns the pods of an old revision to delete now, the highest first: those that are not available anyway, and as many others as may be
/// unavailable. Unavailable pods of the whole set count, whatever their revision.
fn outdated_pods(
    set: &Set<'_>,
    wanted: &BTreeMap<i32, &Arc<Pod>>,
    works: impl Fn(&Pod) -> bool,
) -> Vec<Step> {
    let Some(partition) = set.partition() else {
        return Vec::new();
    };
    let unavailable = wanted.values().filter(|pod| !works(pod)).count();
    let mut room = set.max_unavailable().saturating_sub(unavailable);
    let mut steps = Vec::new();
    for pod in wanted.range(partition..).rev().map(|(_, pod)| *pod) {
        let is_new = pod
            .labels()
            .get(hash::REVISION)
            .is_some_and(|own| *own == set.update);
        if is_new || is_deleting(pod) || (works(pod) && room == 0) {
            continue;
        }
        room -= usize::from(works(pod));
        steps.push(Step::Delete(Arc::clone(pod)));
    }
    steps
}

fn is_deleting(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Builds the pod with this ordinal from the revision.
pub(super) fn pod(set: &StatefulSet, ordinal: i32, revision: &ControllerRevision) -> Pod {
    let of_revision = revision
        .data
        .as_ref()
        .and_then(|data| data.0.pointer("/spec/template").cloned());
    let of_revision: Option<PodTemplateSpec> =
        of_revision.and_then(|template| serde_json::from_value(template).ok());
    let template = of_revision
        .or_else(|| set.spec.as_ref().map(|spec| spec.template.clone()))
        .unwrap_or_default();
    let mut pod = from_template(&template, set);
    let name = format!("{}-{ordinal}", set.name_any());
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    pod.labels_mut().extend([
        (POD_NAME.to_owned(), name.clone()),
        (POD_INDEX.to_owned(), ordinal.to_string()),
        (hash::REVISION.to_owned(), revision.name_any()),
    ]);
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name.clone());
    spec.subdomain = set
        .spec
        .as_ref()
        .and_then(|spec| spec.service_name.clone())
        .filter(|name| !name.is_empty());
    let volumes = spec.volumes.get_or_insert_default();
    for claim in claims(set, ordinal) {
        let template = claim_template(&claim, &name);
        volumes.retain(|volume| volume.name != template);
        volumes.push(Volume {
            name: template,
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.name_any(),
                read_only: None,
            }),
            ..Volume::default()
        });
    }
    pod
}

fn claim_template(claim: &PersistentVolumeClaim, pod: &str) -> String {
    let name = claim.name_any();
    name.strip_suffix(pod)
        .and_then(|name| name.strip_suffix('-'))
        .unwrap_or(&name)
        .to_owned()
}

/// Builds the claims of the pod with this ordinal.
pub(super) fn claims(set: &StatefulSet, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let spec = set.spec.clone().unwrap_or_default();
    let claim = |template: PersistentVolumeClaim| {
        let mut claim = PersistentVolumeClaim {
            status: None,
            ..template
        };
        let name = format!("{}-{}-{ordinal}", claim.name_any(), set.name_any());
        let labels = spec.selector.match_labels.clone().unwrap_or_default();
        claim.metadata.name = Some(name);
        claim.metadata.namespace = set.namespace();
        claim.labels_mut().extend(labels);
        claim
    };
    spec.volume_claim_templates
        .unwrap_or_default()
        .into_iter()
        .map(claim)
        .collect()
}

#[cfg(test)]
mod tests;
