//! Stops containers in the background: this takes as long as their preStop hooks and grace periods, and the pod must be synced
//! meanwhile.

use std::{sync::Arc, time::Duration};

use clock::Instant;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::{context::Context, hooks};
use crate::{
    convert,
    events::{EventType, reason},
    observed::{HealthFailure, ObservedPod},
    plan::{self, RestartPolicy, StopReason},
    timestamps,
    trigger::Trigger,
};

/// Delay before a failed stop is tried again.
const STOP_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Resolution of timestamps in the API.
const TIMESTAMP_RESOLUTION: Duration = Duration::from_secs(1);
/// Minimum grace period of a container unless it is killed at once; the kubelet's number.
const MIN_GRACE: Duration = Duration::from_secs(2);

/// Returns when a container that is asked to end now is killed. A pod that is being deleted has until its deletion timestamp,
/// plus a second because that is in whole seconds. If the timestamp has passed already because the node was off, containers still
/// have the full grace period.
fn deadline(pod: &Pod, now: Timestamp) -> Timestamp {
    let full = timestamps::after(now, Duration::from_secs(grace(pod)));
    match &pod.metadata.deletion_timestamp {
        Some(at) if at.0 > now => full.min(timestamps::after(at.0, TIMESTAMP_RESOLUTION)),
        _ => full,
    }
}

/// Returns the pod's grace period in seconds.
fn grace(pod: &Pod) -> u64 {
    let seconds = pod
        .metadata
        .deletion_grace_period_seconds
        .unwrap_or_else(|| convert::grace_seconds(pod));
    u64::try_from(seconds).unwrap_or(0)
}

/// Returns when this container is killed: if a probe failed, the probe may set its own grace period.
fn deadline_for(pod: &Pod, spec: Option<&Container>, why: StopReason, now: Timestamp) -> Timestamp {
    let probe = spec.and_then(|spec| match why {
        StopReason::HealthFailure(HealthFailure::Liveness) => spec.liveness_probe.as_ref(),
        StopReason::HealthFailure(HealthFailure::Startup) => spec.startup_probe.as_ref(),
        _ => None,
    });
    let own = probe.and_then(|probe| probe.termination_grace_period_seconds);
    match own.and_then(|seconds| u64::try_from(seconds).ok()) {
        Some(seconds) => timestamps::after(now, Duration::from_secs(seconds)),
        None => deadline(pod, now),
    }
}

/// Asks the container `id` to end, unless it was asked already with the same or an earlier deadline.
pub(super) fn stop_container(
    context: &Arc<Context>,
    pod: &Arc<Pod>,
    observed: &ObservedPod,
    id: &str,
    why: StopReason,
) {
    let Some(running) = observed
        .containers
        .iter()
        .find(|container| container.id == id)
    else {
        return;
    };
    let spec = plan::spec_of(pod, &running.name);
    let (now, uid) = (clock::now(), pod.metadata.uid.clone().unwrap_or_default());
    let deleted = pod.metadata.deletion_timestamp.is_some();
    let scheduled = context.pod_cache.with(&uid, |state| {
        let mut deadline = deadline_for(pod, spec.as_ref(), why, now);
        if let Some(grace) = state
            .termination
            .as_ref()
            .and_then(|termination| termination.grace)
        {
            deadline = deadline.min(timestamps::after(now, grace));
        }
        if deleted {
            // Containers that are stopped later have the rest of the same time.
            let end_by = state.end_by.map_or(deadline, |end_by| end_by.min(deadline));
            state.end_by = Some(end_by);
            let least = if grace(pod) == 0 {
                Duration::ZERO
            } else {
                MIN_GRACE
            };
            deadline = end_by.max(timestamps::after(now, least));
        }
        let earlier = state.stops.get(id).copied();
        if earlier.is_some_and(|earlier| earlier <= deadline) {
            return None;
        }
        state.stops.insert(id.to_owned(), deadline);
        Some((deadline, earlier.is_none()))
    });
    let Some((deadline, first)) = scheduled else {
        return;
    };
    if first {
        let text = message(pod, &running.name, spec.as_ref(), why);
        context
            .events
            .container(pod, &running.name, EventType::Normal, reason::KILLING, text);
    }
    let hook = spec.filter(|_| first && deadline > now).and_then(|spec| {
        let hook = spec.lifecycle.as_ref()?.pre_stop.clone()?;
        let (pod_ip, lifetime) = (
            context.pod_ip(pod, observed),
            context
                .pod_cache
                .with(&uid, |state| state.lifetime_token(id)),
        );
        Some(hooks::PreStop {
            hook,
            container: spec,
            pod_ip,
            lifetime,
        })
    });
    let (task, pod, id) = (context.clone(), pod.clone(), id.to_owned());
    context.background.spawn(async move {
        run(&task, &pod, &id, timestamps::until(deadline, now), hook).await;
        task.pod_cache.with(&uid, |state| {
            if state.stops.get(&id) == Some(&deadline) {
                state.stops.remove(&id);
            }
        });
        let _ = task.triggers.send(Trigger::of(&pod)).await;
    });
}

