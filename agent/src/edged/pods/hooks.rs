//! Lifecycle hooks. Both run in the background: a pod whose hook hangs can still be deleted.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use tokio_util::sync::CancellationToken;

use super::{cache::PostStart, context::Context, trigger::Trigger};
use crate::edged::{
    events::{Severity, reason},
    observed::{Fault, Observed},
    probes::{self, HookContainer},
};

/// A postStart hook has no limit of its own; it ends with its container. This one is for a runtime that loses it.
const MAX_POST_START: Duration = Duration::from_secs(24 * 60 * 60);
/// A hook that is as quick as this needs no second sync of the pod.
const QUICK_HOOK: Duration = Duration::from_millis(100);

/// Runs the postStart hook of the container `id`, if it has one, and waits a moment for it. When it ends later, it triggers
/// the pod.
pub(super) async fn post_start(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    container: &Container,
    id: &str,
    pod_ip: String,
) {
    let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.clone());
    let Some(hook) = hook else { return };
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let alive = context.pod_cache.with(&uid, |state| {
        state.hooks.insert(id.to_owned(), PostStart::Running);
        state.while_alive(id)
    });
    let (task, pod, container, id) = (context.clone(), pod.clone(), container.clone(), id.to_owned());
    let (ended, quick) = tokio::sync::oneshot::channel::<()>();
    context.background.spawn(async move {
        let target = HookContainer { spec: &container, id: &id, pod_ip: &pod_ip };
        let running = probes::run_hook(&task.runtime, &hook, target, MAX_POST_START);
        // With the container that it was for, its end matters to nobody.
        let done = alive.run_until_cancelled(running).await.unwrap_or(Ok(()));
        if let Err(why) = &done {
            tracing::info!(pod = pod.metadata.name, container = container.name, why, "postStart hook failed");
            // The reason may be secret.
            let text = "PostStartHook failed".to_owned();
            let kind = reason::FAILED_POST_START_HOOK;
            task.events.container(&pod, &container.name, Severity::Warning, kind, text);
        }
        task.pod_cache.with(&uid, |state| match done {
            Ok(()) => state.hooks.remove(&id),
            Err(_) => state.hooks.insert(id, PostStart::Failed),
        });
        if ended.send(()).is_err() {
            let _ = task.triggers.send(Trigger::of(&pod)).await;
        }
    });
    let _ = tokio::time::timeout(QUICK_HOOK, quick).await;
}

/// Entries in `observed` what the hooks have to do with it, and forgets those of containers that are gone.
pub(super) fn judge(hooks: &mut HashMap<String, PostStart>, observed: &mut Observed) {
    if hooks.is_empty() {
        return;
    }
    hooks.retain(|id, _| observed.containers.iter().any(|container| container.id == *id));
    for container in &mut observed.containers {
        match hooks.get(&container.id) {
            Some(PostStart::Running) => container.health.starting = true,
            Some(PostStart::Failed) => container.health.fault = Some(Fault::PostStart),
            None => {}
        }
    }
}

/// A preStop hook that is to run.
pub(super) struct PreStop {
    /// What it does.
    pub(super) hook: LifecycleHandler,
    /// Its container.
    pub(super) container: Container,
    /// Where the pod is.
    pub(super) pod_ip: String,
    /// Cancelled when the container has ended by itself.
    pub(super) alive: CancellationToken,
}

impl PreStop {
    /// Runs it for at most `limit`. The container is stopped whatever comes of it.
    pub(super) async fn run(&self, context: &Context, pod: &Pod, id: &str, limit: Duration) {
        let target = HookContainer { spec: &self.container, id, pod_ip: &self.pod_ip };
        let running = probes::run_hook(&context.runtime, &self.hook, target, limit);
        if let Some(Err(why)) = self.alive.run_until_cancelled(running).await {
            let name = self.container.name.as_str();
            tracing::info!(pod = pod.metadata.name, container = name, why, "preStop hook failed");
            let text = "PreStopHook failed".to_owned();
            context.events.container(pod, name, Severity::Warning, reason::FAILED_PRE_STOP_HOOK, text);
        }
    }
}
