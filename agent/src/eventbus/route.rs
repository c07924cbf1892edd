//! Routes messages from a broker. Pure, but for the sending.

use std::time::Duration;

use bytes::Bytes;
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::{Instant, timeout},
};
use tracing::warn;
use wire::topic::Topic;

use super::{Sinks, handle::Availability, receipt::Receipt, requests::Received, upload::Upload};

/// The result of routing a message.
#[derive(Debug)]
pub(super) enum Routed {
    /// It was queued; or it was dropped and counted because its queue was full and its quality of service allows that.
    Accepted,
    /// DeviceTwin's queue is full.
    Full(Received),
    /// The outbox's queue is full.
    FullOutbox(Upload),
}

impl Sinks {
    /// Sends a message to its receiver if there is space. One that is not `reliable` (QoS 0) is dropped if the outbox has none.
    pub(super) fn route(
        &self,
        topic: &str,
        payload: Bytes,
        receipt: Receipt,
        reliable: bool,
    ) -> Routed {
        match Topic::parse(Topic::without_tag(topic)) {
            Topic::Device(..) | Topic::Node(..) if !self.has_devices => {
                // DeviceTwin is disabled, so nothing else would acknowledge the message
                receipt.acknowledge();
                Routed::Accepted
            }
            topic @ (Topic::Device(..) | Topic::Node(..)) => {
                match self.requests.try_send(Received::Message {
                    topic,
                    payload,
                    receipt,
                }) {
                    // DeviceTwin has ended: what it has not written is not acknowledged
                    Ok(()) | Err(TrySendError::Closed(_)) => Routed::Accepted,
                    Err(TrySendError::Full(received)) => Routed::Full(received),
                }
            }
            Topic::Other(topic) if Topic::is_of_devices(&topic) => {
                // as in EdgeCore it is for DeviceTwin, whatever its subscribers, and is no request that DeviceTwin knows
                warn!(
                    topic,
                    "cannot handle messages on this topic; message dropped"
                );
                receipt.acknowledge();
                Routed::Accepted
            }
            Topic::Upload(topic) | Topic::Other(topic) => self.upload(
                Upload {
                    topic,
                    payload,
                    receipt,
                },
                reliable,
            ),
        }
    }

    /// Waits until the receiver of a message has space; returns false if it has ended. DeviceTwin may itself wait for space at this
    /// broker, whose `availability` is given: after `patience` its publications are dropped, so that it goes on. The outbox waits for the
    /// disk alone, never for the cloud. Meanwhile nothing else is read from this broker.
    pub(super) async fn deliver(
        &self,
        routed: Routed,
        availability: &mut Availability,
        patience: Duration,
    ) -> bool {
        match routed {
            Routed::Accepted => true,
            Routed::Full(received) => {
                self.send(&self.requests, received, availability, patience)
                    .await
            }
            Routed::FullOutbox(upload) => {
                self.send(&self.uploads, upload, availability, patience)
                    .await
            }
        }
    }

    async fn send<T>(
        &self,
        receiver: &mpsc::Sender<T>,
        message: T,
        availability: &mut Availability,
        patience: Duration,
    ) -> bool {
        if let Ok(room) = timeout(patience, receiver.reserve()).await {
            return room.map(|room| room.send(message)).is_ok();
        }
        let (sent, has_dropped) = availability
            .without_publishers(receiver.send(message))
            .await;
        if has_dropped {
            // nothing else would make DeviceTwin publish its state again
            self.connections.send_modify(|count| *count += 1);
        }
        sent.is_ok()
    }

