//! Where a message from a broker goes. Pure, but for the sending.

use std::{mem, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::mpsc::error::TrySendError,
    time::{Instant, timeout},
};
use tracing::warn;
use wire::topic::Topic;

use super::{
    Sinks,
    handle::{Received, Standing},
    receipt::Receipt,
    upload::Upload,
};

/// What became of a message.
#[derive(Debug)]
pub(super) enum Routed {
    /// It is on its way; or there was no room for it on the way to the cloud, and it was counted.
    Gone,
    /// DeviceTwin has no room for it now.
    Full(Received),
}

impl Sinks {
    /// Sends a message where it belongs, if there is room.
    pub(super) fn route(&self, topic: &str, payload: Bytes, receipt: Receipt) -> Routed {
        match Topic::parse(Topic::without_tag(topic)) {
            Topic::Device(..) | Topic::Node(..) if !self.has_devices => {
                // nobody looks after devices on this node, and so nobody else would give it
                receipt.give();
                Routed::Gone
            }
            topic @ (Topic::Device(..) | Topic::Node(..)) => {
                match self.requests.try_send(Received::Message { topic, payload, receipt }) {
                    // DeviceTwin has ended: what it has not written is not acknowledged
                    Ok(()) | Err(TrySendError::Closed(_)) => Routed::Gone,
                    Err(TrySendError::Full(received)) => Routed::Full(received),
                }
            }
            Topic::Other(topic) if Topic::is_of_devices(&topic) => {
                // as in EdgeCore it is for DeviceTwin, whoever listens to it, and nothing that DeviceTwin knows
                warn!(topic, "nothing is asked on this topic; the message is dropped");
                receipt.give();
                Routed::Gone
            }
            Topic::Upload(topic) | Topic::Other(topic) => {
                self.upload(Upload { topic, payload, receipt, held: None });
                Routed::Gone
            }
        }
    }

    /// Waits until DeviceTwin has room; `false` where it has ended. It may itself wait for room to publish at the broker whose
    /// `standing` this is: after `patience` it is let go, so that it takes this one.
    pub(super) async fn deliver(
        &self,
        received: Received,
        standing: &mut Standing,
        patience: Duration,
    ) -> bool {
        if let Ok(room) = timeout(patience, self.requests.reserve()).await {
            return room.map(|room| room.send(received)).is_ok();
        }
        let (sent, has_dropped) = standing.aside(self.requests.send(received)).await;
        if has_dropped {
            // nothing else would have DeviceTwin say that again
            self.connections.send_modify(|count| *count += 1);
        }
        sent.is_ok()
    }

    fn upload(&self, mut upload: Upload) {
        let is_text = std::str::from_utf8(&upload.payload).is_ok();
        if !is_text && !self.promises.of(&upload.topic).base64 {
            self.dropped.note_no_text(&upload.topic, Instant::now());
            upload.receipt.give();
            return;
        }
        match self.uploads.try_reserve() {
            Ok(room) => {
                upload.held = self.held.clone().try_acquire_owned().ok();
                if upload.held.is_none() {
                    mem::take(&mut upload.receipt).give();
                }
                room.send(upload);
            }
            Err(TrySendError::Full(())) => {
                self.dropped.note(&upload.topic, Instant::now());
                // kept back, it would keep requests about devices from coming
                upload.receipt.give();
            }
            Err(TrySendError::Closed(())) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rumqttc::{AsyncClient, Broker, EventLoop, MqttOptions, Publish, QoS};
    use tokio::sync::{Semaphore, mpsc, watch};

    use super::{
        super::{promises::Promises, receipt::Connections, upload::MAX_UNACKNOWLEDGED},
        *,
    };

    /// Room for messages of each kind.
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
                held: Arc::new(Semaphore::new(MAX_UNACKNOWLEDGED)),
                connections: Arc::new(watch::Sender::new(0)),
                has_devices,
                dropped: Arc::default(),
                promises: Promises::default(),
            };
            Self { sinks, client, events, uploads, requests }
        }

