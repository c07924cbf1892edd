//! Manages the pod's volumes: fetches their sources, sets them up, keeps them up to date, and removes them when the pod has
//! ended.

mod claims;
mod tokens;

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use wire::text::with_causes;

use super::{
    cache::{self, Blocked, PodState},
    context::Context,
    fetch,
    identity::Identity,
    record_event,
};
use crate::{
    downward::Downward,
    observed::ObservedPod,
    references,
    status::Waiting,
    timestamps, volume_source,
    volumes::{self, Inputs},
};

/// Why volumes are not set up yet.
const BEING_REMOVED: &str = "volumes of an earlier instance of this pod are being removed";

/// Brings the volumes up to date if they are due, and returns when they are due again. A failure delays a pod that has not
/// started; a running pod keeps the files that it has.
pub(super) async fn refresh(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    identity: &Identity<'_>,
    observed: &ObservedPod,
) -> Option<Timestamp> {
    let now = clock::now();
    let metadata = metadata_hash(pod);
    let (fresh_until, retry_at, changes) = context.pod_cache.with(identity.uid, |state| {
        if state.volumes_metadata_hash.replace(metadata) != Some(metadata) {
            state.volumes_valid_until = None;
        }
        (
            state.volumes_valid_until,
            state.held_up.as_ref().map(|held_up| held_up.retry_at),
            state.changes,
        )
    });
    let longest = context.resync.max(cache::MAX_WAIT);
    if let Some(at) = fresh_until
        .or(retry_at)
        .filter(|at| !timestamps::has_elapsed(*at, now, longest))
    {
        return Some(at);
    }
    let wanted: BTreeSet<_> = volume_source::volumes(pod)
        .flat_map(references::of_volume)
        .collect();
    let objects = fetch::objects(
        &context.client,
        context.node.api_ca.as_deref(),
        identity.namespace,
        wanted,
    )
    .await;
    let (tokens, tokens_due) = tokens::of_pod(context, pod, identity, now).await;
    let claims = claims::of_pod(context, pod, identity).await;
    let inputs = Inputs {
        objects,
        tokens,
        claims,
    };
    let (task_context, task_pod) = (context.clone(), pod.clone());
    let (ips, host_ips) = (context.pod_ips(pod, observed), context.node.addresses.ips());
    let logs = context
        .dirs
        .pod_logs(identity.namespace, identity.name, identity.uid);
    let pod_dir = context.dirs.pod(identity.uid);
    let done = componentbase::spawn_blocking(move || {
        if task_context.removing.is_removing(&[&pod_dir, &logs]) {
            return Err(BEING_REMOVED.to_owned());
        }
        let downward = Downward {
            pod: &task_pod,
            host_ips: &host_ips,
            pod_ips: &ips,
            allocatable: task_context.node.allocatable,
        };
        volumes::set_up(&task_context.dirs, &downward, &inputs).map_err(|error| with_causes(&error))
    });
    let done = done.await.unwrap_or_else(|error| Err(error.to_string()));
    if let Err(message) = &done {
        record_event::mount_failed(&context.events, pod, message);
    }
    context.pod_cache.with(identity.uid, |state| {
        let due = store_result(state, done, tokens_due, context, now);
        if state.changes != changes {
            // The objects may have been read before the change; its own trigger comes after this sync.
            state.retry_now();
        }
        due
    })
}

/// Returns a hash of the metadata that files of the downward API can contain and that may change while the pod runs.
fn metadata_hash(pod: &Pod) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&pod.metadata.labels, &pod.metadata.annotations).hash(&mut hasher);
    hasher.finish()
}

/// Stores whether the volumes are up to date, and returns when they are due again.
fn store_result(
    state: &mut PodState,
    done: Result<(), String>,
    tokens_due: Option<Timestamp>,
    context: &Context,
    now: Timestamp,
) -> Option<Timestamp> {
    match done {
        Ok(()) => {
            state.held_up = None;
            let again = timestamps::after(now, context.resync);
            // A token that could not be replaced in time is requested again at the resync interval.
            let due = tokens_due
                .filter(|at| *at > now)
                .map_or(again, |at| at.min(again));
            state.volumes_valid_until = Some(due);
        }
        Err(message) => {
            tracing::debug!(message, "volumes outdated");
            state.volumes_valid_until = None;
            let waiting = Waiting::new("ContainerCreating", message);
            state.held_up = Some(Blocked::next(state.held_up.as_ref(), waiting, now));
        }
    }
    state
        .volumes_valid_until
        .or(state.held_up.as_ref().map(|held_up| held_up.retry_at))
}

/// Removes the volumes of a pod that has ended, once, to free their space. Its logs and termination messages stay.
pub(super) async fn remove(context: &Context, identity: &Identity<'_>) {
    let (dirs, uid) = (context.dirs.clone(), identity.uid.to_owned());
    if context.pod_cache.with(&uid, |state| {
        std::mem::replace(&mut state.volumes_removed, true)
    }) {
        return;
    }
    let done = componentbase::spawn_blocking(move || volumes::remove_volumes(&dirs, &uid)).await;
    if let Ok(Err(error)) = done {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "failed to clean up volumes of a terminated pod"
        );
        context
            .pod_cache
            .with(identity.uid, |state| state.volumes_removed = false);
    }
}
