//! The MQTT broker of an edge: the kit is a client, as mappers and applications are. Devices and rules.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use peer::{Failure, ensure, fail, now_ms};
use rumqttc::{AsyncClient, ConnectionError, Event, Incoming, MqttOptions, QoS};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::{Downstream, Operation};

use super::{devices, state::Cloud};

/// How long an edge may take for an MQTT message.
const MQTT_DEADLINE: Duration = Duration::from_secs(30);
/// How often a request is repeated: an edge may still be about to subscribe, or to store the device.
const REQUEST_PERIOD: Duration = Duration::from_secs(2);
/// Messages that wait for the test.
const INBOX: usize = 256;

/// A client of the edge's broker, subscribed to one filter.
struct Mqtt {
    client: AsyncClient,
    messages: mpsc::Receiver<(String, Bytes)>,
    _stop: DropGuard,
}

impl Mqtt {
    async fn connect(cloud: &Cloud, filter: &str) -> Result<Self, Failure> {
        let Some(broker) = &cloud.mqtt else {
            return Err(Failure::Skipped(
                "no address of the edge's MQTT broker was given (--mqtt)".to_owned(),
            ));
        };
        let (host, port) = broker.rsplit_once(':').unwrap_or((broker, "1883"));
        let id = format!("conformance-{}", uuid::Uuid::new_v4().simple());
        let mut options = MqttOptions::new(id, host, port.parse()?);
        options.set_keep_alive(MQTT_DEADLINE);
        let (client, mut events) = AsyncClient::new(options, INBOX);
        client.subscribe(filter, QoS::AtLeastOnce).await?;
        let subscribed = async {
            loop {
                if let Event::Incoming(Incoming::SubAck(_)) = events.poll().await? {
                    return Ok::<_, ConnectionError>(());
                }
            }
        };
        match timeout(MQTT_DEADLINE, subscribed).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => fail!("cannot connect to the MQTT broker {broker}: {error}"),
            Err(_) => fail!("the MQTT broker {broker} did not answer within {MQTT_DEADLINE:?}"),
        }
        let (sender, messages) = mpsc::channel(INBOX);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let reading = async move {
            while let Ok(event) = events.poll().await {
                if let Event::Incoming(Incoming::Publish(message)) = event {
                    sender.send((message.topic, message.payload)).await.ok();
                }
            }
        };
        tokio::spawn(async move { stopped.run_until_cancelled(reading).await });
        Ok(Self {
            client,
            messages,
            _stop: stop.drop_guard(),
        })
    }

    async fn publish(&self, topic: &str, payload: impl Into<Vec<u8>>) -> Result<(), Failure> {
        let published = self
            .client
            .publish(topic, QoS::AtLeastOnce, false, payload.into());
        Ok(published.await?)
    }

    /// Waits for a message on a topic that `wanted` accepts.
    async fn expect(
        &mut self,
        topic: &str,
        within: Duration,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Bytes, Failure> {
        let deadline = Instant::now() + within;
        loop {
            match timeout_at(deadline, self.messages.recv()).await {
                Err(_) => fail!("timed out after {within:?} waiting for a message on {topic}"),
                Ok(None) => fail!("the MQTT broker closed the connection"),
                Ok(Some((found, payload))) if found == topic && wanted(&payload) => {
                    return Ok(payload);
                }
                Ok(Some(_)) => {}
            }
        }
    }

    /// Publishes a request of a device until the answer is as `wanted` says.
    async fn request(
        &mut self,
        topic: &str,
        body: Value,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + MQTT_DEADLINE;
        let answers = format!("{topic}/result");
        let mut last = Value::Null;
        while Instant::now() < deadline {
            let mut body = body.clone();
            body["event_id"] = json!(uuid::Uuid::new_v4().to_string());
            body["timestamp"] = json!(now_ms());
            self.publish(topic, body.to_string()).await?;
            let answer = self.expect(&answers, REQUEST_PERIOD, |_| true).await;
            if let Ok(payload) = answer {
                last = serde_json::from_slice(&payload)?;
                if wanted(&last) {
                    return Ok(());
                }
            }
        }
        fail!(
            "timed out after {MQTT_DEADLINE:?} waiting for the answer on {answers}; the last one was {last}"
        )
    }
}

/// Delivers a device, and connects to the broker. Returns the beginning of its topics.
async fn device(cloud: &Cloud, name: &str) -> Result<(Mqtt, String), Failure> {
    let topics = format!("$hw/events/device/default/{name}");
    let mqtt = Mqtt::connect(cloud, &format!("{topics}/#")).await?;
    devices::create(cloud, name).await?;
    Ok((mqtt, topics))
}