    fn upload(&self, upload: Upload, reliable: bool) -> Routed {
        let is_text = std::str::from_utf8(&upload.payload).is_ok();
        if !is_text && !self.promises.of(&upload.topic).base64 {
            self.dropped.count_no_text(&upload.topic, Instant::now());
            upload.receipt.acknowledge();
            return Routed::Accepted;
        }
        match self.uploads.try_send(upload) {
            Err(TrySendError::Full(upload)) if reliable => Routed::FullOutbox(upload),
            Err(TrySendError::Full(upload)) => {
                self.dropped.count_upload(&upload.topic, Instant::now());
                Routed::Accepted
            }
            // what the outbox does not take is not acknowledged
            Ok(()) | Err(TrySendError::Closed(_)) => Routed::Accepted,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rumqttc::{AsyncClient, Broker, EventLoop, MqttOptions, Publish, QoS};
    use tokio::sync::{mpsc, watch};

    use super::{
        super::{handle::BrokerQueue, promises::Promises, receipt::Connections},
        *,
    };

    /// The space for messages of each kind.
    const ROOM: usize = 8;

    struct Rig {
        sinks: Sinks,
        client: AsyncClient,
        events: EventLoop,
        uploads: mpsc::Receiver<Upload>,
        requests: mpsc::Receiver<Received>,
    }

    impl Rig {
        fn new(has_devices: bool) -> Self {
            let options = MqttOptions::new("agent", Broker::tcp("localhost", 1));
            let (client, events) = AsyncClient::builder(options).capacity(2 * ROOM).build();
            let (to_cloud, uploads) = mpsc::channel(ROOM);
            let (to_devices, requests) = mpsc::channel(ROOM);
            let sinks = Sinks {
                requests: to_devices,
                uploads: to_cloud,
                connections: Arc::new(watch::Sender::new(0)),
                has_devices,
                dropped: Arc::default(),
                promises: Promises::default(),
            };
            Self {
                sinks,
                client,
                events,
                uploads,
                requests,
            }
        }

        /// Routes a message on `topic`; returns how many have been acknowledged then.
        fn routes(&self, topic: &str) -> usize {
            let publish = Publish::new(topic, QoS::AtLeastOnce, Vec::new());
            let receipt = Receipt::of(&self.client, &publish, &Connections::default());
            assert!(matches!(
                self.sinks.route(topic, Bytes::new(), receipt, true),
                Routed::Accepted
            ));
            self.acknowledged_count()
        }

        fn acknowledged_count(&self) -> usize {
            self.events.diagnostics().queues.control_requests_rx_len
        }
    }

    #[tokio::test]
    async fn messages_for_the_cloud_are_acknowledged_when_they_are_stored_and_wait_for_room() {
        const TOPIC: &str = "$hw/events/upload/x";
        let mut rig = Rig::new(true);
        for _ in 0..ROOM {
            assert_eq!(rig.routes(TOPIC), 0);
        }
        let publish = Publish::new(TOPIC, QoS::AtLeastOnce, Vec::new());
        let receipt = || Receipt::of(&rig.client, &publish, &Connections::default());
        let full = rig.sinks.route(TOPIC, Bytes::new(), receipt(), true);
        assert!(
            matches!(full, Routed::FullOutbox(_)),
            "a message above QoS 0 is not dropped"
        );
        let routed = rig
            .sinks
            .route(TOPIC, Bytes::new(), Receipt::default(), false);
        assert!(matches!(routed, Routed::Accepted), "one at QoS 0 is");
        assert_eq!(rig.sinks.dropped.uploads(), 1);
        let sinks = rig.sinks.clone();
        let waiting = tokio::spawn(async move {
            let (_queue, mut broker) = BrokerQueue::new();
            sinks
                .deliver(full, &mut broker.availability, Duration::ZERO)
                .await
        });
        for stored in 1..=ROOM + 1 {
            rig.uploads.recv().await.unwrap().receipt.acknowledge();
            assert_eq!(rig.acknowledged_count(), stored);
        }
        assert!(waiting.await.unwrap());
    }

    #[test]
    fn unknown_device_messages_are_not_sent_to_the_cloud() {
        let mut rig = Rig::new(true);
        for topic in [
            "$hw/events/device/default/d/twin/other",
            "$hw/events/node/edge-1/other",
        ] {
            let before = rig.acknowledged_count();
            assert_eq!(rig.routes(topic), before + 1, "{topic}");
        }
        assert!(rig.uploads.try_recv().is_err() && rig.requests.try_recv().is_err());
        rig.routes("default/up");
        assert_eq!(rig.uploads.try_recv().unwrap().topic, "default/up");
    }

    #[test]
    fn binary_messages_are_sent_to_a_cloud_that_accepts_them() {
        let mut rig = Rig::new(true);
        let publish = Publish::new("default/up", QoS::AtLeastOnce, Vec::new());
        let route = |rig: &Rig| {
            let receipt = Receipt::of(&rig.client, &publish, &Connections::default());
            rig.sinks
                .route("default/up", Bytes::from_static(b"\xff\0"), receipt, true);
        };
        route(&rig);
        assert_eq!(
            (rig.acknowledged_count(), rig.sinks.dropped.others()),
            (1, [0, 1, 0])
        );
        assert!(rig.uploads.try_recv().is_err());
        rig.sinks
            .promises
            .set("default/#", Some(wire::bus::Terms::OURS));
        route(&rig);
        let item = crate::outbox::Item::from(rig.uploads.try_recv().unwrap());
        assert_eq!(item.message.content, serde_json::json!({"base64": "/wA="}));
    }

    #[test]
    fn device_messages_are_acknowledged_without_device_twin() {
        const TOPIC: &str = "$hw/events/device/default/d/twin/update";
        let mut rig = Rig::new(false);
        assert_eq!(rig.routes(TOPIC), 1);
        assert!(rig.requests.try_recv().is_err());
        let mut rig = Rig::new(true);
        assert_eq!(rig.routes(TOPIC), 0);
        assert!(rig.requests.try_recv().is_ok());
        rig.requests.close();
        // DeviceTwin has ended and may come back
        assert!(matches!(
            rig.sinks
                .route(TOPIC, Bytes::new(), Receipt::default(), true),
            Routed::Accepted
        ));
        assert_eq!(rig.acknowledged_count(), 0);
    }
}
