//! Deletes events an hour after they were last written, as the API server's `--event-ttl` does.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Preconditions},
    core::PartialObjectMeta,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

const TTL: SignedDuration = SignedDuration::from_hours(1);
/// How often events are checked; an event may be kept this much longer.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(300);

/// Runs until `stop`.
pub(super) async fn run(client: Client, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(EXPIRE_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // cancel-safe: a tick that is not taken comes again
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let expiring = expire(&client, clock::now());
        if let Some(Err(error)) = stop.run_until_cancelled(expiring).await {
            debug!(
                error = &error as &dyn std::error::Error,
                "failed to delete old events"
            );
        }
    }
}

/// Deletes events that are too old at `now`.
pub(super) async fn expire(client: &Client, now: Timestamp) -> Result<(), kube::Error> {
    let all = Api::<Event>::all(client.clone())
        .list_metadata(&ListParams::default())
        .await?;
    for event in all
        .iter()
        .filter(|event| write_time(event).is_some_and(|time| now.duration_since(time) >= TTL))
    {
        let api = Api::<Event>::namespaced(client.clone(), &event.namespace().unwrap_or_default());
        // unless it was incremented meanwhile
        let preconditions = Preconditions {
            uid: event.uid(),
            resource_version: event.resource_version(),
        };
        let params = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        match api.delete(&event.name_any(), &params).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            result => drop(result?),
        }
    }
    Ok(())
}

/// Returns when the API last wrote it. Its own timestamps come from an edge node's clock.
fn write_time(event: &PartialObjectMeta<Event>) -> Option<Timestamp> {
    let managed = event
        .managed_fields()
        .iter()
        .filter_map(|entry| entry.time.as_ref().map(|time| time.0));
    managed
        .chain(event.creation_timestamp().map(|time| time.0))
        .max()
}
