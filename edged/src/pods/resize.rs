//! Gives running containers the resources that their specification has now.

use std::{collections::HashSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::{context::Context, identity::Identity, stop};
use crate::{
    convert,
    observed::ObservedPod,
    plan::{self, StopReason},
    resize::{self, ResizeStatus, ResourceChange},
    timestamps,
};

/// Delay before a resize that failed or did not fit is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// The pod as a sync handles it.
pub(super) struct Resized {
    /// The pod; with the resources of its running containers while a resize is pending.
    pub(super) pod: Arc<Pod>,
    /// When to try again.
    pub(super) retry_at: Option<Timestamp>,
}

/// Resizes the running containers of a pod, or notes why that is not possible.
pub(super) async fn sync(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    observed: &ObservedPod,
) -> Resized {
    let known = context.pod_cache.with(identity.uid, |state| {
        state
            .resources
            .retain(|id, _| observed.containers.iter().any(|one| one.id == *id));
        state.resources.clone()
    });
    let applied = resize::applied_resources(pod, observed, &known);
    let changes = resize::changes(pod, &applied);
    let store = |status: Option<ResizeStatus>| {
        context
            .pod_cache
            .with(identity.uid, |state| state.resize = status);
    };
    if changes.is_empty() {
        store(None);
        return Resized {
            pod: Arc::clone(pod),
            retry_at: None,
        };
    }
    let before = resize::with_applied(pod, &applied);
    let retry_at = Some(timestamps::after(clock::now(), RETRY_DELAY));
    if let Some((reason, message)) = context.admitter.refusal_of_resize(&before, pod).await {
        store(Some(ResizeStatus::Pending { reason, message }));
        return Resized {
            pod: Arc::new(before),
            retry_at,
        };
    }
    let error = apply(context, pod, identity, observed, &changes).await;
    let is_done = error.is_none() && !changes.iter().any(|change| change.restarts);
    let retry_at = retry_at.filter(|_| error.is_some());
    store((!is_done).then_some(ResizeStatus::InProgress { error }));
    Resized {
        pod: Arc::clone(pod),
        retry_at,
    }
}

/// Marks containers that were stopped for a resize, and forgets those that no longer exist.
pub(super) fn apply_replaced(replaced: &mut HashSet<String>, observed: &mut ObservedPod) {
    if replaced.is_empty() {
        return;
    }
    replaced.retain(|id| observed.containers.iter().any(|one| one.id == *id));
    for container in &mut observed.containers {
        container.replaced = replaced.contains(&container.id);
    }
}

/// Changes all containers, and returns the first error.
async fn apply(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    observed: &ObservedPod,
    changes: &[ResourceChange],
) -> Option<String> {
    // before the containers get more, and after they have less
    let all = context.pods.state();
    context.groups.apply_limits(pod, &all).await;
    let mut first = None;
    for ResourceChange { id, name, restarts } in changes {
        if *restarts {
            context.pod_cache.with(identity.uid, |state| {
                state.replaced.insert(id.clone());
            });
            stop::stop_container(context, pod, observed, id, StopReason::Changed);
            continue;
        }
        let Some(spec) = plan::spec_of(pod, name) else {
            continue;
        };
        let resources = convert::container_resources(pod, &spec, &context.node.machine_resources);
        match context.runtime.update_container(id, resources).await {
            Ok(()) => context.pod_cache.with(identity.uid, |state| {
                let resources = spec.resources.unwrap_or_default();
                state.resources.insert(id.clone(), resources);
            }),
            Err(error) => {
                tracing::warn!(
                    pod = identity.name,
                    namespace = identity.namespace,
                    container = name,
                    error = &error as &dyn std::error::Error,
                    "failed to resize a container; retrying"
                );
                first.get_or_insert(format!("container {name:?}: {}", error.message()));
            }
        }
    }
    context.groups.apply_limits(pod, &all).await;
    first
}
