//! The internal broker: subscribed to and published to in process, without a socket.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, time::Duration};

use componentbase::Heartbeat;
use futures::StreamExt;
use mqtt::{Access, Delivered, Filters, Handle, Limits, Listener, PublishError, QoS, Subscription};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use wire::topic::SUBSCRIPTIONS;

use super::{
    Error, Internal, Sinks,
    handle::{
        Availability, BrokerQueue, BrokerQueueReceiver, MessageCounts, Progress, Publication,
    },
    metrics::Running,
    passwords,
    receipt::Receipt,
};
use crate::config::InternalAccess;

/// The most messages of the subscription that wait for EventBus.
const MAX_QUEUED_MESSAGES: usize = 512;
/// The most publications that wait for the broker's disk, or for subscribers.
const MAX_CONCURRENT_PUBLICATIONS: usize = 128;
/// How long DeviceTwin may not accept a message before it is considered blocked by the broker.
const BUSY_TIMEOUT: Duration = Duration::from_millis(200);
/// The time between two liveness checks of the broker.
const LIVENESS_INTERVAL: Duration = Duration::from_secs(15);
/// A filter that is never subscribed: the liveness check unsubscribes from it.
const LIVENESS_FILTER: &str = "$SYS/asked";
/// A dropped broker frees its port soon after: the number of attempts to bind it, and the time between them.
const MAX_BIND_ATTEMPTS: u32 = 50;
const BIND_RETRY_DELAY: Duration = Duration::from_millis(20);

/// The broker, not running yet.
#[derive(Debug)]
pub(super) struct Broker {
    config: Internal,
    queue_receiver: BrokerQueueReceiver,
    address: watch::Sender<Option<SocketAddr>>,
    running: Running,
}

impl Broker {
    pub(super) fn new(config: Internal) -> (BrokerQueue, Self) {
        let (broker_queue, queue_receiver) = BrokerQueue::in_process();
        let (address, running) = (watch::Sender::new(None), Running::default());
        (
            broker_queue,
            Self {
                config,
                queue_receiver,
                address,
                running,
            },
        )
    }

    /// Returns its address, once it listens.
    pub(super) fn listening(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.address.subscribe()
    }

    /// Returns the handle of the broker, once it runs.
    pub(super) fn running(&self) -> Running {
        self.running.clone()
    }

    /// Runs until `shutdown`; subscribes to `topics` beside those of devices.
    pub(super) async fn run(
        &mut self,
        sinks: Sinks,
        topics: watch::Receiver<BTreeSet<String>>,
        shutdown: CancellationToken,
        heartbeat: Heartbeat,
    ) -> Result<(), Error> {
        let Self {
            config,
            queue_receiver,
            address,
            running,
        } = self;
        let BrokerQueueReceiver {
            publications,
            availability,
            progress,
            message_counts,
            ..
        } = queue_receiver;
        let message_counts: &MessageCounts = message_counts;
        heartbeat.beat();
        let has_run = address.borrow().is_some();
        let access = config
            .access
            .as_ref()
            .map(access)
            .transpose()?
            .unwrap_or_default();
        let (handle, task) = bind(
            mqtt::Config {
                access,
                ..broker(config)
            },
            has_run,
        )
        .await?;
        *running.lock() = Some(handle.clone());
        let listening = handle.addresses().first().copied();
        address.send_replace(listening);
        info!(
            address = listening.map(tracing::field::display),
            "internal MQTT broker started"
        );
        availability.up();
        let qos = QoS::from_number(config.qos).unwrap_or(QoS::AtMostOnce);
        let progress = progress.clone();
        let outgoing = Outgoing {
            publications,
            progress,
            message_counts,
            qos,
            retain: config.retain,
        };
        let incoming = Incoming {
            sinks,
            availability,
            message_counts,
        };
        clock::select! {
            // cancel-safe: the broker's own end is awaited; what was not committed was not acknowledged
            ended = task.run(shutdown) => Ok(ended?),
            () = publish(handle.clone(), outgoing) => Ok(()),
            () = subscribe(handle.clone(), incoming, topics, heartbeat) => Ok(()),
        }
    }
}

/// The publications of this node.
struct Outgoing<'a> {
    publications: &'a mut mpsc::Receiver<Publication>,
    progress: Arc<Progress>,
    message_counts: &'a MessageCounts,
    qos: QoS,
    retain: bool,
}

/// The receivers of clients' messages.
struct Incoming<'a> {
    sinks: Sinks,
    availability: &'a mut Availability,
    message_counts: &'a MessageCounts,
}

/// Binds the broker; if it `has_run`, its old port may not be free yet.
async fn bind(config: mqtt::Config, has_run: bool) -> Result<(Handle, mqtt::Task), mqtt::Error> {
    for _ in 1..MAX_BIND_ATTEMPTS {
        match mqtt::bind(config.clone()).await {
            Err(mqtt::Error::Listen { .. }) if has_run => sleep(BIND_RETRY_DELAY).await,
            bound => return bound,
        }
    }
    mqtt::bind(config).await
}

fn access(wanted: &InternalAccess) -> Result<Access, Error> {
    let mut access = Access::default().with_anonymous(wanted.anonymous);
    if let Some(path) = &wanted.password_file {
        for (user, password) in passwords::read(path)? {
            access = access.with_user(&user, password.expose().as_bytes());
        }
    }
    Ok(wanted.rules.iter().cloned().fold(access, Access::with_rule))
}

