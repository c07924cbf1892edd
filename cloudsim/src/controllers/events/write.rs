//! Writes events: the scheduler's in its own form (`events.k8s.io`), others with `source` and counts.

use clock::Instant;

use jiff::{Timestamp, Unit};
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use limits::{CorrelatedEvent, EventCorrelator, EventIdentity};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::debug;

use super::{Component, NewEvent, Occurrence};

/// Writes until all recorders are dropped.
pub(super) async fn run(client: Client, mut occurrences: mpsc::Receiver<Occurrence>) {
    let mut correlator = EventCorrelator::default();
    while let Some(occurrence) = occurrences.recv().await {
        if let Err(error) = write(&client, &mut correlator, &occurrence).await {
            // fails in a terminating namespace, for example
            debug!(
                error = &error as &dyn std::error::Error,
                reason = occurrence.new_event.reason,
                "failed to write an event"
            );
        }
    }
}

async fn write(
    client: &Client,
    correlator: &mut EventCorrelator,
    Occurrence { about, new_event }: &Occurrence,
) -> Result<(), kube::Error> {
    let now = clock::now();
    // events of cluster-scoped objects are in `default`
    let namespace = about.namespace.as_deref().unwrap_or("default");
    let api = Api::<Event>::namespaced(client.clone(), namespace);
    let identity = EventIdentity {
        object: (new_event.by, identity(about)),
        kind: new_event.reason,
    };
    let message = new_event.message.clone();
    let Some(mut correlated) = correlator.correlate(&identity, message, now, Instant::now()) else {
        return Ok(());
    };
    if correlated.count > 1 {
        let patch = patch(new_event, &correlated, now);
        let name = event_name(about, correlated.first);
        let patch = Patch::Merge(patch);
        match api.patch(&name, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                correlator.restart(&mut correlated, now);
            }
            result => return result.map(drop),
        }
    }
    let event = event(about, new_event, correlated);
    api.create(&PostParams::default(), &event).await?;
    Ok(())
}

/// The fields that tell objects apart.
fn identity(about: &ObjectReference) -> [&Option<String>; 4] {
    [&about.kind, &about.namespace, &about.name, &about.uid]
}

/// Returns the name of an event: the object's, and the time at which the event occurred first.
fn event_name(about: &ObjectReference, first: Timestamp) -> String {
    let name = about.name.as_deref().unwrap_or_default();
    format!("{name}.{:x}", first.as_nanosecond())
}

fn is_series(new_event: &NewEvent) -> bool {
    new_event.by == Component::Scheduler
}

/// Returns the patch of an event that has occurred again.
fn patch(new_event: &NewEvent, correlated: &CorrelatedEvent, now: Timestamp) -> serde_json::Value {
    let (count, message) = (correlated.count, &correlated.message);
    if is_series(new_event) {
        return json!({"message": message, "series": {"count": count, "lastObservedTime": MicroTime(micros(now))}});
    }
    json!({"message": message, "count": count, "lastTimestamp": Time(seconds(now))})
}

fn seconds(time: Timestamp) -> Timestamp {
    time.round(Unit::Second).unwrap_or(time)
}

fn micros(time: Timestamp) -> Timestamp {
    time.round(Unit::Microsecond).unwrap_or(time)
}

fn event(about: &ObjectReference, new_event: &NewEvent, correlated: CorrelatedEvent) -> Event {
    let first = correlated.first;
    let component = new_event.by.name().to_owned();
    let event = Event {
        metadata: ObjectMeta {
            name: Some(event_name(about, first)),
            namespace: Some(about.namespace.clone().unwrap_or_else(|| "default".into())),
            ..ObjectMeta::default()
        },
        involved_object: about.clone(),
        message: Some(correlated.message),
        reason: Some(new_event.reason.to_owned()),
        type_: Some(if new_event.warns { "Warning" } else { "Normal" }.to_owned()),
        reporting_component: Some(component.clone()),
        ..Event::default()
    };
    if is_series(new_event) {
        return Event {
            event_time: Some(MicroTime(micros(first))),
            action: Some(
                if new_event.reason == "Scheduled" {
                    "Binding"
                } else {
                    "Scheduling"
                }
                .into(),
            ),
            reporting_instance: Some(format!("{component}-cloudsim")),
            ..event
        };
    }
    Event {
        source: Some(EventSource {
            component: Some(component),
            host: None,
        }),
        first_timestamp: Some(Time(seconds(first))),
        last_timestamp: Some(Time(seconds(first))),
        count: Some(correlated.count),
        ..event
    }
}
