//! The client of an external broker. The broker keeps the session while this node is away, and a message is acknowledged when
//! its changes are on disk, so no message is lost when broker or agent is killed.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use clock::Instant;
use componentbase::Backoff;
use parking_lot::Mutex;
use rumqttc::{
    AckMode, AsyncClient, Broker as Address, ConnectionError, Event, EventLoop, Incoming,
    MqttOptions, Publish, PublishOptions, QoS, SubscribeFilterInput,
};
use tokio::sync::watch;
use tracing::{debug, info, warn};
use wire::topic::SUBSCRIPTIONS;

use super::{
    Error, External, Sinks,
    handle::{Availability, BrokerQueue, BrokerQueueReceiver, MessageCounts, Publication},
    receipt::{Connections, Receipt},
    route::Routed,
    tls::Dialler,
    topics,
};
use crate::short_connections::{Ended, ShortConnections};

/// The upper limit of the first wait after a connection was lost.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
/// The longest wait, as in EdgeCore.
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// The keep-alive interval, seconds.
const KEEP_ALIVE_SECONDS: u16 = 30;
/// The largest packet, bytes: large enough to read a payload that is then refused as too large.
const MAX_PACKET_BYTES: usize = 1 << 20;
/// The most publications without the broker's acknowledgement: the results of half a batch of DeviceTwin.
const MAX_INFLIGHT: u16 = 256;
/// The same at QoS 2. Of more than its `max_inflight_messages` mosquitto leaves some unanswered for ever.
const MAX_INFLIGHT_QOS_2: u16 = 20;
/// The most requests to the client that wait for the connection.
const MAX_QUEUED_REQUESTS: usize = 1024;

/// The client, not connected yet.
#[derive(Debug)]
pub(super) struct Broker {
    options: MqttOptions,
    server: String,
    qos: QoS,
    queue_receiver: BrokerQueueReceiver,
}

impl Broker {
    pub(super) fn new(config: External) -> Result<(BrokerQueue, Self), Error> {
        let dialler = Dialler::new(config.server.clone(), config.tls);
        let mut options = MqttOptions::new(
            config.client_id,
            Address::tcp(config.server.host.clone(), config.server.port),
        );
        options.set_socket_connector(move |_, _| {
            let dialler = dialler.clone();
            async move { dialler.dial().await }
        });
        options
            .try_set_clean_session(false)
            .map_err(|error| Error::Client(error.to_string()))?;
        options.set_keep_alive(KEEP_ALIVE_SECONDS);
        options.set_max_packet_size(MAX_PACKET_BYTES, MAX_PACKET_BYTES);
        options.set_ack_mode(AckMode::Manual);
        match (config.username, config.password) {
            (Some(user), Some(password)) => {
                options.set_credentials(user, password.expose().as_bytes().to_vec());
            }
            (Some(user), None) => {
                options.set_username(user);
            }
            (None, _) => {}
        }
        let (qos, under_way) = match config.qos {
            2.. => (QoS::ExactlyOnce, MAX_INFLIGHT_QOS_2),
            _ => (QoS::AtLeastOnce, MAX_INFLIGHT),
        };
        options.set_inflight(under_way);
        let (broker_queue, queue_receiver) = BrokerQueue::new();
        Ok((
            broker_queue,
            Self {
                options,
                server: config.server.to_string(),
                qos,
                queue_receiver,
            },
        ))
    }

