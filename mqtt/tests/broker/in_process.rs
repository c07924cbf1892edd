//! Tests of the broker's interface for its own process.

use std::sync::Arc;

use mqtt::{Config, Limits, PublishError, QoS};
use testkit::within;

use crate::{
    bytes::{ack, clean311, publish},
    support::{Broker, Raw, plain},
};

#[tokio::test]
async fn retained_messages_come_first_then_live_ones() {
    let broker = Broker::start(plain()).await;
    broker
        .handle
        .publish("a/kept", "1", QoS::AtLeastOnce, true)
        .await
        .unwrap();
    let mut messages = broker.handle.subscribe("a/#", 4).await.unwrap();
    broker
        .handle
        .publish("a/live", "2", QoS::AtMostOnce, false)
        .await
        .unwrap();
    broker
        .handle
        .publish("b", "3", QoS::AtMostOnce, false)
        .await
        .unwrap();
    broker
        .handle
        .publish("a", "4", QoS::ExactlyOnce, false)
        .await
        .unwrap();
    for expected in [("a/kept", "1"), ("a/live", "2"), ("a", "4")] {
        let message = within("a message", messages.recv()).await.unwrap();
        assert_eq!(
            (&*message.topic, &message.payload[..]),
            (expected.0, expected.1.as_bytes())
        );
    }
    broker.stop().await;
    assert!(messages.recv().await.is_none(), "it ends with the broker");
}

#[tokio::test]
async fn what_cannot_be_a_topic_is_refused() {
    let broker = Broker::start(plain()).await;
    let refused = broker
        .handle
        .publish("a/+", "x", QoS::AtMostOnce, false)
        .await;
    assert!(matches!(refused, Err(PublishError::Topic(_))));
    assert!(matches!(
        broker.handle.subscribe("a/#/b", 1).await,
        Err(PublishError::Topic(_))
    ));
    let handle = broker.handle.clone();
    broker.stop().await;
    assert_eq!(
        handle.publish("a", "x", QoS::AtMostOnce, false).await,
        Err(PublishError::Stopped)
    );
}

#[tokio::test]
async fn above_qos_0_publishers_wait_for_a_receiver_and_nothing_is_lost() {
    let broker = Broker::start(plain()).await;
    let mut messages = broker.handle.subscribe("t", 2).await.unwrap();
    let mut client = Raw::connect(broker.address, &clean311("c")).await;
    const COUNT: u16 = 500;
    let sent: Vec<u8> = (1..=COUNT)
        .flat_map(|id| publish(2, "t", id, None, &id.to_be_bytes()))
        .collect();
    client.send(&sent).await;
    for expected in 1..=COUNT {
        let message = within("a message", messages.recv()).await.unwrap();
        assert_eq!(message.payload[..], expected.to_be_bytes());
    }
    for id in 1..=COUNT {
        client.expect(&ack(0x40, id)).await;
    }
    assert_eq!(broker.handle.counts().dropped, 0);
    broker.stop().await;
}

#[tokio::test]
async fn at_qos_0_a_full_receiver_loses_and_it_is_counted() {
    let broker = Broker::start(plain()).await;
    let mut messages = broker.handle.subscribe("t", 2).await.unwrap();
    for number in 0..10_u8 {
        broker
            .handle
            .publish("t", vec![number], QoS::AtMostOnce, false)
            .await
            .unwrap();
    }
    // This answer comes after the messages.
    broker
        .handle
        .publish("other", "x", QoS::AtLeastOnce, false)
        .await
        .unwrap();
    assert_eq!(broker.handle.counts().dropped, 8);
    assert_eq!(messages.recv().await.unwrap().payload[..], [0]);
    broker.stop().await;
}

#[tokio::test]
async fn a_broker_without_listeners_serves_its_process() {
    let (handle, task) = mqtt::bind(Config {
        limits: Limits::default(),
        ..Config::default()
    })
    .await
    .unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(task.run(stop.clone()));
    let mut messages = handle.subscribe("#", 1).await.unwrap();
    handle
        .publish(Arc::<str>::from("a"), "x", QoS::AtMostOnce, false)
        .await
        .unwrap();
    assert_eq!(&*messages.recv().await.unwrap().topic, "a");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_several_filters_of_a_receiver_match_comes_once() {
    let broker = Broker::start(plain()).await;
    let mut messages = broker.handle.subscribe("a/#", 8).await.unwrap();
    let filters = messages.filters();
    for filter in ["a/+", "b", "b"] {
        filters.add(filter).await.unwrap();
    }
    assert!(matches!(
        filters.add("#/x").await,
        Err(PublishError::Topic(_))
    ));
    for topic in ["a/1", "b", "c"] {
        broker
            .handle
            .publish(topic, "", QoS::AtMostOnce, false)
            .await
            .unwrap();
    }
    filters.remove("a/#").await.unwrap();
    for topic in ["a/2", "a/3/4"] {
        broker
            .handle
            .publish(topic, "", QoS::AtMostOnce, false)
            .await
            .unwrap();
    }
    filters.remove("a/+").await.unwrap();
    for topic in ["a/5", "b"] {
        broker
            .handle
            .publish(topic, "", QoS::AtMostOnce, false)
            .await
            .unwrap();
    }
    for expected in ["a/1", "b", "a/2", "b"] {
        assert_eq!(
            &*within("a message", messages.recv()).await.unwrap().topic,
            expected
        );
    }
    broker.stop().await;
    assert!(messages.recv().await.is_none());
}
