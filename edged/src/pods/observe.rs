//! Observes a pod: the state of its sandboxes and containers in the runtime, completed with that of probes, hooks and files.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{
    context::Context, hooks, identity::Identity, lost_containers, resize, termination_messages,
};
use crate::{
    observed::{CreatedItem, ObservedPod},
    runtime::CallError,
};

impl Context {
    /// Observes the pod.
    pub(super) async fn observe(&self, pod: &Arc<Pod>) -> Result<ObservedPod, CallError> {
        let observed = self
            .runtime
            .observe(pod.metadata.uid.as_deref().unwrap_or_default())
            .await?;
        Ok(self.add_agent_state(pod, observed).await)
    }

    /// Observes a pod that shall run. For a new pod the runtime's lists are skipped: they cost the more the more pods it has, and
    /// contain nothing of this one. A pod that shall end is always listed, so that nothing of it remains.
    pub(super) async fn observe_first(
        &self,
        pod: &Arc<Pod>,
        identity: &Identity<'_>,
    ) -> Result<ObservedPod, CallError> {
        if self.pod_cache.is_new(identity.uid) {
            return Ok(self.add_agent_state(pod, ObservedPod::default()).await);
        }
        self.observe(pod).await
    }

    /// Observes a pod for which only the `created` items were created since it was observed last.
    pub(super) async fn observe_created(
        &self,
        pod: &Arc<Pod>,
        last: ObservedPod,
        created: Vec<CreatedItem>,
    ) -> Result<ObservedPod, CallError> {
        let observed = self.runtime.observe_created(last, created).await?;
        Ok(self.add_agent_state(pod, observed).await)
    }

    /// Adds what the agent knows to the runtime's observation.
    async fn add_agent_state(&self, pod: &Arc<Pod>, mut observed: ObservedPod) -> ObservedPod {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        self.pod_cache.store_observed(uid, observed.items());
        for id in self
            .pod_cache
            .with(uid, |state| state.take_failed_starts(&observed))
        {
            self.end_lost_task(uid, &id).await;
        }
        lost_containers::kill(self, pod, &observed).await;
        termination_messages::add(self, pod, &mut observed, container_count(pod)).await;
        self.probes.apply(pod, &mut observed);
        self.pod_cache.with(uid, |state| {
            state.cancel_ended(&observed);
            hooks::apply(&mut state.post_start_hooks, &mut observed);
            resize::apply_replaced(&mut state.replaced, &mut observed);
        });
        observed
    }

    /// Ends the processes of a container that the runtime has lost.
    pub(super) async fn end_lost_task(&self, uid: &str, id: &str) {
        self.runtime.end_lost_task(id).await;
        self.groups.end_container(uid, id).await;
    }
}

/// Returns the number of the pod's containers of all kinds.
fn container_count(pod: &Pod) -> usize {
    let Some(spec) = &pod.spec else { return 0 };
    let rest = [
        spec.init_containers.as_ref().map(Vec::len),
        spec.ephemeral_containers.as_ref().map(Vec::len),
    ];
    spec.containers.len() + rest.into_iter().flatten().sum::<usize>()
}