    /// Runs for ever; subscribes to `topics` beside those of devices.
    pub(super) async fn run(
        &mut self,
        sinks: Sinks,
        mut topics: watch::Receiver<BTreeSet<String>>,
    ) -> Result<(), Error> {
        let Self {
            options,
            server,
            qos,
            queue_receiver,
        } = self;
        let BrokerQueueReceiver {
            publications,
            availability,
            failures,
            message_counts,
            ..
        } = queue_receiver;
        let message_counts: &MessageCounts = message_counts;
        availability.down();
        let built = AsyncClient::builder(options.clone())
            .capacity(MAX_QUEUED_REQUESTS)
            .try_build();
        let (client, events) = built.map_err(|error| Error::Client(error.to_string()))?;
        let publisher = client.clone();
        let publish = async {
            while let Some(Publication {
                topic,
                payload,
                outcome_sender,
            }) = publications.recv().await
            {
                let given = match outcome_sender {
                    None => {
                        publisher
                            .publish(topic, payload, PublishOptions::new(*qos))
                            .await
                    }
                    Some(outcome_sender) => {
                        let tracked = publisher
                            .publish_tracked(topic, payload, PublishOptions::new(*qos))
                            .await;
                        tracked.map(|notice| {
                            // the connection's queue ends it, or the broker's acknowledgement
                            componentbase::spawn(async move {
                                let confirmed = notice.wait_completion_async().await;
                                Publication::send_outcome(
                                    Some(outcome_sender),
                                    confirmed.map_err(|error| error.to_string()),
                                );
                            });
                        })
                    }
                };
                match given {
                    Ok(()) => MessageCounts::count(&message_counts.published),
                    Err(error) => warn!(%error, "failed to publish an MQTT message"),
                }
            }
        };
        let subscriptions = Subscriptions {
            client: client.clone(),
            topics: topics.clone(),
            server: server.clone(),
            done: Mutex::default(),
        };
        let mut connection = Connection {
            client,
            events,
            sinks,
            subscriptions: &subscriptions,
            server: server.clone(),
            client_id: options.client_id(),
            availability,
            failures: failures.clone(),
            message_counts,
            connections: Connections::default(),
            is_outage_logged: false,
            short_connections: ShortConnections::default(),
        };
        // beside the connection, which is never dropped during a poll
        let follow = async {
            while topics.changed().await.is_ok() {
                subscriptions.follow();
            }
        };
        // the connection does not end
        tokio::join!(connection.run(), publish, follow);
        Ok(())
    }
}

struct Connection<'a> {
    client: AsyncClient,
    client_id: String,
    events: EventLoop,
    sinks: Sinks,
    subscriptions: &'a Subscriptions,
    server: String,
    availability: &'a mut Availability,
    failures: Arc<AtomicU64>,
    message_counts: &'a MessageCounts,
    connections: Connections,
    /// Whether the missing connection was logged.
    is_outage_logged: bool,
    short_connections: ShortConnections,
}

