//! The broker in this process: subscribed to without a socket, published to without one.

use std::{
    collections::{BTreeSet, HashMap},
    net::SocketAddr,
};

use futures::StreamExt;
use mqtt::{Handle, Limits, Listener, QoS, Subscription};
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use wire::topic::SUBSCRIPTIONS;

use super::{
    Error, Internal, Sinks,
    handle::{Inlet, Outlet, Publication, Receipt},
    route::Routed,
};

/// Messages of one subscription that wait for this room.
const WAITING: usize = 512;
/// Publications that wait for the broker's disk, or for subscribers.
const AT_ONCE: usize = 128;

/// The broker, not running yet.
#[derive(Debug)]
pub(super) struct Broker {
    config: Internal,
    inlet: Inlet,
    address: watch::Sender<Option<SocketAddr>>,
}

impl Broker {
    pub(super) fn new(config: Internal) -> (Outlet, Self) {
        let (outlet, inlet) = Outlet::new();
        (outlet, Self { config, inlet, address: watch::Sender::new(None) })
    }

    /// Where it listens, once it does.
    pub(super) fn listening(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.address.subscribe()
    }

    /// Runs until `shutdown`; `topics` are listened to beside those of devices.
    pub(super) async fn run(
        self,
        sinks: Sinks,
        topics: watch::Receiver<BTreeSet<String>>,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        let Self { config, inlet: Inlet { publications, up, .. }, address } = self;
        let (handle, task) = mqtt::bind(broker(&config)).await?;
        let listening = handle.addresses().first().copied();
        address.send_replace(listening);
        info!(address = ?listening, "the internal MQTT broker listens");
        up.send_replace(true);
        let qos = QoS::from_number(config.qos).unwrap_or(QoS::AtMostOnce);
        tokio::select! {
            // cancel-safe, all: the broker's own end is waited for; what was not committed was not acknowledged
            ended = task.run(shutdown) => Ok(ended?),
            () = publish(handle.clone(), publications, (qos, config.retain)) => Ok(()),
            () = subscribe(handle.clone(), sinks, topics) => Ok(()),
        }
    }
}

fn broker(config: &Internal) -> mqtt::Config {
    let tls = config.tls.as_ref().map(|files| mqtt::Tls {
        certificates: files.cert.clone(),
        key: files.key.clone(),
        client_authorities: Some(files.ca.clone()),
    });
    mqtt::Config {
        listeners: vec![Listener { address: config.address, tls }],
        database: config.database.clone(),
        limits: Limits { queued_messages: config.session_queue, ..Limits::default() },
        ..mqtt::Config::default()
    }
}

/// In the order in which they come; a slow subscriber holds up so many at most.
async fn publish(handle: Handle, publications: mpsc::Receiver<Publication>, (qos, retain): (QoS, bool)) {
    let published =
        ReceiverStream::new(publications).map(|Publication { topic, payload }| {
            let handle = handle.clone();
            async move {
                handle.publish(topic.clone(), payload, qos, retain).await.map_err(|error| (topic, error))
            }
        });
    let mut published = std::pin::pin!(published.buffered(AT_ONCE));
    while let Some(outcome) = published.next().await {
        if let Err((topic, error)) = outcome {
            warn!(topic, error = &error as &dyn std::error::Error, "not published");
        }
    }
    std::future::pending().await
}

async fn subscribe(handle: Handle, sinks: Sinks, mut topics: watch::Receiver<BTreeSet<String>>) {
    let mut readers = JoinSet::new();
    for filter in SUBSCRIPTIONS {
        if let Some(subscription) = one(&handle, filter).await {
            readers.spawn(read(subscription, sinks.clone()));
        }
    }
    let mut of_rules: HashMap<String, AbortHandle> = HashMap::new();
    loop {
        let wanted = topics.borrow_and_update().clone();
        of_rules.retain(|topic, reader| {
            let stays = wanted.contains(topic);
            if !stays {
                reader.abort();
            }
            stays
        });
        for topic in wanted {
            if !of_rules.contains_key(&topic)
                && let Some(subscription) = one(&handle, &topic).await
            {
                of_rules.insert(topic, readers.spawn(read(subscription, sinks.clone())));
            }
        }
        if topics.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

async fn one(handle: &Handle, filter: &str) -> Option<Subscription> {
    let subscription = handle.subscribe(filter, WAITING).await;
    subscription
        .inspect_err(|error| warn!(filter, error = error as &dyn std::error::Error, "not subscribed"))
        .ok()
}

/// A full room makes the broker hold back publishers above QoS 0.
async fn read(mut subscription: Subscription, sinks: Sinks) {
    while let Some(message) = subscription.recv().await {
        let receipt = Receipt::default();
        if let Routed::Full(received) = sinks.route(&message.topic, message.payload.clone(), receipt)
            && sinks.requests.send(received).await.is_err()
        {
            return;
        }
    }
}