/// Reports a value as a mapper does, and waits for the answer.
async fn report(mqtt: &mut Mqtt, topics: &str, value: &str) -> Result<(), Failure> {
    let twin = json!({"temperature": {"actual": {"value": value}, "metadata": {"type": "float"}}});
    let body = json!({"twin": twin});
    mqtt.request(&format!("{topics}/twin/update"), body, |answer| {
        answer.pointer("/twin/temperature/actual/value") == Some(&json!(value))
    })
    .await
}

pub(super) async fn twin_get(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let (mut mqtt, topics) = device(&cloud, "mqtt-get").await?;
    report(&mut mqtt, &topics, "21").await?;
    mqtt.request(&format!("{topics}/twin/get"), json!({}), |answer| {
        answer.pointer("/twin/temperature/actual/value") == Some(&json!("21"))
    })
    .await
}

pub(super) async fn twin_update(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let (mut mqtt, topics) = device(&cloud, "mqtt-update").await?;
    let mark = cloud.mark();
    report(&mut mqtt, &topics, "21").await?;
    let path = "device/default/mqtt-update/twin/edge_updated";
    cloud
        .expect("the report to the cloud", (mark, MQTT_DEADLINE), |one| {
            let value = one.content.pointer("/twin/temperature/actual/value");
            one.route.resource.as_str() == path && value == Some(&json!("21"))
        })
        .await?;
    Ok(())
}

pub(super) async fn twin_document(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let (mut mqtt, topics) = device(&cloud, "mqtt-document").await?;
    let topic = format!("{topics}/twin/update/document");
    let mut watcher = Mqtt::connect(&cloud, &topic).await?;
    report(&mut mqtt, &topics, "21").await?;
    report(&mut mqtt, &topics, "22").await?;
    let value = |side: &str| format!("/twin/temperature/{side}/actual/value");
    let (before, after) = (value("last"), value("current"));
    watcher
        .expect(&topic, MQTT_DEADLINE, |payload| {
            let document: Value = serde_json::from_slice(payload).unwrap_or_default();
            document.pointer(&before) == Some(&json!("21"))
                && document.pointer(&after) == Some(&json!("22"))
        })
        .await?;
    Ok(())
}

pub(super) async fn rule_to_bus(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let topic = "conformance/led";
    let mut mqtt = Mqtt::connect(&cloud, topic).await?;
    let message = Downstream::Publish {
        topic: topic.to_owned(),
        payload: Value::from("on"),
    };
    cloud.send(&message.into_message(now_ms())).await?;
    let payload = mqtt.expect(topic, MQTT_DEADLINE, |_| true).await?;
    ensure!(payload == "on", "the payload is {payload:?}");
    Ok(())
}

pub(super) async fn rule_from_bus(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let topic = "default/conformance/readings";
    let mqtt = Mqtt::connect(&cloud, "conformance/unused").await?;
    let message = Downstream::Subscription {
        on: true,
        topic: topic.to_owned(),
        content: Value::Null,
    };
    cloud.send(&message.into_message(now_ms())).await?;
    let mark = cloud.mark();
    let deadline = Instant::now() + MQTT_DEADLINE;
    loop {
        mqtt.publish(topic, "21.5").await?;
        let uploaded = cloud.expect("the upload", (mark, REQUEST_PERIOD), |one| {
            one.route.operation == Operation::Upload && one.route.resource.as_str() == topic
        });
        match uploaded.await {
            Ok(seen) => {
                let content = seen.message.content;
                ensure!(content == "21.5", "the upload has the content {content}");
                return Ok(());
            }
            Err(failure) if Instant::now() > deadline => return Err(failure),
            Err(_) => {}
        }
    }
}

/// Calls a service on a port where no program listens: the kit is not on the edge's machine.
pub(super) async fn rule_to_service(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let request = json!({"header": {}, "body": "", "method": "GET", "url": ""});
    let message = Downstream::ServiceCall {
        method: "GET".to_owned(),
        target: "1:/hello".to_owned(),
        request,
    };
    let message = message.into_message(now_ms());
    let (mark, id) = (cloud.mark(), message.header.msg_id.clone());
    cloud.send(&message).await?;
    let answered = cloud.expect("the answer to the call", (mark, MQTT_DEADLINE), |one| {
        one.header.parent_msg_id == id
    });
    match answered.await {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::Skipped(
            "the edge does not answer calls of services (modules.serviceBus.enable)".to_owned(),
        )),
    }
}
