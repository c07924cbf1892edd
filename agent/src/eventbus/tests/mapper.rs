//! A mapper at a broker.

use std::{collections::VecDeque, net::SocketAddr};

use rumqttc::{
    AsyncClient, Broker as Address, Event, Incoming, MqttOptions, PublishOptions, QoS,
    SubscribeFilterInput,
};
use serde_json::Value;
use testkit::within;
use tokio::{sync::mpsc, task::JoinHandle};

/// The most messages that wait to be checked; every test has fewer.
const HEARD: usize = 16384;

/// A mapper that subscribes to everything about devices and nodes, and below `rules`. It keeps its session while its broker is
/// away.
pub(super) struct Mapper {
    client: AsyncClient,
    heard: mpsc::Receiver<(String, Value)>,
    waiting: VecDeque<(String, Value)>,
    task: JoinHandle<()>,
}

impl Mapper {
    /// Connects; it has subscribed when this returns.
    pub(super) async fn connect(address: SocketAddr, name: &str) -> Self {
        Self::with(MqttOptions::new(
            name,
            Address::tcp(address.ip().to_string(), address.port()),
        ))
        .await
    }

    /// Connects to mosquitto, which allows a client twenty open QoS 2 messages and leaves more unanswered.
    pub(super) async fn at_mosquitto(address: SocketAddr, name: &str) -> Self {
        let mut options =
            MqttOptions::new(name, Address::tcp(address.ip().to_string(), address.port()));
        options.set_inflight(20);
        Self::with(options).await
    }

    async fn with(mut options: MqttOptions) -> Self {
        options.set_max_packet_size(1 << 20, 1 << 20);
        options.set_clean_session(false);
        let (client, mut events) = AsyncClient::builder(options).capacity(1024).build();
        let (sender, heard) = mpsc::channel(HEARD);
        let (subscribed, mut is_subscribed) = mpsc::channel(64);
        let subscriber = client.clone();
        let task = tokio::spawn(async move {
            loop {
                match events.poll().await {
                    Ok(Event::Incoming(Incoming::ConnAck(_))) => {
                        let filters = ["$hw/events/#", "rules/#"].map(|filter| {
                            SubscribeFilterInput::new(filter.to_owned(), QoS::AtLeastOnce)
                        });
                        subscriber.try_subscribe_many(Vec::from(filters)).unwrap();
                    }
                    Ok(Event::Incoming(Incoming::SubAck(_))) => drop(subscribed.try_send(())),
                    Ok(Event::Incoming(Incoming::Publish(publish))) => {
                        let topic = String::from_utf8(publish.topic.to_vec()).unwrap();
                        // its own messages may be no JSON
                        let body = serde_json::from_slice(&publish.payload).unwrap_or_default();
                        sender.try_send((topic, body)).unwrap();
                    }
                    Ok(_) => {}
                    // its broker is away
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        });
        within("the mapper's subscription", is_subscribed.recv())
            .await
            .unwrap();
        Self {
            client,
            heard,
            waiting: VecDeque::new(),
            task,
        }
    }

    pub(super) async fn publish(&mut self, topic: &str, body: Value) {
        self.publish_text(topic, &body.to_string()).await;
    }

    pub(super) async fn publish_text(&mut self, topic: &str, body: &str) {
        self.client
            .publish(
                topic,
                body.to_owned(),
                PublishOptions::new(QoS::AtLeastOnce),
            )
            .await
            .unwrap();
    }

    pub(super) async fn publish_at(&mut self, topic: &str, body: Value, qos: QoS) {
        self.client
            .publish(topic, body.to_string(), PublishOptions::new(qos))
            .await
            .unwrap();
    }

    /// Drops the messages that were not checked so far.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Waits for the message on this topic about this event.
    pub(super) async fn wait_told(&mut self, topic: &str, event: &str) -> Value {
        self.until(topic, |body| body["event_id"] == event).await
    }

    /// Waits for the first message on this topic that matches and was not returned yet.
    pub(super) async fn until(&mut self, topic: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let is_it = |(on, body): &(String, Value)| on == topic && wanted(body);
        loop {
            if let Some(place) = self.waiting.iter().position(is_it) {
                return self.waiting.remove(place).unwrap().1;
            }
            let message = within(topic, self.heard.recv())
                .await
                .expect("the mapper runs");
            self.waiting.push_back(message);
        }
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        self.task.abort();
    }
}
