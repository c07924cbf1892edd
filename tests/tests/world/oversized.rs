//! Objects that are larger than a node accepts: the node is not sent them, and everything else goes on.

use cloudsim::hub::Limits;
use serde_json::json;
use tests::{Setup, World, eventually, manifests::pod};

#[tokio::test]
async fn object_that_a_node_rejects_is_skipped_and_reported() {
    let limits = Limits {
        max_sent_message: 128 * 1024,
        ..Limits::default()
    };
    let world = World::with(Setup {
        limits,
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    world.run(&pod("before", Some("edge-1"))).await;
    let ids = world.running(0);
    let begin = || -> Vec<_> {
        world
            .cloud()
            .sessions()
            .iter()
            .map(|session| session.since)
            .collect()
    };
    let began = begin();
    let mut large = pod("large", Some("edge-1"));
    large["metadata"]["annotations"] = json!({"example.com/large": "x".repeat(200 * 1024)});
    world.apply(&large).await;

    let large = world.pod("large").get().await;
    eventually("an event names the pod and the node", async || {
        let events =
            kube::Api::<k8s_openapi::api::core::v1::Event>::namespaced(world.client(), "default");
        let events = events.list(&Default::default()).await.unwrap().items;
        let of_it = events
            .iter()
            .filter(|event| event.involved_object.uid.as_deref() == Some(tests::uid(&large)));
        let messages: Vec<_> = of_it
            .map(|event| (event.reason.clone(), event.message.clone()))
            .collect();
        let is_reported = messages.iter().any(|(reason, message)| {
            reason.as_deref() == Some("FailedToSendToNode")
                && message
                    .as_deref()
                    .unwrap_or_default()
                    .contains("node edge-1 was not sent this object")
        });
        if is_reported { Ok(()) } else { Err(messages) }
    })
    .await;
    // others are sent, over the same connection
    world.run(&pod("after", Some("edge-1"))).await;
    assert_eq!(begin(), began);
    assert!(
        ids.iter()
            .all(|(place, id)| world.running(0).get(place) == Some(id))
    );

    // once it is small enough, it is sent
    world
        .pod("large")
        .merge(json!({"metadata": {"annotations": {"example.com/large": null}}}))
        .await;
    world.pod("large").until("it runs", tests::runs).await;
}
