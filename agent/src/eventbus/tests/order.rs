//! Answers come in the order of the requests on each topic: bursts without a pause, at every quality of service, retained or
//! not, with the internal broker, an external mosquitto, and both (MQTT 3.1.1, section 4.6).

use std::{net::SocketAddr, ops::Range};

use rumqttc::QoS;
use serde_json::{Value, json};

use super::{
    Internal,
    brokers::RestartableBroker,
    mapper::Mapper,
    mosquitto::{Mosquitto, Subscriber},
    node::{Node, internal, store},
    topic,
};

/// The updates in one burst: one, those of one batch, and more than one task handles before it yields.
const BURSTS: [usize; 3] = [1, 40, 200];

/// Returns the value of an update: each is different, so that each has a document.
fn value(number: usize) -> String {
    (number % 100).to_string()
}

/// Publishes bursts at each quality of service; returns the last event and its value.
async fn bursts(mapper: &mut Mapper, prefix: &str) -> (String, String) {
    let (mut number, mut last) = (0, Default::default());
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        for count in BURSTS {
            last = burst(mapper, prefix, number..number + count, qos).await;
            number += count;
        }
    }
    last
}

/// Publishes a burst without a pause; returns the last event and its value. Every answer is awaited, and comes after those to
/// earlier requests.
async fn burst(
    mapper: &mut Mapper,
    prefix: &str,
    numbers: Range<usize>,
    qos: QoS,
) -> (String, String) {
    let expected: Vec<String> = numbers
        .clone()
        .map(|number| format!("{prefix}{number}"))
        .collect();
    for (event, number) in expected.iter().zip(numbers.clone()) {
        let body =
            json!({"event_id": event, "twin": {"temp": {"actual": {"value": value(number)}}}});
        mapper
            .publish_at(&topic("default/d", "twin/update"), body, qos)
            .await;
    }
    for what in ["twin/update/result", "twin/update/document"] {
        let topic = topic("default/d", what);
        let mut told = Vec::new();
        while told.len() < expected.len() {
            // documents of the cloud's desired values have events of their own, whose names are hexadecimal
            let ours = |body: &Value| {
                body["event_id"]
                    .as_str()
                    .is_some_and(|event| event.starts_with(prefix))
            };
            let body = mapper.until(&topic, ours).await;
            assert_eq!(body.get("code"), None, "{body}");
            told.push(body["event_id"].as_str().unwrap().to_owned());
        }
        assert_eq!(told, expected, "{topic} at {qos:?}");
    }
    (expected.last().unwrap().clone(), value(numbers.end - 1))
}

/// Checks that the retained document is the last one.
async fn keeps_the_last(address: SocketAddr, (event, value): &(String, String)) {
    let mut hears = Subscriber::at(address).await;
    let document = hears
        .next(&topic("default/d", "twin/update/document"))
        .await;
    assert_eq!(document["event_id"], *event);
    assert_eq!(
        document["twin"]["temp"]["current"]["actual"]["value"],
        *value
    );
    let result = hears.next(&topic("default/d", "twin/update/result")).await;
    assert_eq!(result["event_id"], *event);
}

async fn at_the_internal_broker(qos: u8, retain: bool) {
    let directory = tempfile::tempdir().unwrap();
    let inside = Internal {
        qos,
        retain,
        ..internal(Some(directory.path()))
    };
    let node = Node::start(Some(inside), None, store()).await;
    let address = node.bus.internal_address().await.unwrap();
    let mut mapper = Mapper::connect(address, "mapper").await;
    let last = bursts(&mut mapper, "x").await;
    if retain {
        keeps_the_last(address, &last).await;
    }
}

#[tokio::test]
async fn at_qos_0() {
    at_the_internal_broker(0, false).await;
    at_the_internal_broker(0, true).await;
}

#[tokio::test]
async fn at_qos_1() {
    at_the_internal_broker(1, false).await;
    at_the_internal_broker(1, true).await;
}

#[tokio::test]
async fn at_qos_2() {
    at_the_internal_broker(2, false).await;
    at_the_internal_broker(2, true).await;
}

#[tokio::test]
async fn by_mosquitto() {
    for qos in [1, 2] {
        let mosquitto = Mosquitto::start().await;
        let beside = super::External {
            qos,
            ..mosquitto.external()
        };
        let node = Node::start(None, Some(beside), store()).await;
        node.until_up().await;
        let mut mapper = Mapper::at_mosquitto(mosquitto.address(), "mapper").await;
        bursts(&mut mapper, "x").await;
    }
}

#[tokio::test]
async fn by_both() {
    let mosquitto = Mosquitto::start().await;
    let inside = Internal {
        retain: true,
        ..internal(None)
    };
    let node = Node::start(Some(inside), Some(mosquitto.external()), store()).await;
    node.until_up().await;
    let address = node.bus.internal_address().await.unwrap();
    let mut one = Mapper::connect(address, "inside").await;
    let mut other = Mapper::at_mosquitto(mosquitto.address(), "beside").await;
    bursts(&mut one, "x").await;
    let last = bursts(&mut other, "y").await;
    keeps_the_last(address, &last).await;
}

/// The session queue is that of EdgeCore's default configuration: a mapper that gets its own publications and everything about
/// them is slowed down, but neither disconnected nor left without an answer.
#[tokio::test]
async fn a_mapper_that_subscribes_to_everything_gets_every_answer() {
    for qos in [1, 2] {
        let inside = Internal {
            qos,
            retain: true,
            session_queue: 100,
            ..internal(None)
        };
        let node = Node::start(Some(inside), None, store()).await;
        let address = node.bus.internal_address().await.unwrap();
        let mut mapper = Mapper::connect(address, "mapper").await;
        let last = burst(&mut mapper, "x", 0..2000, QoS::AtLeastOnce).await;
        assert_eq!(node.bus.dropped_count(), 0);
        keeps_the_last(address, &last).await;
    }
}
