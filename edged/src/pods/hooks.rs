//! Runs lifecycle hooks, in the background: a pod whose hook hangs can still be deleted.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use tokio_util::sync::CancellationToken;

use super::{cache::PostStart, context::Context};
use crate::{
    events::{EventType, reason},
    observed::{HealthFailure, ObservedPod},
    probes::{self, HookContainer},
    trigger::Trigger,
};

/// Maximum duration of a postStart hook. It has no timeout in the API and ends with its container; this limit is for a runtime
/// that never returns.
const MAX_POST_START: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a start waits for its hook; a hook that ends within this time needs no second sync of the pod.
const HOOK_WAIT: Duration = Duration::from_millis(100);

/// Runs the postStart hook of the container `id`, if it has one, and waits for a moment. If it ends later, it triggers the pod.
pub(super) async fn post_start(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    container: &Container,
    id: &str,
    pod_ip: String,
) {
    let hook = container
        .lifecycle
        .as_ref()
        .and_then(|lifecycle| lifecycle.post_start.clone());
    let Some(hook) = hook else { return };
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let lifetime = context.pod_cache.with(&uid, |state| {
        state
            .post_start_hooks
            .insert(id.to_owned(), PostStart::Running);
        state.lifetime_token(id)
    });
    let (task, pod, container, id) = (
        context.clone(),
        pod.clone(),
        container.clone(),
        id.to_owned(),
    );
    let (ended, quick) = tokio::sync::oneshot::channel::<()>();
    context.background.spawn(async move {
        let target = HookContainer {
            spec: &container,
            id: &id,
            pod_ip: &pod_ip,
        };
        let running = probes::run_hook(&task.runtime, &hook, target, MAX_POST_START);
        // If the container ends first, the hook's result does not matter.
        let done = lifetime
            .run_until_cancelled(running)
            .await
            .unwrap_or(Ok(()));
        if let Err(why) = &done {
            tracing::info!(
                pod = pod.metadata.name,
                container = container.name,
                reason = why,
                "postStart hook failed"
            );
            // The reason may contain secrets.
            let text = "PostStartHook failed".to_owned();
            let kind = reason::FAILED_POST_START_HOOK;
            task.events
                .container(&pod, &container.name, EventType::Warning, kind, text);
        }
        task.pod_cache.with(&uid, |state| match done {
            Ok(()) => state.post_start_hooks.remove(&id),
            Err(_) => state.post_start_hooks.insert(id, PostStart::Failed),
        });
        if ended.send(()).is_err() {
            let _ = task.triggers.send(Trigger::of(&pod)).await;
        }
    });
    let _ = tokio::time::timeout(HOOK_WAIT, quick).await;
}

/// Adds the state of hooks to `observed`, and removes hooks of containers that are gone.
pub(super) fn apply(hooks: &mut HashMap<String, PostStart>, observed: &mut ObservedPod) {
    if hooks.is_empty() {
        return;
    }
    hooks.retain(|id, _| {
        observed
            .containers
            .iter()
            .any(|container| container.id == *id)
    });
    for container in &mut observed.containers {
        match hooks.get(&container.id) {
            Some(PostStart::Running) => container.health.starting = true,
            Some(PostStart::Failed) => container.health.failure = Some(HealthFailure::PostStart),
            None => {}
        }
    }
}

/// A preStop hook to be run.
pub(super) struct PreStop {
    /// The hook's handler.
    pub(super) hook: LifecycleHandler,
    /// Its container.
    pub(super) container: Container,
    /// The pod's IP address.
    pub(super) pod_ip: String,
    /// Cancelled when the container has ended by itself.
    pub(super) lifetime: CancellationToken,
}

impl PreStop {
    /// Runs the hook for at most `limit`. The container is stopped whatever the result.
    pub(super) async fn run(&self, context: &Context, pod: &Pod, id: &str, limit: Duration) {
        let target = HookContainer {
            spec: &self.container,
            id,
            pod_ip: &self.pod_ip,
        };
        let running = probes::run_hook(&context.runtime, &self.hook, target, limit);
        if let Some(Err(why)) = self.lifetime.run_until_cancelled(running).await {
            let name = self.container.name.as_str();
            tracing::info!(
                pod = pod.metadata.name,
                container = name,
                reason = why,
                "preStop hook failed"
            );
            let text = "PreStopHook failed".to_owned();
            context.events.container(
                pod,
                name,
                EventType::Warning,
                reason::FAILED_PRE_STOP_HOOK,
                text,
            );
        }
    }
}
