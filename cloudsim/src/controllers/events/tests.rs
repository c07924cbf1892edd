//! Tests of [`super`].

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{Api, ResourceExt, api::ListParams, core::ObjectMeta};
use objectstore::MemoryStore;
use testkit::eventually;

use super::*;
use crate::controllers::namespace_defaults;

fn pod(name: &str) -> Pod {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        namespace: Some("default".into()),
        uid: Some(name.into()),
        ..ObjectMeta::default()
    };
    Pod {
        metadata,
        ..Pod::default()
    }
}

#[tokio::test]
async fn what_is_told_is_written_once_and_goes_after_an_hour() {
    let client = apiserver::builder(MemoryStore::new())
        .build()
        .client("default");
    namespace_defaults::ensure_initial(&client).await.unwrap();
    let (tasks, stop) = (Tasks::default(), CancellationToken::new());
    let recorder = Recorder::spawn(&tasks, &client, &stop);
    let node = Node {
        metadata: ObjectMeta {
            name: Some("n".into()),
            ..ObjectMeta::default()
        },
        ..Node::default()
    };
    for _ in 0..3 {
        recorder.record(
            &pod("a"),
            NewEvent::warning(Component::Scheduler, "FailedScheduling", "no node".into()),
        );
        recorder.record(
            &node,
            NewEvent::normal(Component::Node, "RegisteredNode", "it came".into()),
        );
    }
    let api = Api::<Event>::default_namespaced(client.clone());
    let is_told = |events: &[Event]| {
        let times = |event: &Event| {
            event
                .count
                .or(event.series.as_ref().and_then(|series| series.count))
        };
        events.len() == 2 && events.iter().all(|event| times(event) == Some(3))
    };
    let events = eventually("three of each event", async || {
        let events = api.list(&ListParams::default()).await.unwrap().items;
        if is_told(&events) {
            Ok(events)
        } else {
            Err(events)
        }
    })
    .await;
    let of_pod = events
        .iter()
        .find(|event| event.involved_object.kind.as_deref() == Some("Pod"))
        .unwrap();
    assert_eq!(
        (
            of_pod.type_.as_deref(),
            of_pod.reporting_component.as_deref()
        ),
        (Some("Warning"), Some("default-scheduler"))
    );
    assert!(of_pod.name_any().starts_with("a."));
    let now = clock::now();
    expire::expire(&client, now + SignedDuration::from_mins(59))
        .await
        .unwrap();
    assert_eq!(
        api.list(&ListParams::default()).await.unwrap().items.len(),
        2
    );
    expire::expire(&client, now + SignedDuration::from_mins(61))
        .await
        .unwrap();
    assert!(
        api.list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    stop.cancel();
    tasks.close();
    tasks.wait().await.expect("no task panicked");
}
