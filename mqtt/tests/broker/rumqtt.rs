//! Tests with rumqttc, an independent client, in both versions.

use std::{net::SocketAddr, time::Duration};

use rumqttc::{AsyncClient, Event, Incoming, MqttOptions, QoS, v5};
use testkit::within;

use crate::support::{Broker, plain};

/// The number of messages of each quality of service.
const COUNT: u32 = 200;

async fn four(address: SocketAddr, name: &str) -> (AsyncClient, rumqttc::EventLoop) {
    let mut options = MqttOptions::new(name, address.ip().to_string(), address.port());
    options.set_keep_alive(Duration::from_secs(30));
    AsyncClient::new(options, 64)
}

async fn five(address: SocketAddr, name: &str) -> (v5::AsyncClient, v5::EventLoop) {
    let mut options = v5::MqttOptions::new(name, address.ip().to_string(), address.port());
    options.set_keep_alive(Duration::from_secs(30));
    v5::AsyncClient::new(options, 64)
}

#[tokio::test]
async fn version_4_sends_and_receives_every_quality_of_service() {
    let broker = Broker::start(plain()).await;
    let (client, mut events) = four(broker.address, "four").await;
    client.subscribe("t/#", QoS::ExactlyOnce).await.unwrap();
    let publisher = client.clone();
    let sending = tokio::spawn(async move {
        for number in 0..COUNT {
            for (topic, qos) in [
                ("t/0", QoS::AtMostOnce),
                ("t/1", QoS::AtLeastOnce),
                ("t/2", QoS::ExactlyOnce),
            ] {
                publisher
                    .publish(topic, qos, false, number.to_be_bytes())
                    .await
                    .unwrap();
            }
        }
    });
    let mut received = [Vec::new(), Vec::new(), Vec::new()];
    within("all messages", async {
        while received.iter().any(|of| of.len() < COUNT as usize) {
            if let Event::Incoming(Incoming::Publish(message)) = events.poll().await.unwrap() {
                received[message.qos as usize]
                    .push(u32::from_be_bytes(message.payload[..].try_into().unwrap()));
            }
        }
    })
    .await;
    sending.await.unwrap();
    assert!(
        received
            .iter()
            .all(|of| *of == (0..COUNT).collect::<Vec<_>>())
    );
    drop((client, events));
    broker.stop().await;
}

#[tokio::test]
async fn version_5_sends_and_receives_every_quality_of_service_with_its_properties() {
    let broker = Broker::start(plain()).await;
    let (client, mut events) = five(broker.address, "five").await;
    client
        .subscribe("t/#", v5::mqttbytes::QoS::ExactlyOnce)
        .await
        .unwrap();
    let publisher = client.clone();
    let sending = tokio::spawn(async move {
        for number in 0..COUNT {
            for qos in [0, 1, 2] {
                let properties = v5::mqttbytes::v5::PublishProperties {
                    response_topic: Some("answers".into()),
                    correlation_data: Some(number.to_be_bytes().to_vec().into()),
                    user_properties: vec![("k".into(), "v".into())],
                    ..Default::default()
                };
                let qos = v5::mqttbytes::qos(qos).unwrap();
                publisher
                    .publish_with_properties("t/x", qos, false, "body", properties)
                    .await
                    .unwrap();
            }
        }
    });
    let mut received = [Vec::new(), Vec::new(), Vec::new()];
    within("all messages", async {
        while received.iter().any(|of| of.len() < COUNT as usize) {
            if let v5::Event::Incoming(v5::Incoming::Publish(message)) =
                events.poll().await.unwrap()
            {
                let said = message.properties.unwrap();
                assert_eq!(said.response_topic.as_deref(), Some("answers"));
                assert_eq!(said.user_properties, [("k".into(), "v".into())]);
                let number = said.correlation_data.unwrap();
                received[message.qos as usize]
                    .push(u32::from_be_bytes(number[..].try_into().unwrap()));
            }
        }
    })
    .await;
    sending.await.unwrap();
    assert!(
        received
            .iter()
            .all(|of| *of == (0..COUNT).collect::<Vec<_>>())
    );
    drop((client, events));
    broker.stop().await;
}
