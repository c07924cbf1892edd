//! EventBus and DeviceTwin with a mapper at a broker: the internal one, and an external one that is restarted.

mod brokers;
mod burst;
mod cloud;
mod ends;
mod hangs;
mod mapper;
mod mosquitto;
mod node;
mod order;
mod topics;
mod waits;

use std::{collections::BTreeSet, ops::Range};

use serde_json::{Value, json};
use testkit::eventually;

use self::{
    brokers::{ExternalBroker, RestartableBroker, certificates},
    mapper::Mapper,
    mosquitto::Mosquitto,
    node::{Node, internal},
};
use super::*;
use crate::devicetwin::{Reading, RequestOutcome};

/// The topics of a device, in both forms.
const DEVICES: [&str; 2] = ["default/d", "d"];

fn topic(device: &str, what: &str) -> String {
    format!("$hw/events/device/{device}/{what}")
}

/// Sends a mapper's requests and checks the answers, at any broker.
async fn talk(node: &Node, mapper: &mut Mapper) {
    for device in DEVICES {
        node.want("21").await;
        let (update, result) = (
            topic(device, "twin/update"),
            topic(device, "twin/update/result"),
        );
        mapper
            .publish(
                &update,
                json!({"event_id": "x1", "timestamp": 1, "twin": {"temp": {"actual": {"value": "20"}}}}),
            )
            .await;
        let told = mapper.wait_told(&result, "x1").await;
        assert_eq!(
            (&told["twin"]["temp"]["actual"]["value"], told.get("code")),
            (&json!("20"), None)
        );
        let delta = mapper
            .until(&topic(device, "twin/update/delta"), |body| {
                body["twin"]["temp"]["actual"]["value"] == "20"
            })
            .await;
        assert_eq!(delta["delta"], json!({"temp": "21"}));
        let document = mapper
            .until(&topic(device, "twin/update/document"), |body| {
                body["event_id"] == "x1"
            })
            .await;
        assert_eq!(document["twin"]["temp"]["current"]["actual"]["value"], "20");
        mapper
            .publish(&topic(device, "twin/get"), json!({"event_id": "x2"}))
            .await;
        let told = mapper
            .wait_told(&topic(device, "twin/get/result"), "x2")
            .await;
        assert_eq!(told["twin"]["temp"]["expected"]["value"], "21");
        mapper
            .publish(
                &topic(device, "state/update"),
                json!({"event_id": "x3", "state": "online"}),
            )
            .await;
        let told = mapper
            .wait_told(&topic(device, "state/update/result"), "x3")
            .await;
        assert_eq!(told["device"]["state"], "online");
        mapper
            .publish(
                &update,
                json!({"event_id": "x4", "twin": {"temp": {"actual": {"value": "1000"}}}}),
            )
            .await;
        assert_eq!(mapper.wait_told(&result, "x4").await["code"], 400);
        mapper.publish_text(&update, "no json").await;
        assert_eq!(
            mapper
                .until(&result, |body| body["reason"]
                    .as_str()
                    .is_some_and(|why| why.contains("cannot parse")))
                .await["code"],
            400
        );
        mapper.publish_text(&update, &"x".repeat(300 * 1024)).await;
        assert_eq!(
            mapper.until(&result, |body| body["code"] == 413).await["code"],
            413
        );
        let unknown = format!("no{device}");
        mapper
            .publish(&topic(&unknown, "twin/get"), json!({"event_id": "x5"}))
            .await;
        assert_eq!(
            mapper
                .wait_told(&topic(&unknown, "twin/get/result"), "x5")
                .await["code"],
            404
        );
    }
    let node_topic = "$hw/events/node/edge-1/membership/get";
    mapper.publish(node_topic, json!({"event_id": "x6"})).await;
    let told = mapper
        .wait_told(&format!("{node_topic}/result"), "x6")
        .await;
    assert_eq!(
        told["devices"],
        json!([{"id": "default/d", "name": "d", "state": "online"}])
    );
    let counts = node.devices.counts();
    assert_eq!(
        [
            RequestOutcome::Bad,
            RequestOutcome::TooLarge,
            RequestOutcome::Unknown
        ]
        .map(|count| counts.get(count)),
        [4, 2, 2]
    );
}

#[tokio::test]
async fn the_internal_broker() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::start(Some(internal(Some(directory.path()))), None, node::store()).await;
    let mut mapper = Mapper::connect(node.bus.internal_address().await.unwrap(), "mapper").await;
    talk(&node, &mut mapper).await;
}

#[tokio::test]
async fn a_broker_beside() {
    let beside = ExternalBroker::start(None).await;
    let node = Node::start(None, Some(beside.external()), node::store()).await;
    let mut mapper = Mapper::connect(beside.address, "mapper").await;
    node.until_up().await;
    talk(&node, &mut mapper).await;
}

