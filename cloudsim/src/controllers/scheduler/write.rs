//! The scheduler's writes: bindings, conditions of waiting pods, and evictions.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Binding, ObjectReference, PersistentVolumeClaim, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};

use super::{preemption::Preemption, snapshot::priority};
use crate::controllers::{
    events::{Component, NewEvent, Recorder},
    volume_binder::SELECTED_NODE,
};

/// Writes to the API, and records events.
pub(super) struct Writer {
    client: Client,
    events: Recorder,
}

/// Returns false on a conflict: the next event leads here again.
fn false_on_conflict<T>(written: Result<T, kube::Error>) -> Result<bool, kube::Error> {
    match written {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        written => written.map(|_| true),
    }
}

fn now() -> String {
    clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Writer {
    pub(super) fn new(client: Client, events: Recorder) -> Self {
        Self { client, events }
    }

    fn pods(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default())
    }

    /// Binds the pod to the node. Returns false if the pod is gone or has a node.
    pub(super) async fn bind(&self, pod: &Pod, node: &str) -> Result<bool, kube::Error> {
        let name = pod.name_any();
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                uid: pod.uid(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".into()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let api = self.pods(pod);
        let bound = api
            .create_subresource::<_, Value>("binding", &name, &PostParams::default(), &binding)
            .await;
        let is_bound = false_on_conflict(bound)?;
        if is_bound {
            let message = format!(
                "Successfully assigned {}/{name} to {node}",
                pod.namespace().unwrap_or_default()
            );
            self.events.record(
                pod,
                NewEvent::normal(Component::Scheduler, "Scheduled", message),
            );
        }
        Ok(is_bound)
    }

    /// Has the volumes of claims created on the node.
    pub(super) async fn select_node(
        &self,
        claims: &[Arc<PersistentVolumeClaim>],
        node: &str,
    ) -> Result<(), kube::Error> {
        for claim in claims
            .iter()
            .filter(|claim| !claim.annotations().contains_key(SELECTED_NODE))
        {
            let api = Api::<PersistentVolumeClaim>::namespaced(
                self.client.clone(),
                &claim.namespace().unwrap_or_default(),
            );
            let patch = Patch::Merge(json!({"metadata": {"uid": claim.uid(),
                "resourceVersion": claim.resource_version(), "annotations": {SELECTED_NODE: node}}}));
            false_on_conflict(
                api.patch(&claim.name_any(), &PatchParams::default(), &patch)
                    .await,
            )?;
        }
        Ok(())
    }

    /// Sets the pod's condition as the scheduler does, with the reason and the nominated node.
    pub(super) async fn unschedulable(
        &self,
        pod: &Pod,
        why: &str,
        nominated: Option<&str>,
    ) -> Result<(), kube::Error> {
        let status = pod.status.as_ref();
        let mut conditions = status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let is_known = conditions.any(|condition| {
            condition.type_ == "PodScheduled"
                && condition.status == "False"
                && condition.message.as_deref() == Some(why)
        });
        let before = status.and_then(|status| status.nominated_node_name.as_deref());
        // it goes on waiting for the evicted pods
        let nominated = nominated
            .or(before.filter(|_| why.contains("a terminating pod on the nominated node")));
        if is_known && before == nominated {
            return Ok(());
        }
        if !is_known {
            self.events.record(
                pod,
                NewEvent::warning(Component::Scheduler, "FailedScheduling", why.to_owned()),
            );
        }
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why, "lastTransitionTime": now(),
            "observedGeneration": pod.metadata.generation,
        });
        let mut status = json!({"conditions": [condition]});
        if before != nominated {
            status["nominatedNodeName"] = json!(nominated);
        }
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": status}));
        false_on_conflict(
            self.pods(pod)
                .patch_status(&pod.name_any(), &PatchParams::default(), &patch)
                .await,
        )
        .map(drop)
    }

    /// Evicts pods to make room for this one.
    pub(super) async fn preempt(
        &self,
        pod: &Pod,
        preemption: &Preemption,
        why: &str,
        nominated: &[Arc<Pod>],
    ) -> Result<(), kube::Error> {
        let node = preemption.node.as_str();
        self.unschedulable(pod, why, Some(node)).await?;
        for other in nominated
            .iter()
            .filter(|other| priority(other) < priority(pod))
        {
            let is_here = other
                .status
                .as_ref()
                .and_then(|status| status.nominated_node_name.as_deref())
                == Some(node);
            if is_here {
                let patch = Patch::Strategic(
                    json!({"metadata": {"uid": other.uid()}, "status": {"nominatedNodeName": null}}),
                );
                false_on_conflict(
                    self.pods(other)
                        .patch_status(&other.name_any(), &PatchParams::default(), &patch)
                        .await,
                )?;
            }
        }
        for victim in &preemption.victims {
            self.evict(victim, pod, node).await?;
        }
        Ok(())
    }

    async fn evict(&self, victim: &Pod, by: &Pod, node: &str) -> Result<(), kube::Error> {
        if victim.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": "default-scheduler: preempting to accommodate a higher priority pod", "lastTransitionTime": now(),
            "observedGeneration": victim.metadata.generation,
        });
        let (api, name) = (self.pods(victim), victim.name_any());
        let patch = Patch::Strategic(
            json!({"metadata": {"uid": victim.uid()}, "status": {"conditions": [condition]}}),
        );
        if !false_on_conflict(
            api.patch_status(&name, &PatchParams::default(), &patch)
                .await,
        )? {
            return Ok(());
        }
        let preconditions = Some(Preconditions {
            uid: victim.uid(),
            resource_version: None,
        });
        false_on_conflict(
            api.delete(
                &name,
                &DeleteParams {
                    preconditions,
                    ..DeleteParams::default()
                },
            )
            .await,
        )?;
        let message = format!(
            "Preempted by pod {} on node {node}",
            by.uid().unwrap_or_default()
        );
        self.events.record(
            victim,
            NewEvent::normal(Component::Scheduler, "Preempted", message),
        );
        Ok(())
    }
}
