//! Events that say why a claim is not bound, with kube-controller-manager's messages. Pure, except for what was recorded last.
//!
//! Source: Kubernetes, `pkg/controller/volume/persistentvolume`, `syncUnboundClaim` and `provisionClaim`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use clock::Instant;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::ResourceExt;

use super::choose::{IN_TREE_PREFIX, Step, VolumeState, is_pending, users};
use crate::controllers::{
    events::{Component, NewEvent, Recorder},
    workloads::is_created_since,
};

/// The interval of a repeated event; events are deleted after an hour.
pub(super) const REPEAT_INTERVAL: Duration = Duration::from_mins(5);

/// The last event of each claim, by uid, with its time.
#[derive(Debug)]
pub(super) struct RecordedEvents {
    last: BTreeMap<String, (NewEvent, Instant)>,
    /// Why claims wait that are older than this process was recorded before it.
    start: Timestamp,
    is_first: bool,
}

impl RecordedEvents {
    /// Begins with no events.
    pub(super) fn new(start: Timestamp) -> Self {
        Self {
            last: BTreeMap::new(),
            start,
            is_first: true,
        }
    }

    /// Records an event for each waiting claim that is in none of the `steps`. Returns whether there are such claims.
    pub(super) fn record(
        &mut self,
        events: &Recorder,
        known: &VolumeState<'_>,
        steps: &[Step],
        now: Instant,
    ) -> bool {
        let bound: BTreeSet<_> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Bind(claim, _) => claim.uid(),
                Step::SetClass(claim, _) => claim.uid(),
                Step::Phase(..) | Step::Lost(_) | Step::Announce(..) => None,
            })
            .collect();
        let waits = |claim: &PersistentVolumeClaim| {
            is_pending(claim) && claim.uid().is_some_and(|uid| !bound.contains(&uid))
        };
        let is_first = std::mem::replace(&mut self.is_first, false);
        let mut before = std::mem::take(&mut self.last);
        for claim in known.claims.iter().filter(|claim| waits(claim)) {
            let (Some(uid), Some(why)) = (claim.uid(), why(claim, known)) else {
                continue;
            };
            let last = before.remove(&uid).filter(|(recorded, at)| {
                *recorded == why && now.duration_since(*at) < REPEAT_INTERVAL
            });
            let at = last.map(|(_, at)| at);
            let is_old = is_first && !is_created_since(&claim.metadata, self.start);
            if at.is_none() && !is_old {
                events.record(&**claim, why.clone());
            }
            self.last.insert(uid, (why, at.unwrap_or(now)));
        }
        !self.last.is_empty()
    }
}

/// Returns why the claim is not bound; `None` if Kubernetes records no event either.
fn why(claim: &PersistentVolumeClaim, known: &VolumeState<'_>) -> Option<NewEvent> {
    let by = Component::PersistentVolume;
    let spec = claim.spec.as_ref()?;
    if let Some(wanted) = spec.volume_name.as_deref().filter(|name| !name.is_empty()) {
        let volume = known
            .volumes
            .iter()
            .find(|volume| volume.name_any() == wanted)?;
        if is_of_another(volume, claim) {
            let message = format!("volume {wanted:?} already bound to a different claim.");
            return Some(NewEvent::warning(by, "FailedBinding", message));
        }
        return None;
    }
    let class = spec
        .storage_class_name
        .as_deref()
        .filter(|class| !class.is_empty());
    let Some(name) = class else {
        let message = "no persistent volumes available for this claim and no storage class is set";
        return Some(NewEvent::normal(by, "FailedBinding", message.to_owned()));
    };
    if known.is_late(claim) {
        let mut users: Vec<_> = users(claim, known.pods).collect();
        users.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        if users.is_empty() {
            let message = "waiting for first consumer to be created before binding";
            return Some(NewEvent::normal(
                by,
                "WaitForFirstConsumer",
                message.to_owned(),
            ));
        }
        if let Some(pod) = users.into_iter().find(|pod| {
            pod.spec
                .as_ref()
                .is_none_or(|spec| spec.node_name.is_none())
        }) {
            let message = format!("waiting for pod {} to be scheduled", pod.name_any());
            return Some(NewEvent::normal(by, "WaitForPodScheduled", message));
        }
    }
    let Some(class) = known.class(claim) else {
        let message = format!("storageclass.storage.k8s.io {name:?} not found");
        return Some(NewEvent::warning(by, "ProvisioningFailed", message));
    };
    let provisioner = &class.provisioner;
    if provisioner.starts_with(IN_TREE_PREFIX) {
        let message = format!("no volume plugin matched name: {provisioner}");
        return Some(NewEvent::warning(by, "ProvisioningFailed", message));
    }
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If \
         volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    Some(NewEvent::normal(by, "ExternalProvisioning", message))
}

