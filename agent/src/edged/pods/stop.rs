//! Stops containers in the background: it takes as long as their preStop hooks and their grace period, and the pod must be
//! synced meanwhile.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::{context::Context, hooks, trigger::Trigger};
use crate::edged::{
    convert,
    events::{Severity, reason},
    moment,
    observed::{Fault, Observed},
    plan::{self, RestartPolicy, Why},
};

/// A stop that failed is tried again after this.
const STOP_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How exact timestamps of the API are.
const TIMESTAMP_RESOLUTION: Duration = Duration::from_secs(1);
/// What a container has at least, once its turn has come, unless it is to be killed at once; the kubelet's number.
const MIN_GRACE: Duration = Duration::from_secs(2);

/// When a container of the pod that is asked to end now is killed. A pod that is being deleted has until its deletion
/// timestamp, which is in whole seconds and not to cut its last one short; when that has passed already (the node was away), its
/// containers still get the grace period to save their work in.
fn deadline(pod: &Pod, now: Timestamp) -> Timestamp {
    let full = moment::after(now, Duration::from_secs(grace(pod)));
    match &pod.metadata.deletion_timestamp {
        Some(at) if at.0 > now => full.min(moment::after(at.0, TIMESTAMP_RESOLUTION)),
        _ => full,
    }
}

/// Seconds that the pod's containers have.
fn grace(pod: &Pod) -> u64 {
    let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or_else(|| convert::grace_seconds(pod));
    u64::try_from(seconds).unwrap_or(0)
}

/// When this container is killed: one that ends for its probe may have a grace period of its own.
fn deadline_for(pod: &Pod, spec: Option<&Container>, why: Why, now: Timestamp) -> Timestamp {
    let probe = spec.and_then(|spec| match why {
        Why::Fault(Fault::Liveness) => spec.liveness_probe.as_ref(),
        Why::Fault(Fault::Startup) => spec.startup_probe.as_ref(),
        _ => None,
    });
    let own = probe.and_then(|probe| probe.termination_grace_period_seconds);
    match own.and_then(|seconds| u64::try_from(seconds).ok()) {
        Some(seconds) => moment::after(now, Duration::from_secs(seconds)),
        None => deadline(pod, now),
    }
}

/// Asks the container `id` to end, unless it was asked to end at least as early.
pub(super) fn container(context: &Arc<Context>, pod: &Arc<Pod>, observed: &Observed, id: &str, why: Why) {
    let Some(running) = observed.containers.iter().find(|container| container.id == id) else { return };
    let spec = plan::spec_of(pod, &running.name);
    let (now, uid) = (Timestamp::now(), pod.metadata.uid.clone().unwrap_or_default());
    let deleted = pod.metadata.deletion_timestamp.is_some();
    let asked = context.pod_cache.with(&uid, |state| {
        let mut deadline = deadline_for(pod, spec.as_ref(), why, now);
        if let Some(grace) = state.termination.as_ref().and_then(|termination| termination.grace) {
            deadline = deadline.min(moment::after(now, grace));
        }
        if deleted {
            // Those whose turn comes later have what is left of the same time.
            let end_by = state.end_by.map_or(deadline, |end_by| end_by.min(deadline));
            state.end_by = Some(end_by);
            let least = if grace(pod) == 0 { Duration::ZERO } else { MIN_GRACE };
            deadline = end_by.max(moment::after(now, least));
        }
        let earlier = state.stops.get(id).copied();
        if earlier.is_some_and(|earlier| earlier <= deadline) {
            return None;
        }
        state.stops.insert(id.to_owned(), deadline);
        Some((deadline, earlier.is_none()))
    });
    let Some((deadline, first)) = asked else { return };
    if first {
        let text = message(pod, &running.name, spec.as_ref(), why);
        context.events.container(pod, &running.name, Severity::Normal, reason::KILLING, text);
    }
    let hook = spec.filter(|_| first && deadline > now).and_then(|spec| {
        let hook = spec.lifecycle.as_ref()?.pre_stop.clone()?;
        let (pod_ip, alive) =
            (context.pod_ip(pod, observed), context.pod_cache.with(&uid, |state| state.while_alive(id)));
        Some(hooks::PreStop { hook, container: spec, pod_ip, alive })
    });
    let (task, pod, id) = (context.clone(), pod.clone(), id.to_owned());
    context.background.spawn(async move {
        run(&task, &pod, &id, moment::until(deadline, now), hook).await;
        task.pod_cache.with(&uid, |state| {
            if state.stops.get(&id) == Some(&deadline) {
                state.stops.remove(&id);
            }
        });
        let _ = task.triggers.send(Trigger::of(&pod)).await;
    });
}

