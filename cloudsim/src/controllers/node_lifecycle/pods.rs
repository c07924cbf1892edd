//! Marks the pods of a node that is not ready, whose last report is no longer reliable.
//!
//! Source: `MarkPodsNotReady` of Kubernetes' node lifecycle controller.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use kubeapi::{LenientObject, keep_decoded};
use serde_json::json;

use crate::controllers::{
    events::{Component, NewEvent, Recorder},
    workloads::pods::is_ready,
};

/// How often marking a pod is tried when others write meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// Sets the condition `Ready` of the node's pods to false. A node that is back reports its pods again.
pub(super) async fn mark_not_ready(
    node: &str,
    client: &Client,
    events: &Recorder,
) -> Result<(), kube::Error> {
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = Api::<LenientObject<Pod>>::all(client.clone());
    for pod in keep_decoded(pods.list(&here).await?) {
        let api = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        if mark(&api, pod.clone()).await? {
            events.record(
                &pod,
                NewEvent::warning(Component::Node, "NodeNotReady", "Node is not ready".into()),
            );
        }
    }
    Ok(())
}

/// Sets the condition of a pod; returns whether it was ready.
async fn mark(api: &Api<Pod>, mut pod: Pod) -> Result<bool, kube::Error> {
    let (name, uid) = (pod.name_any(), pod.uid());
    for _ in 0..MAX_ATTEMPTS {
        if !is_ready(&pod) || pod.uid() != uid {
            return Ok(false);
        }
        let now = clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": now,
            "observedGeneration": pod.metadata.generation});
        let patch = Patch::Strategic(json!({
            "metadata": {"uid": uid, "resourceVersion": pod.resource_version()},
            "status": {"conditions": [condition]},
        }));
        match api
            .patch_status(&name, &PatchParams::default(), &patch)
            .await
        {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            result => return result.map(|_| true),
        }
        match api.get_opt(&name).await? {
            Some(now) => pod = now,
            None => return Ok(false),
        }
    }
    Ok(false)
}