fn is_of_another(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let owner = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    owner.is_some_and(|owner| {
        owner.name != claim.metadata.name
            || owner.namespace != claim.metadata.namespace
            || owner
                .uid
                .as_ref()
                .is_some_and(|uid| Some(uid) != claim.metadata.uid.as_ref())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn read<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn each_claim_is_told_why_it_waits() {
        let claim = |spec: Value| -> PersistentVolumeClaim {
            read(json!({"metadata": {"name": "c", "namespace": "n", "uid": "1"}, "spec": spec}))
        };
        let volume = |name: &str, owner: Value| -> Arc<PersistentVolume> {
            Arc::new(read(
                json!({"metadata": {"name": name}, "spec": {"claimRef": owner}}),
            ))
        };
        let volumes = [
            volume("free", Value::Null),
            volume("taken", json!({"namespace": "n", "name": "other"})),
        ];
        let classes = [
            ("local", "kubernetes.io/no-provisioner", "Immediate"),
            ("late", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
            ("disk", "disk.example", "Immediate"),
        ]
        .map(|(name, provisioner, mode)| {
            let class =
                json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
            Arc::new(read(class))
        });
        let user = |node: Value| -> Arc<k8s_openapi::api::core::v1::Pod> {
            Arc::new(read(
                json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [], "nodeName": node,
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}),
            ))
        };
        let reason = |spec: Value, pods: &[Arc<k8s_openapi::api::core::v1::Pod>]| {
            let known = VolumeState {
                claims: &[],
                volumes: &volumes,
                pods,
                nodes: &[],
                classes: &classes,
            };
            why(&claim(spec), &known)
        };
        let by = Component::PersistentVolume;
        let normal = |reason, message: &str| Some(NewEvent::normal(by, reason, message.into()));
        let warning = |reason, message: &str| Some(NewEvent::warning(by, reason, message.into()));
        assert_eq!(
            reason(json!({}), &[]),
            normal(
                "FailedBinding",
                "no persistent volumes available for this claim and no storage class is set"
            )
        );
        assert_eq!(
            reason(json!({"volumeName": "taken"}), &[]),
            warning(
                "FailedBinding",
                "volume \"taken\" already bound to a different claim."
            )
        );
        assert_eq!(reason(json!({"volumeName": "free"}), &[]), None);
        assert_eq!(
            reason(json!({"volumeName": "none"}), &[]),
            None,
            "it may come"
        );
        let late = || json!({"storageClassName": "late"});
        let first = "waiting for first consumer to be created before binding";
        assert_eq!(reason(late(), &[]), normal("WaitForFirstConsumer", first));
        let scheduled = "waiting for pod p to be scheduled";
        assert_eq!(
            reason(late(), &[user(Value::Null)]),
            normal("WaitForPodScheduled", scheduled)
        );
        let no_plugin = "no volume plugin matched name: kubernetes.io/no-provisioner";
        assert_eq!(
            reason(late(), &[user("edge-1".into())]),
            warning("ProvisioningFailed", no_plugin)
        );
        assert_eq!(
            reason(json!({"storageClassName": "local"}), &[]),
            warning("ProvisioningFailed", no_plugin)
        );
        assert_eq!(
            reason(json!({"storageClassName": "none"}), &[]),
            warning(
                "ProvisioningFailed",
                "storageclass.storage.k8s.io \"none\" not found"
            )
        );
        let told = reason(json!({"storageClassName": "disk"}), &[])
            .map(|told| format!("{told:?}"))
            .unwrap();
        assert!(
            told.contains("ExternalProvisioning") && told.contains("provisioner 'disk.example' or"),
            "{told}"
        );
    }
}