/// Runs the preStop hook and stops the container. Time is measured from now on, independent of changes of the clock.
async fn run(
    context: &Context,
    pod: &Arc<Pod>,
    id: &str,
    mut grace: Duration,
    hook: Option<hooks::PreStop>,
) {
    if let Some(hook) = hook {
        let begun = Instant::now();
        hook.run(context, pod, id, grace).await;
        grace = grace.saturating_sub(begun.elapsed()).max(MIN_GRACE);
    }
    // Rounded up, so that a grace period of 30 s does not become 29 s.
    let grace = Duration::from_secs(
        grace
            .as_millis()
            .div_ceil(1000)
            .try_into()
            .unwrap_or(u64::MAX),
    );
    if let Err(error) = context.runtime.stop_container(id, grace).await {
        let pod = &pod.metadata.name;
        tracing::warn!(
            pod,
            container = id,
            error = &error as &dyn std::error::Error,
            "failed to stop container"
        );
        tokio::time::sleep(STOP_RETRY_DELAY).await;
    }
}

/// Returns the message of the event `Killing`.
fn message(pod: &Pod, name: &str, spec: Option<&Container>, why: StopReason) -> String {
    let what = match why {
        StopReason::Ending => return format!("Stopping container {name}"),
        StopReason::HealthFailure(HealthFailure::PostStart) => {
            return reason::FAILED_POST_START_HOOK.into();
        }
        StopReason::Changed => "definition changed",
        StopReason::HealthFailure(HealthFailure::Liveness) => "failed liveness probe",
        StopReason::HealthFailure(HealthFailure::Startup) => "failed startup probe",
    };
    let policy = RestartPolicy::of(pod);
    let policy = spec.map_or(policy, |spec| RestartPolicy::of_container(spec, policy));
    let again = why == StopReason::Changed || policy != RestartPolicy::Never;
    format!(
        "Container {name} {what}{}",
        if again { ", will be restarted" } else { "" }
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deleted_pods_containers_have_until_its_deletion_timestamp() {
        let deadline = |metadata: serde_json::Value, now: &str| {
            let pod: Pod = serde_json::from_value(
                json!({"metadata": metadata, "spec": {"containers": [], "terminationGracePeriodSeconds": 10}}),
            )
            .unwrap();
            deadline(&pod, now.parse().unwrap()).to_string()
        };
        assert_eq!(
            deadline(json!({}), "2030-01-01T00:00:00Z"),
            "2030-01-01T00:00:10Z"
        );
        let deleted =
            json!({"deletionTimestamp": "2030-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30});
        assert_eq!(
            deadline(deleted.clone(), "2030-01-01T00:00:00.5Z"),
            "2030-01-01T00:00:30.5Z"
        );
        assert_eq!(
            deadline(deleted.clone(), "2030-01-01T00:00:20Z"),
            "2030-01-01T00:00:31Z"
        );
        assert_eq!(
            deadline(deleted.clone(), "2030-01-01T01:00:00Z"),
            "2030-01-01T01:00:30Z"
        );
        assert_eq!(
            deadline(deleted, "2029-01-01T00:00:00Z"),
            "2029-01-01T00:00:30Z",
            "this node's clock is behind"
        );
        let forced =
            json!({"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0});
        assert_eq!(
            deadline(forced, "2030-01-01T00:00:00Z"),
            "2030-01-01T00:00:00Z"
        );
    }

    #[test]
    fn stop_message_and_grace_period_depend_on_the_reason() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 10,
            "containers": [{"name": "web", "livenessProbe": {"terminationGracePeriodSeconds": 3}}]
        }}))
        .unwrap();
        let spec = plan::spec_of(&pod, "web");
        let told = |why| {
            let at = deadline_for(&pod, spec.as_ref(), why, Timestamp::UNIX_EPOCH);
            (message(&pod, "web", spec.as_ref(), why), at.as_second())
        };
        assert_eq!(
            told(StopReason::Ending),
            ("Stopping container web".into(), 10)
        );
        assert_eq!(
            told(StopReason::HealthFailure(HealthFailure::Liveness)),
            ("Container web failed liveness probe".into(), 3)
        );
        assert_eq!(
            told(StopReason::HealthFailure(HealthFailure::Startup)),
            ("Container web failed startup probe".into(), 10)
        );
        let changed = "Container web definition changed, will be restarted";
        assert_eq!(told(StopReason::Changed), (changed.into(), 10));
    }
}
