//! The broker beside this process. Its session is kept there while this node is away; a message is acknowledged when what it says
//! is on disk, so a broker or an agent that is killed loses none.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rumqttc::{
    AckMode, AsyncClient, Broker as Address, Event, EventLoop, Incoming, MqttOptions, Publish,
    PublishOptions, QoS, SubscribeFilterInput,
};
use tokio::sync::watch;
use tracing::{debug, info, warn};
use wire::topic::SUBSCRIPTIONS;

use super::{
    Error, External, Sinks,
    handle::{Inlet, Outlet, Passed, Publication, Standing},
    receipt::{Connections, Receipt},
    route::Routed,
    tls::Dialler,
    topics,
};
use crate::rt::Backoff;

/// The first wait after a connection was lost is at most this.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait, as in EdgeCore.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Seconds between signs of life.
const KEEP_ALIVE: u16 = 30;
/// The largest packet, bytes: a payload that is answered as too large can be read.
const MAX_PACKET: usize = 1 << 20;
/// Publications that the broker has not acknowledged: the results of half a turn of DeviceTwin.
const UNDER_WAY: u16 = 256;
/// The same at QoS 2: of more than so many, which is its `max_inflight_messages`, mosquitto leaves
/// some unanswered for ever.
const UNDER_WAY_AT_QOS_2: u16 = 20;
/// Requests to the client that wait for the connection.
const MAX_QUEUED_REQUESTS: usize = 1024;

/// The client, not connected yet.
#[derive(Debug)]
pub(super) struct Broker {
    options: MqttOptions,
    server: String,
    qos: QoS,
    inlet: Inlet,
}