impl Connection<'_> {
    async fn run(&mut self) {
        let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        loop {
            // polled to completion each time: a dropped poll would dial anew, or lose a packet that the socket had no space
            // for
            match self.events.poll().await {
                Ok(event) => self.handle_event(event).await,
                Err(error) => {
                    self.invalidate_receipts();
                    self.subscriptions.end();
                    self.availability.down();
                    self.failures.fetch_add(1, Ordering::Relaxed);
                    let ended = self.short_connections.end(Instant::now());
                    if matches!(ended, Ended::Long | Ended::Short) {
                        backoff.reset();
                    }
                    self.report_end(ended, &error);
                    tokio::time::sleep(backoff.next(clock::rng().random())).await;
                }
            }
        }
    }

    /// Logs the end of a connection, or a failed attempt.
    fn report_end(&mut self, ended: Ended, error: &ConnectionError) {
        match ended {
            Ended::Again(Some(times)) => warn!(
                broker = %self.server, client = self.client_id, times, %error,
                "connection to the MQTT broker lost again, soon after it was established; another client may use the same client ID"
            ),
            _ if self.is_outage_logged => {
                debug!(broker = %self.server, %error, "cannot reach the MQTT broker");
            }
            _ => {
                warn!(broker = %self.server, %error, "cannot reach the MQTT broker; retrying");
            }
        }
        self.is_outage_logged = true;
    }

    /// Invalidates the receipts of the lost connection.
    fn invalidate_receipts(&mut self) {
        self.connections.mark_lost();
        // messages that were read but not returned yet: the broker sends them again, except at QoS 0
        let is_not_sent_again = |event: &Event| matches!(event, Event::Incoming(Incoming::Publish(publish)) if publish.qos == QoS::AtMostOnce);
        self.events.state.events.retain(is_not_sent_again);
    }

    /// Handles an event.
    async fn handle_event(&mut self, event: Event) {
        match event {
            Event::Incoming(Incoming::ConnAck(ack)) => {
                self.short_connections.establish(Instant::now());
                if self.short_connections.are_suspicious() {
                    debug!(broker = %self.server, "MQTT connection restored");
                } else if std::mem::take(&mut self.is_outage_logged) {
                    info!(broker = %self.server, resumed = ack.session_present, "MQTT connection restored");
                } else {
                    info!(broker = %self.server, resumed = ack.session_present, "connected to the MQTT broker");
                }
                // what was dropped until now is published again
                self.availability.up();
                self.subscriptions.begin();
                self.sinks.connections.send_modify(|count| *count += 1);
            }
            Event::Incoming(Incoming::Publish(publish)) => {
                self.handle_received(publish).await;
            }
            Event::Incoming(Incoming::SubAck(ack)) => {
                let refused = ack
                    .return_codes
                    .iter()
                    .filter(|code| matches!(code, rumqttc::SubscribeReasonCode::Failure));
                if refused.count() > 0 {
                    warn!(
                        broker = %self.server,
                        "MQTT broker refused a subscription; allow this client the topics of devices"
                    );
                }
            }
            _ => {}
        }
    }

    async fn handle_received(&mut self, publish: Publish) {
        MessageCounts::count(&self.message_counts.received);
        let receipt = match publish.qos {
            QoS::AtMostOnce => Receipt::default(),
            _ => Receipt::of(&self.client, &publish, &self.connections),
        };
        let Ok(topic) = std::str::from_utf8(&publish.topic) else {
            receipt.acknowledge();
            return;
        };
        let is_reliable = publish.qos != QoS::AtMostOnce;
        let routed = self
            .sinks
            .route(topic, publish.payload.clone(), receipt, is_reliable);
        if matches!(routed, Routed::Full(_)) && !is_reliable {
            self.sinks.dropped.count_request();
            debug!(
                topic,
                "queue of requests is full; message dropped, as its quality of service allows"
            );
            return;
        }
        // nothing that DeviceTwin publishes is sent before this returns
        self.sinks
            .deliver(routed, self.availability, Duration::ZERO)
            .await;
    }
}

/// The subscriptions.
struct Subscriptions {
    client: AsyncClient,
    topics: watch::Receiver<BTreeSet<String>>,
    server: String,
    /// The filters that are subscribed on this connection; `None` while there is none.
    done: Mutex<Option<BTreeSet<String>>>,
}

impl Subscriptions {
    /// Subscribes on a new connection. A broker that was restarted may report a present session and yet have lost its
    /// subscriptions.
    fn begin(&self) {
        *self.done.lock() = Some(BTreeSet::new());
        self.follow();
    }

    /// Forgets the subscriptions of the lost connection.
    fn end(&self) {
        *self.done.lock() = None;
    }

    /// Subscribes to new filters, and unsubscribes from those that are not wanted any more.
    fn follow(&self) {
        let mut done = self.done.lock();
        let Some(done) = done.as_mut() else { return };
        let of_rules = self.topics.borrow().clone();
        let own = SUBSCRIPTIONS.iter().map(|&filter| filter.to_owned());
        // brokers may send a message once for each filter that it matches
        let wanted = topics::without_covered(own.chain(of_rules).collect());
        let new = wanted
            .difference(done)
            .map(|filter| SubscribeFilterInput::new(filter.clone(), QoS::AtLeastOnce));
        let new: Vec<_> = new.collect();
        let mut asked = Ok(());
        if !new.is_empty() {
            asked = self.client.try_subscribe_many(new);
        }
        for old in done.difference(&wanted) {
            asked = asked.and(self.client.try_unsubscribe(old.clone()));
        }
        if let Err(error) = asked {
            warn!(
                broker = %self.server,
                %error,
                "failed to subscribe to MQTT topics; retrying at the next connection"
            );
        }
        *done = wanted;
    }
}