#[tokio::test]
async fn both_brokers_hear_everything() {
    let beside = ExternalBroker::start(None).await;
    let node = Node::start(Some(internal(None)), Some(beside.external()), node::store()).await;
    let mut inside = Mapper::connect(node.bus.internal_address().await.unwrap(), "inside").await;
    let mut outside = Mapper::connect(beside.address, "outside").await;
    node.until_up().await;
    for (number, _) in DEVICES.iter().enumerate() {
        let event = format!("x{number}");
        let (asks, hears) = if number == 0 {
            (&mut inside, &mut outside)
        } else {
            (&mut outside, &mut inside)
        };
        asks.publish(&topic("default/d", "twin/get"), json!({"event_id": event}))
            .await;
        let result = topic("default/d", "twin/get/result");
        asks.wait_told(&result, &event).await;
        hears.wait_told(&result, &event).await;
    }
}

#[tokio::test]
async fn a_broker_with_certificates_and_passwords() {
    let directory = tempfile::tempdir().unwrap();
    let files = certificates(&directory.path().join("right"));
    let others = certificates(&directory.path().join("wrong"));
    let beside = ExternalBroker::guarded(&files).await;
    let with = |files: &TlsFiles, password: &str| External {
        tls: Some(files.clone()),
        username: Some("agent".into()),
        password: Some(Secret::new(password)),
        ..beside.external()
    };
    for (files, password) in [(&others, "right"), (&files, "wrong")] {
        let node = Node::start(None, Some(with(files, password)), node::store()).await;
        // tried more than once, and never connected
        node.until_failed(3).await;
        assert!(!node.bus.is_up());
    }
    let plain = Node::start(
        None,
        Some(External {
            tls: None,
            ..with(&files, "right")
        }),
        node::store(),
    )
    .await;
    plain.until_failed(3).await;
    assert!(
        !plain.bus.is_up(),
        "nothing is said in the clear to a broker that is not"
    );
    let node = Node::start(None, Some(with(&files, "right")), node::store()).await;
    node.until_up().await;
}

/// Checks that a mapper's updates were answered, across restarts of anything in between.
async fn all_are_answered(mapper: &mut Mapper, numbers: Range<usize>) {
    let mut missing: BTreeSet<String> = numbers.map(|number| format!("n{number}")).collect();
    while !missing.is_empty() {
        let body = mapper
            .until(&topic("default/d", "twin/update/result"), |_| true)
            .await;
        assert_eq!(body.get("code"), None, "{body}");
        missing.remove(body["event_id"].as_str().unwrap());
    }
}

fn numbered_message(number: usize) -> Value {
    json!({"event_id": format!("n{number}"), "twin": {"temp": {"actual": {"value": (number % 100).to_string()}}}})
}

/// Returns how often a broker is restarted; `OUTRIGGER_BROKER_RESTARTS` overrides it.
fn restarts(standard: usize) -> usize {
    std::env::var("OUTRIGGER_BROKER_RESTARTS").map_or(standard, |text| text.parse().unwrap())
}

/// Sends updates before each restart, some of which are under way when the broker ends: each is answered and executed.
async fn loses_nothing(mut broker: impl RestartableBroker, restarts: usize) {
    const EACH: usize = 20;
    let node = Node::start(None, Some(broker.external()), node::store()).await;
    let mut mapper = Mapper::connect(broker.address(), "mapper").await;
    node.until_up().await;
    for round in 0..restarts {
        for number in 0..EACH {
            mapper
                .publish(
                    &topic("default/d", "twin/update"),
                    numbered_message(round * EACH + number),
                )
                .await;
        }
        broker.restart().await;
        let answered = (round + 1) * EACH;
        all_are_answered(&mut mapper, round * EACH..answered).await;
        mapper.forget();
    }
    let last = ((restarts * EACH - 1) % 100).to_string();
    eventually("the last value", async || {
        let twin = node.devices.twin(&node::device()).await.unwrap();
        let value = twin["temp"].clone().unwrap().actual.unwrap().value;
        (value.as_ref() == Some(&last)).then_some(()).ok_or(value)
    })
    .await;
    let counts = node.devices.counts();
    // one that was under way may have come twice
    assert!(counts.get(RequestOutcome::Done) >= (restarts * EACH) as u64);
    assert_eq!(
        [
            RequestOutcome::Bad,
            RequestOutcome::TooLarge,
            RequestOutcome::Unknown
        ]
        .map(|count| counts.get(count)),
        [0; 3]
    );
    assert!(node.bus.failures() >= restarts as u64, "each was counted");
}

#[tokio::test]
async fn a_broker_that_is_started_again_and_again_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    loses_nothing(
        ExternalBroker::start(Some(directory.path())).await,
        restarts(10),
    )
    .await;
}

