//! Stops containers in the background: it takes as long as their grace period, and the pod must be looked at meanwhile.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::ObjectRef;

use super::{Context, Trigger};
use crate::edged::{convert, moment};

/// A stop that failed is tried again after this.
const RETRY: Duration = Duration::from_secs(1);

/// When a container of the pod that is asked to end now is killed. A pod that is being deleted has until its deletion
/// timestamp; when that has passed already (the node was away), its containers still get the grace period to save their
/// work in.
pub(super) fn deadline(pod: &Pod, now: Timestamp) -> Timestamp {
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_else(|| convert::grace_seconds(pod));
    let full = moment::after(now, Duration::from_secs(u64::try_from(grace).unwrap_or(0)));
    match &pod.metadata.deletion_timestamp {
        Some(at) if at.0 > now => full.min(at.0),
        _ => full,
    }
}

/// Asks the container to end until `deadline`, unless it was asked to end at least as early.
pub(super) fn container(context: &Arc<Context>, pod: &Pod, id: &str, deadline: Timestamp) {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let is_news = context.book.with(&uid, |memory| match memory.stops.get(id) {
        Some(earlier) if *earlier <= deadline => false,
        _ => memory.stops.insert(id.to_owned(), deadline).is_none_or(|later| later > deadline),
    });
    if !is_news {
        return;
    }
    let (context, id, pod) = (context.clone(), id.to_owned(), ObjectRef::from_obj(pod));
    let background = context.background.clone();
    let shutdown = context.shutdown.clone();
    background.spawn(shutdown.run_until_cancelled_owned(async move {
        let grace = moment::until(deadline, Timestamp::now());
        // Rounded up: a grace period of 30 s must not become 29 s on its way.
        let grace = Duration::from_secs(grace.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX));
        if let Err(error) = context.runtime.stop_container(&id, grace).await {
            tracing::warn!(pod = %pod, container = id, error = &error as &dyn std::error::Error, "not stopped");
            tokio::time::sleep(RETRY).await;
        }
        context.book.with(&uid, |memory| {
            if memory.stops.get(&id) == Some(&deadline) {
                memory.stops.remove(&id);
            }
        });
        let _ = context.triggers.send(Trigger::Pod(pod)).await;
    }));
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
        assert_eq!(deadline(deleted.clone(), "2030-01-01T00:00:20Z"), "2030-01-01T00:00:30Z");
        assert_eq!(deadline(deleted.clone(), "2030-01-01T01:00:00Z"), "2030-01-01T01:00:30Z");
        assert_eq!(
            deadline(deleted, "2029-01-01T00:00:00Z"),
            "2029-01-01T00:00:30Z",
            "this node's clock is behind"
        );
        let forced = json!({"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0});
        assert_eq!(deadline(forced, "2030-01-01T00:00:00Z"), "2030-01-01T00:00:00Z");
    }
}