/// The time is counted from now on, whatever becomes of the clock.
async fn run(context: &Context, pod: &Arc<Pod>, id: &str, mut grace: Duration, hook: Option<hooks::PreStop>) {
    if let Some(hook) = hook {
        let begun = Instant::now();
        hook.run(context, pod, id, grace).await;
        grace = grace.saturating_sub(begun.elapsed()).max(MIN_GRACE);
    }
    // Rounded up: a grace period of 30 s must not become 29 s on its way.
    let grace = Duration::from_secs(grace.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX));
    if let Err(error) = context.runtime.stop_container(id, grace).await {
        let pod = &pod.metadata.name;
        tracing::warn!(pod, container = id, error = &error as &dyn std::error::Error, "not stopped");
        tokio::time::sleep(STOP_RETRY_DELAY).await;
    }
}

/// The message of the event `Killing`.
fn message(pod: &Pod, name: &str, spec: Option<&Container>, why: Why) -> String {
    let what = match why {
        Why::Ending => return format!("Stopping container {name}"),
        Why::Fault(Fault::PostStart) => return reason::FAILED_POST_START_HOOK.into(),
        Why::Changed => "definition changed",
        Why::Fault(Fault::Liveness) => "failed liveness probe",
        Why::Fault(Fault::Startup) => "failed startup probe",
    };
    let policy = RestartPolicy::of(pod);
    let policy = spec.map_or(policy, |spec| RestartPolicy::of_container(spec, policy));
    let again = why == Why::Changed || policy != RestartPolicy::Never;
    format!("Container {name} {what}{}", if again { ", will be restarted" } else { "" })
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
        assert_eq!(deadline(json!({}), "2030-01-01T00:00:00Z"), "2030-01-01T00:00:10Z");
        let deleted = json!({"deletionTimestamp": "2030-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30});
        assert_eq!(deadline(deleted.clone(), "2030-01-01T00:00:00.5Z"), "2030-01-01T00:00:30.5Z");
        assert_eq!(deadline(deleted.clone(), "2030-01-01T00:00:20Z"), "2030-01-01T00:00:31Z");
        assert_eq!(deadline(deleted.clone(), "2030-01-01T01:00:00Z"), "2030-01-01T01:00:30Z");
        assert_eq!(
            deadline(deleted, "2029-01-01T00:00:00Z"),
            "2029-01-01T00:00:30Z",
            "this node's clock is behind"
        );
        let forced = json!({"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0});
        assert_eq!(deadline(forced, "2030-01-01T00:00:00Z"), "2030-01-01T00:00:00Z");
    }

    #[test]
    fn a_stop_says_why_and_has_its_own_time() {
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
        assert_eq!(told(Why::Ending), ("Stopping container web".into(), 10));
        assert_eq!(told(Why::Fault(Fault::Liveness)), ("Container web failed liveness probe".into(), 3));
        assert_eq!(told(Why::Fault(Fault::Startup)), ("Container web failed startup probe".into(), 10));
        let changed = "Container web definition changed, will be restarted";
        assert_eq!(told(Why::Changed), (changed.into(), 10));
    }
}