#[tokio::test]
async fn mosquitto_that_is_started_again_and_again_loses_nothing() {
    loses_nothing(Mosquitto::start().await, restarts(3)).await;
}

#[tokio::test]
async fn an_agent_that_is_killed_again_and_again_loses_nothing() {
    const KILLS: usize = 10;
    const EACH: usize = 20;
    let beside = ExternalBroker::start(None).await;
    let store = node::store();
    let mut node = Node::start(None, Some(beside.external()), store.clone()).await;
    let mut mapper = Mapper::connect(beside.address, "mapper").await;
    node.until_up().await;
    for round in 0..KILLS {
        for number in 0..EACH {
            mapper
                .publish(
                    &topic("default/d", "twin/update"),
                    numbered_message(round * EACH + number),
                )
                .await;
        }
        node.kill().await;
        node = Node::start(None, Some(beside.external()), store.clone()).await;
    }
    all_are_answered(&mut mapper, 0..KILLS * EACH).await;
}

#[tokio::test]
async fn desired_values_are_published_again_when_a_broker_is_back() {
    // the broker keeps the mapper's session: whoever is back first, the other's messages are not missed
    let directory = tempfile::tempdir().unwrap();
    let mut beside = ExternalBroker::start(Some(directory.path())).await;
    let node = Node::start(None, Some(beside.external()), node::store()).await;
    node.until_up().await;
    beside.stop().await;
    node.want("33").await;
    beside.start_again().await;
    let mut mapper = Mapper::connect(beside.address, "mapper").await;
    beside.stop().await;
    beside.start_again().await;
    let delta = mapper
        .until(&topic("default/d", "twin/update/delta"), |body| {
            body["delta"]["temp"] == "33"
        })
        .await;
    assert_eq!(delta["twin"]["temp"]["expected"]["value"], "33");
}

/// Returns a node whose disk has begun to fail, and a mapper that has published one update since.
async fn with_an_update_on_a_failing_disk()
-> (ExternalBroker, Arc<node::FailingStore>, Node, Mapper) {
    let beside = ExternalBroker::start(None).await;
    let store = node::FailingStore::new();
    let node = Node::start(None, Some(beside.external()), store.clone()).await;
    let mut mapper = Mapper::connect(beside.address, "mapper").await;
    node.until_up().await;
    store.fail(true);
    mapper
        .publish(&topic("default/d", "twin/update"), numbered_message(1))
        .await;
    (beside, store, node, mapper)
}

#[tokio::test]
async fn requests_that_cannot_be_written_are_refused_or_wait() {
    let (beside, store, node, mut mapper) = with_an_update_on_a_failing_disk().await;
    let refused = node
        .devices
        .report_state(&node::device(), "online")
        .await
        .unwrap_err();
    assert_eq!(refused.code, 500);
    store.until_failed(2).await;
    let twin = node.devices.twin(&node::device()).await.unwrap();
    assert_eq!(
        twin["temp"].clone().unwrap().actual,
        None,
        "what is not on disk is not so"
    );
    // the broker got no acknowledgement, and sends it to the client that comes back
    node.kill().await;
    store.fail(false);
    let node = Node::start(None, Some(beside.external()), store.clone()).await;
    let result = topic("default/d", "twin/update/result");
    assert_eq!(mapper.wait_told(&result, "n1").await.get("code"), None);
    // it does not send it again on the same connection
    let (failed, connections) = (store.failure_count(), node.bus.failures());
    store.fail(true);
    mapper
        .publish(&topic("default/d", "twin/update"), numbered_message(2))
        .await;
    store.until_failed(failed + 1).await;
    store.fail(false);
    assert_eq!(mapper.wait_told(&result, "n2").await.get("code"), None);
    assert_eq!(node.bus.failures(), connections, "on the same connection");
}

/// Work that waits for the disk is older than new requests, and is written first.
#[tokio::test]
async fn a_report_does_not_overtake_an_update_that_waits_for_the_disk() {
    let (_beside, store, node, mut mapper) = with_an_update_on_a_failing_disk().await;
    store.until_failed(1).await;
    let reading = |value: &str| {
        vec![Reading {
            property: "temp".into(),
            value: Some(value.into()),
            ..Reading::default()
        }]
    };
    let refused = node
        .devices
        .report(&node::device(), reading("2"))
        .await
        .unwrap_err();
    assert_eq!(refused.code, 500);
    store.fail(false);
    node.devices
        .report(&node::device(), reading("3"))
        .await
        .unwrap();
    assert_eq!(
        mapper
            .wait_told(&topic("default/d", "twin/update/result"), "n1")
            .await
            .get("code"),
        None
    );
    let twin = node.devices.twin(&node::device()).await.unwrap();
    assert_eq!(
        twin["temp"]
            .clone()
            .unwrap()
            .actual
            .unwrap()
            .value
            .as_deref(),
        Some("3")
    );
}
