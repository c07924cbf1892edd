//! What there is of a pod: what the runtime says, and what probes, hooks and files add to it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{context::Context, hooks, identity::Identity, strays, termination_messages};
use crate::edged::{
    observed::{Made, Observed},
    runtime::CallError,
};

impl Context {
    /// All that there is of the pod.
    pub(super) async fn observe(&self, pod: &Arc<Pod>) -> Result<Observed, CallError> {
        let observed = self.runtime.observe(pod.metadata.uid.as_deref().unwrap_or_default()).await?;
        Ok(self.complete(pod, observed).await)
    }

    /// All that there is of a pod that is to run. A runtime is not asked for what a new pod has: lists cost it the more the more
    /// pods it has, and this one has nothing. What a pod that is to end has is always asked for, so that nothing of it stays.
    pub(super) async fn observe_first(
        &self,
        pod: &Arc<Pod>,
        identity: &Identity<'_>,
    ) -> Result<Observed, CallError> {
        if self.pod_cache.is_new(identity.uid) {
            return Ok(self.complete(pod, Observed::default()).await);
        }
        self.observe(pod).await
    }

    /// All that there is of a pod that has only got what was `made` since it was observed last.
    pub(super) async fn observe_made(
        &self,
        pod: &Arc<Pod>,
        last: Observed,
        made: Vec<Made>,
    ) -> Result<Observed, CallError> {
        let observed = self.runtime.observe_made(last, made).await?;
        Ok(self.complete(pod, observed).await)
    }

    /// Adds to what the runtime says what others know.
    async fn complete(&self, pod: &Arc<Pod>, mut observed: Observed) -> Observed {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        self.pod_cache.observed(uid, observed.items());
        for id in self.pod_cache.with(uid, |state| state.unsettled(&observed)) {
            self.end_lost(uid, &id).await;
        }
        strays::end(self, pod, &observed).await;
        termination_messages::add(self, pod, &mut observed, containers(pod)).await;
        self.probes.judge(pod, &mut observed);
        self.pod_cache.with(uid, |state| {
            state.note_ended(&observed);
            hooks::judge(&mut state.hooks, &mut observed);
        });
        observed
    }

    /// Ends a container of which the runtime does not say what has become of it.
    pub(super) async fn end_lost(&self, uid: &str, id: &str) {
        self.runtime.end_lost(id).await;
        self.groups.end_container(uid, id).await;
    }
}

/// How many containers of all kinds the pod has.
fn containers(pod: &Pod) -> usize {
    let Some(spec) = &pod.spec else { return 0 };
    let rest =
        [spec.init_containers.as_ref().map(Vec::len), spec.ephemeral_containers.as_ref().map(Vec::len)];
    spec.containers.len() + rest.into_iter().flatten().sum::<usize>()
}
