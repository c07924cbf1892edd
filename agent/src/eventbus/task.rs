//! The task: runs the brokers, the outbox, and the handling of the cloud's messages.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use componentbase::{Heartbeat, Part, PartError};
use objectstore::{Store, StoreError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use wire::{Down, Downstream, bus::Terms, text::short, topic::check_subscription};

use super::{
    Bus, Error, Sinks, external, internal, promises::Promises, publish::Publisher, topics::TOPICS,
    upload::Upload,
};
use crate::{edgehub::EdgeHub, metamanager::RouterMessages, outbox::Outbox};

/// The wait after the store failed.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The most topics of rules: a few for each of a thousand rules.
const MAX_TOPICS: usize = 4096;
/// How long the internal broker may take to end.
const BROKER_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// The task that [`super::new`] builds.
#[derive(Debug)]
pub struct Task {
    pub(super) internal: Option<internal::Broker>,
    pub(super) external: Option<external::Broker>,
    pub(super) sinks: Sinks,
    pub(super) outbox: Outbox<Upload>,
    pub(super) store: Arc<dyn Store>,
    pub(super) hub: EdgeHub,
    pub(super) messages: RouterMessages,
    pub(super) bus: Bus,
}

impl Task {
    /// Configures a node without DeviceTwin: messages about devices are acknowledged and ignored.
    pub fn without_devices(mut self) -> Self {
        self.sinks.has_devices = false;
        self
    }

    /// Runs until `shutdown`.
    ///
    /// # Errors
    /// The internal broker's port is taken, or its disk has failed.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), Error> {
        Box::pin(self.run_restartable(&Heartbeat::unmonitored(), shutdown)).await
    }

    /// Runs until `shutdown`. The future may be dropped at any point and the method called again: clients of the internal
    /// broker are disconnected and come again.
    async fn run_restartable(
        &mut self,
        heartbeat: &Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        let Self {
            internal,
            external,
            sinks,
            outbox,
            store,
            hub,
            messages,
            bus,
        } = self;
        let (stop, has_internal) = (shutdown.clone(), internal.is_some());
        heartbeat.beat();
        let known = load(store, &sinks.promises).await;
        drop(heartbeat.idle());
        let (set, topics) = watch::channel(known);
        let (mine, of_external) = (sinks.clone(), topics.clone());
        let inside = async {
            match internal {
                Some(broker) => {
                    broker
                        .run(mine, topics, stop, heartbeat.for_loop("internal broker"))
                        .await
                }
                None => std::future::pending().await,
            }
        };
        let outside = async {
            match external {
                Some(broker) => broker.run(sinks.clone(), of_external).await,
                None => std::future::pending().await,
            }
        };
        let rules = RuleTopics {
            store,
            topics: set,
            promises: sinks.promises.clone(),
            bus,
            hub,
        };
        let others = async { tokio::join!(outbox.run(), listen(messages, rules, heartbeat)) };
        let ended = clock::select! {
            // the internal broker ends by itself, after its clients were disconnected
            biased;
            // cancel-safe: what was not acknowledged is sent again
            ended = inside => ended,
            ended = outside => ended,
            _ = others => Ok(()),
            () = wait_ended(&shutdown, has_internal) => Ok(()),
        };
        outbox.finish().await;
        ended
    }
}

impl Part for Task {
    async fn run(
        &mut self,
        heartbeat: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        Ok(Box::pin(self.run_restartable(&heartbeat, shutdown)).await?)
    }
}

async fn wait_ended(shutdown: &CancellationToken, has_internal: bool) {
    shutdown.cancelled().await;
    if has_internal {
        tokio::time::sleep(BROKER_SHUTDOWN_TIMEOUT).await;
    }
}

async fn load(store: &Arc<dyn Store>, promises: &Promises) -> BTreeSet<String> {
    loop {
        match TOPICS.load_details(store).await {
            Ok(mut topics) => {
                topics.retain(|topic, _| check_subscription(topic).is_ok());
                for (topic, terms) in &topics {
                    promises.set(topic, Some(Terms::read(terms)));
                }
                return topics.into_keys().collect();
            }
            Err(failure) => log_failure(&failure).await,
        }
    }
}

async fn log_failure(failure: &StoreError) {
    error!(
        error = failure as &dyn std::error::Error,
        "failed to access topics of rules; retrying"
    );
    tokio::time::sleep(STORE_RETRY_DELAY).await;
}

/// The topics of the cloud's rules with their store, and the handles of the brokers and the cloud.
struct RuleTopics<'a> {
    store: &'a Arc<dyn Store>,
    topics: watch::Sender<BTreeSet<String>>,
    promises: Promises,
    bus: &'a Bus,
    hub: &'a EdgeHub,
}

impl RuleTopics<'_> {
    /// Subscribes to a topic, or unsubscribes. A repetition, as with each connection to the cloud, changes nothing.
    async fn subscribe(&self, topic: String, terms: Option<Terms>) {
        if let (Some(_), Err(fault)) = (terms, check_subscription(&topic)) {
            warn!(topic = short(&topic), error = %fault, "cannot subscribe to the topic of a rule; topic ignored");
            return;
        }
        if terms.is_some()
            && self.topics.borrow().len() >= MAX_TOPICS
            && !self.topics.borrow().contains(&topic)
        {
            warn!(
                topic,
                "cannot subscribe to more than {MAX_TOPICS} topics of rules; delete unused rules"
            );
            return;
        }
        while let Err(failure) = TOPICS
            .set_detail(self.store, &topic, terms.map(Terms::content))
            .await
        {
            log_failure(&failure).await;
        }
        self.promises.set(&topic, terms);
        self.topics.send_if_modified(|topics| {
            if terms.is_some() {
                topics.insert(topic)
            } else {
                topics.remove(&topic)
            }
        });
    }
}

/// Handles the cloud's messages about topics.
async fn listen(messages: &mut RouterMessages, rules: RuleTopics<'_>, heartbeat: &Heartbeat) {
    let mut publisher = Publisher::new(rules.bus, rules.hub);
    loop {
        let rest = heartbeat.idle();
        let message = messages.next().await;
        drop(rest);
        let Some(Down { header, body }) = message else {
            break;
        };
        match body {
            Downstream::Subscription { on, topic, content } => {
                rules
                    .subscribe(topic, on.then(|| Terms::read(&content)))
                    .await;
            }
            Downstream::Publish { topic, payload } => {
                publisher.publish(&header, topic, &payload).await
            }
            other => warn!(
                what = other.form().as_str(),
                "message ignored: not about topics"
            ),
        }
    }
    // the cloud's messages have ended, as everything else will soon
    let _rest = heartbeat.idle();
    std::future::pending().await
}
