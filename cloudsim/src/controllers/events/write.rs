//! Writes events: the scheduler's in its own form (`events.k8s.io`), others with `source` and counts.

use jiff::{Timestamp, Unit};
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::debug;

use super::{
    Component, NewEvent, Occurrence,
    correlate::{Correlator, Verdict},
};

/// Writes until all recorders are dropped.
pub(super) async fn run(client: Client, mut occurrences: mpsc::Receiver<Occurrence>) {
    let mut correlator = Correlator::default();
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
    correlator: &mut Correlator,
    Occurrence { about, new_event }: &Occurrence,
) -> Result<(), kube::Error> {
    let now = Timestamp::now();
    // events of cluster-scoped objects are in `default`
    let namespace = about.namespace.as_deref().unwrap_or("default");
    let api = Api::<Event>::namespaced(client.clone(), namespace);
    let message = match correlator.correlate(about, new_event, now) {
        Verdict::Drop => return Ok(()),
        Verdict::Create { message } => message,
        Verdict::Again {
            name,
            count,
            message,
        } => {
            let patch = Patch::Merge(again(new_event, count, &message, now));
            match api.patch(&name, &PatchParams::default(), &patch).await {
                // the event has expired
                Err(kube::Error::Api(status)) if status.code == 404 => message,
                result => return result.map(drop),
            }
        }
    };
    let event = event(about, new_event, message, now);
    let name = event.metadata.name.clone().unwrap_or_default();
    api.create(&PostParams::default(), &event).await?;
    correlator.record_written(about, new_event, name, now);
    Ok(())
}

fn is_series(new_event: &NewEvent) -> bool {
    new_event.by == Component::Scheduler
}

fn again(new_event: &NewEvent, count: i32, message: &str, now: Timestamp) -> serde_json::Value {
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

fn event(about: &ObjectReference, new_event: &NewEvent, message: String, now: Timestamp) -> Event {
    let component = new_event.by.name().to_owned();
    let event = Event {
        metadata: ObjectMeta {
            name: Some(format!(
                "{}.{:x}",
                about.name.as_deref().unwrap_or_default(),
                now.as_nanosecond()
            )),
            namespace: Some(about.namespace.clone().unwrap_or_else(|| "default".into())),
            ..ObjectMeta::default()
        },
        involved_object: about.clone(),
        message: Some(message),
        reason: Some(new_event.reason.to_owned()),
        type_: Some(if new_event.warns { "Warning" } else { "Normal" }.to_owned()),
        reporting_component: Some(component.clone()),
        ..Event::default()
    };
    if is_series(new_event) {
        return Event {
            event_time: Some(MicroTime(micros(now))),
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
        first_timestamp: Some(Time(seconds(now))),
        last_timestamp: Some(Time(seconds(now))),
        count: Some(1),
        ..event
    }
}