        /// Routes a message on `topic`; how many have been acknowledged then.
        fn routes(&self, topic: &str) -> usize {
            let publish = Publish::new(topic, QoS::AtLeastOnce, Vec::new());
            let receipt = Receipt::of(&self.client, &publish, &Connections::default());
            assert!(matches!(self.sinks.route(topic, Bytes::new(), receipt), Routed::Gone));
            self.acknowledged()
        }

        fn acknowledged(&self) -> usize {
            self.events.diagnostics().queues.control_requests_rx_len
        }
    }

    #[test]
    fn a_few_messages_for_the_cloud_are_not_acknowledged_before_it_has_them() {
        const TOPIC: &str = "$hw/events/upload/x";
        let mut rig = Rig::new(true);
        for _ in 0..MAX_UNACKNOWLEDGED {
            assert_eq!(rig.routes(TOPIC), 0);
        }
        for given in 1..=ROOM - MAX_UNACKNOWLEDGED {
            assert_eq!(rig.routes(TOPIC), given);
        }
        // one that is dropped too
        assert_eq!(rig.routes(TOPIC), ROOM - MAX_UNACKNOWLEDGED + 1);
        for _ in 0..ROOM {
            rig.uploads.try_recv().unwrap().receipt.give();
        }
        assert_eq!(rig.acknowledged(), ROOM + 1);
        assert_eq!(rig.routes(TOPIC), ROOM + 1, "there is room to hold one again");
    }

    #[test]
    fn what_is_no_request_about_a_device_does_not_go_to_the_cloud() {
        let mut rig = Rig::new(true);
        for topic in ["$hw/events/device/default/d/twin/other", "$hw/events/node/edge-1/other"] {
            let before = rig.acknowledged();
            assert_eq!(rig.routes(topic), before + 1, "{topic}");
        }
        assert!(rig.uploads.try_recv().is_err() && rig.requests.try_recv().is_err());
        rig.routes("default/up");
        assert_eq!(rig.uploads.try_recv().unwrap().topic, "default/up");
    }

    #[test]
    fn what_is_no_text_goes_to_a_cloud_that_takes_it_and_is_acknowledged_where_none_does() {
        let mut rig = Rig::new(true);
        let publish = Publish::new("default/up", QoS::AtLeastOnce, Vec::new());
        let route = |rig: &Rig| {
            let receipt = Receipt::of(&rig.client, &publish, &Connections::default());
            rig.sinks.route("default/up", Bytes::from_static(b"\xff\0"), receipt);
        };
        route(&rig);
        assert_eq!((rig.acknowledged(), rig.sinks.dropped.others()), (1, [0, 1, 0]));
        assert!(rig.uploads.try_recv().is_err());
        rig.sinks.promises.set("default/#", Some(wire::bus::Terms::OURS));
        route(&rig);
        let item = crate::outbox::Item::from(rig.uploads.try_recv().unwrap());
        assert_eq!(item.message.content, serde_json::json!({"base64": "/wA="}));
    }

    #[test]
    fn what_is_said_of_devices_is_acknowledged_where_nobody_looks_after_them() {
        const TOPIC: &str = "$hw/events/device/default/d/twin/update";
        let mut rig = Rig::new(false);
        assert_eq!(rig.routes(TOPIC), 1);
        assert!(rig.requests.try_recv().is_err());
        let mut rig = Rig::new(true);
        assert_eq!(rig.routes(TOPIC), 0);
        assert!(rig.requests.try_recv().is_ok());
        rig.requests.close();
        // DeviceTwin has ended and may come back
        assert!(matches!(rig.sinks.route(TOPIC, Bytes::new(), Receipt::default()), Routed::Gone));
        assert_eq!(rig.acknowledged(), 0);
    }
}