impl Broker {
    pub(super) fn new(config: External) -> Result<(Outlet, Self), Error> {
        let dialler = Dialler::new(config.server.clone(), config.tls.as_ref())?;
        let mut options =
            MqttOptions::new(config.client_id, Address::tcp(config.server.host.clone(), config.server.port));
        options.set_socket_connector(move |_, _| {
            let dialler = dialler.clone();
            async move { dialler.dial().await }
        });
        options.try_set_clean_session(false).map_err(|error| Error::Client(error.to_string()))?;
        options.set_keep_alive(KEEP_ALIVE);
        options.set_max_packet_size(MAX_PACKET, MAX_PACKET);
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
            2.. => (QoS::ExactlyOnce, UNDER_WAY_AT_QOS_2),
            _ => (QoS::AtLeastOnce, UNDER_WAY),
        };
        options.set_inflight(under_way);
        let (outlet, inlet) = Outlet::new();
        Ok((outlet, Self { options, server: config.server.to_string(), qos, inlet }))
    }

    /// Runs for ever; `topics` are listened to beside those of devices.
    pub(super) async fn run(
        &mut self,
        sinks: Sinks,
        mut topics: watch::Receiver<BTreeSet<String>>,
    ) -> Result<(), Error> {
        let Self { options, server, qos, inlet } = self;
        let Inlet { publications, standing, failures, passed, .. } = inlet;
        let passed: &Passed = passed;
        standing.down();
        let built = AsyncClient::builder(options.clone()).capacity(MAX_QUEUED_REQUESTS).try_build();
        let (client, events) = built.map_err(|error| Error::Client(error.to_string()))?;
        let publisher = client.clone();
        let publish = async {
            while let Some(Publication { topic, payload, told }) = publications.recv().await {
                let given = match told {
                    None => publisher.publish(topic, payload, PublishOptions::new(*qos)).await,
                    Some(told) => {
                        let tracked =
                            publisher.publish_tracked(topic, payload, PublishOptions::new(*qos)).await;
                        tracked.map(|notice| {
                            // it ends with the connection's queue, or with the broker's acknowledgement
                            tokio::spawn(async move {
                                let confirmed = notice.wait_completion_async().await;
                                Publication::tell(Some(told), confirmed.map_err(|error| error.to_string()));
                            });
                        })
                    }
                };
                match given {
                    Ok(()) => Passed::count(&passed.published),
                    Err(error) => warn!(%error, "not published"),
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
            standing,
            failures: failures.clone(),
            passed,
            connections: Connections::default(),
            is_told: false,
        };
        // beside the connection, which is never dropped in the middle of what it does
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
    events: EventLoop,
    sinks: Sinks,
    subscriptions: &'a Subscriptions,
    server: String,
    standing: &'a mut Standing,
    failures: Arc<AtomicU64>,
    passed: &'a Passed,
    connections: Connections,
    /// Whether people were told that there is no connection.
    is_told: bool,
}

impl Connection<'_> {
    async fn run(&mut self) {
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        loop {
            // to its end each time: dropped before, it dials anew, or loses a packet for which the socket had no room
            match self.events.poll().await {
                Ok(event) => {
                    if self.happened(event).await {
                        backoff.reset();
                    }
                }
                Err(error) => {
                    self.lost();
                    self.subscriptions.end();
                    self.standing.down();
                    self.failures.fetch_add(1, Ordering::Relaxed);
                    if self.is_told {
                        debug!(broker = %self.server, %error, "the MQTT broker is not reached");
                    } else {
                        warn!(broker = %self.server, %error, "the MQTT broker is not reached; it is tried again until it is");
                    }
                    self.is_told = true;
                    tokio::time::sleep(backoff.next(rand::random())).await;
                }
            }
        }
    }

    /// What came on the connection that was lost is not acknowledged any more.
    fn lost(&mut self) {
        self.connections.lost();
        // read already and not returned yet: the broker sends it again, but for what it does not wait for
        let is_not_sent_again = |event: &Event| matches!(event, Event::Incoming(Incoming::Publish(publish)) if publish.qos == QoS::AtMostOnce);
        self.events.state.events.retain(is_not_sent_again);
    }

    /// Whether the connection stands anew.
    async fn happened(&mut self, event: Event) -> bool {
        match event {
            Event::Incoming(Incoming::ConnAck(ack)) => {
                info!(broker = %self.server, resumed = ack.session_present, "connected to the MQTT broker");
                self.is_told = false;
                // what was dropped until now is said again
                self.standing.up();
                self.subscriptions.begin();
                self.sinks.connections.send_modify(|count| *count += 1);
                true
            }
            Event::Incoming(Incoming::Publish(publish)) => {
                self.received(publish).await;
                false
            }
            Event::Incoming(Incoming::SubAck(ack)) => {
                let refused = ack
                    .return_codes
                    .iter()
                    .filter(|code| matches!(code, rumqttc::SubscribeReasonCode::Failure));
                if refused.count() > 0 {
                    warn!(broker = %self.server, "the MQTT broker refuses a subscription; allow this client the topics of devices");
                }
                false
            }
            _ => false,
        }
    }

    async fn received(&mut self, publish: Publish) {
        Passed::count(&self.passed.received);
        let receipt = match publish.qos {
            QoS::AtMostOnce => Receipt::default(),
            _ => Receipt::of(&self.client, &publish, &self.connections),
        };
        let Ok(topic) = std::str::from_utf8(&publish.topic) else {
            receipt.give();
            return;
        };
        let Routed::Full(received) = self.sinks.route(topic, publish.payload.clone(), receipt) else {
            return;
        };
        if publish.qos == QoS::AtMostOnce {
            self.sinks.dropped.note_request();
            debug!(topic, "too many requests wait; this one is dropped, as its quality of service allows");
            return;
        }
        // nothing of what DeviceTwin publishes goes out before this returns
        self.sinks.deliver(received, self.standing, Duration::ZERO).await;
    }
}

/// What is subscribed to.
struct Subscriptions {
    client: AsyncClient,
    topics: watch::Receiver<BTreeSet<String>>,
    server: String,
    /// On this connection; `None` while there is none.
    done: Mutex<Option<BTreeSet<String>>>,
}

impl Subscriptions {
    /// On a new connection. A broker that was restarted may say that it knows us and yet have forgotten what we asked for.
    fn begin(&self) {
        *self.done.lock() = Some(BTreeSet::new());
        self.follow();
    }

    /// The connection is lost.
    fn end(&self) {
        *self.done.lock() = None;
    }

    /// Subscribes to what is not subscribed to yet, and to what is wanted no longer no more.
    fn follow(&self) {
        let mut done = self.done.lock();
        let Some(done) = done.as_mut() else { return };
        let of_rules = self.topics.borrow().clone();
        let own = SUBSCRIPTIONS.iter().map(|&filter| filter.to_owned());
        // brokers may send a message once for each filter that it matches
        let wanted = topics::widest(own.chain(of_rules).collect());
        let new =
            wanted.difference(done).map(|filter| SubscribeFilterInput::new(filter.clone(), QoS::AtLeastOnce));
        let new: Vec<_> = new.collect();
        let mut asked = Ok(());
        if !new.is_empty() {
            asked = self.client.try_subscribe_many(new);
        }
        for old in done.difference(&wanted) {
            asked = asked.and(self.client.try_unsubscribe(old.clone()));
        }
        if let Err(error) = asked {
            warn!(broker = %self.server, %error, "not subscribed; it is tried again with the next connection");
        }
        *done = wanted;
    }
}