fn broker(config: &Internal) -> mqtt::Config {
    let tls = config.tls.as_ref().map(|files| mqtt::Tls {
        certificates: files.cert.clone(),
        key: files.key.clone(),
        client_authorities: Some(files.ca.clone()),
    });
    mqtt::Config {
        listeners: vec![Listener {
            address: config.address,
            tls,
        }],
        database: config.database.clone(),
        limits: Limits {
            queued_messages: config.session_queue,
            ..Limits::default()
        },
        ..mqtt::Config::default()
    }
}

/// Publishes in order: messages are passed to the broker one after the other, and only its answers are awaited concurrently. A
/// slow subscriber delays at most that many.
async fn publish(handle: Handle, outgoing: Outgoing<'_>) {
    let Outgoing {
        publications,
        progress,
        message_counts,
        qos,
        retain,
    } = outgoing;
    let publications = futures::stream::poll_fn(|context| publications.poll_recv(context));
    let given = publications.then(
        move |Publication {
                  topic,
                  payload,
                  outcome_sender,
              }| {
            let handle = handle.clone();
            async move {
                (
                    topic.clone(),
                    outcome_sender,
                    handle.begin_publish(topic, payload, qos, retain).await,
                )
            }
        },
    );
    let published = given.map(move |(topic, outcome_sender, given)| {
        let progress = progress.clone();
        async move {
            let outcome = match given {
                Ok(publishing) => publishing.wait_published().await,
                Err(error) => Err(error),
            };
            progress.count_finished();
            Publication::send_outcome(
                outcome_sender,
                outcome.as_ref().map(|_| ()).map_err(ToString::to_string),
            );
            outcome.map_err(|error| (topic, error))
        }
    });
    let mut published = std::pin::pin!(published.buffered(MAX_CONCURRENT_PUBLICATIONS));
    while let Some(outcome) = published.next().await {
        if outcome.is_ok() {
            MessageCounts::count(&message_counts.published);
        }
        if let Err((topic, error)) = outcome {
            warn!(
                topic,
                error = &error as &dyn std::error::Error,
                "failed to publish an MQTT message"
            );
        }
    }
    std::future::pending().await
}

/// Subscribes with one receiver for all filters: a message that matches a rule and a device topic comes once.
async fn subscribe(
    handle: Handle,
    incoming: Incoming<'_>,
    topics: watch::Receiver<BTreeSet<String>>,
    heartbeat: Heartbeat,
) {
    let Incoming {
        sinks,
        availability,
        message_counts,
    } = incoming;
    let [first, others @ ..] = SUBSCRIPTIONS;
    let listening = async {
        let subscription = handle
            .subscribe_confirming(first, MAX_QUEUED_MESSAGES)
            .await?;
        let filters = subscription.filters();
        for filter in others {
            filters.add(filter).await?;
        }
        Ok::<_, PublishError>((subscription, filters))
    };
    match listening.await {
        Ok((subscription, filters)) => {
            tokio::join!(
                read(subscription, sinks, availability, message_counts),
                follow(filters, topics, &heartbeat)
            );
        }
        // the broker has ended before, as with the agent; a failure is reported by the broker itself
        Err(PublishError::Stopped) => {}
        Err(error) => warn!(
            error = &error as &dyn std::error::Error,
            "failed to subscribe to MQTT topics"
        ),
    }
    let _rest = heartbeat.idle();
    std::future::pending().await
}

/// Follows the topics of rules. At times it sends the broker a request without effect, so that a broker that hangs is noticed.
async fn follow(
    filters: Filters,
    mut topics: watch::Receiver<BTreeSet<String>>,
    heartbeat: &Heartbeat,
) {
    let mut heard = BTreeSet::new();
    loop {
        let mut wanted = topics.borrow_and_update().clone();
        // subscribed whatever the rules say
        wanted.retain(|filter| !SUBSCRIPTIONS.contains(&filter.as_str()));
        let mut done = Ok(());
        for new in wanted.difference(&heard) {
            done = done.and(filters.add(new).await);
        }
        for old in heard.difference(&wanted) {
            done = done.and(filters.remove(old).await);
        }
        match done {
            Ok(()) | Err(PublishError::Stopped) => {}
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "failed to subscribe to topics of rules"
                );
            }
        }
        heard = wanted;
        while let Some(()) = changed_or_check(&mut topics, heartbeat).await {
            // this filter is never subscribed
            let _ = filters.remove(LIVENESS_FILTER).await;
        }
        if topics.has_changed().is_err() {
            let _rest = heartbeat.idle();
            return std::future::pending().await;
        }
    }
}

/// Waits for other topics; returns a value when the next liveness check is due.
async fn changed_or_check(
    topics: &mut watch::Receiver<BTreeSet<String>>,
    heartbeat: &Heartbeat,
) -> Option<()> {
    let _rest = heartbeat.idle();
    // cancel-safe: a change that was not seen stays
    match timeout(LIVENESS_INTERVAL, topics.changed()).await {
        Ok(_) => None,
        Err(_) => Some(()),
    }
}

/// Reads messages. A client's message above QoS 0 is acknowledged to it when it is stored, or was sent to the cloud. A full queue
/// makes the broker hold back publishers above QoS 0, DeviceTwin among them, whose publications come back here if a rule matches
/// them.
async fn read(
    mut subscription: Subscription,
    sinks: Sinks,
    availability: &mut Availability,
    message_counts: &MessageCounts,
) {
    while let Some(Delivered {
        message,
        confirmation,
    }) = subscription.next_delivered().await
    {
        MessageCounts::count(&message_counts.received);
        let (receipt, is_reliable) = (
            Receipt::of_client(confirmation),
            message.qos > QoS::AtMostOnce,
        );
        let routed = sinks.route(
            &message.topic,
            message.payload.clone(),
            receipt,
            is_reliable,
        );
        if !sinks.deliver(routed, availability, BUSY_TIMEOUT).await {
            return;
        }
    }
}
