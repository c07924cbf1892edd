//! What runs: the brokers, what goes to the cloud, and what the cloud says of topics.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kubeapi::store::{Store, StoreError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use wire::Downstream;

use super::{Bus, Error, Sinks, external, internal, topics::TOPICS, upload::Upload};
use crate::{
    metamanager::CloudMessages,
    outbox::Outbox,
    rt::{Heart, Part, PartError},
};

/// After the store failed.
const RETRY: Duration = Duration::from_secs(1);
/// How long the internal broker may take to end.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// See [`super::new`].
#[derive(Debug)]
pub struct Task {
    pub(super) internal: Option<internal::Broker>,
    pub(super) external: Option<external::Broker>,
    pub(super) sinks: Sinks,
    pub(super) outbox: Outbox<Upload>,
    pub(super) store: Arc<dyn Store>,
    pub(super) messages: CloudMessages,
    pub(super) bus: Bus,
}

impl Task {
    /// On a node where nobody looks after devices: what is said of them is acknowledged, and nothing else done with it.
    pub fn without_devices(mut self) -> Self {
        self.sinks.has_devices = false;
        self
    }

    /// Runs until `shutdown`.
    ///
    /// # Errors
    /// The internal broker's port is taken, or its disk has failed.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), Error> {
        self.run_again(&Heart::unheard(), shutdown).await
    }

    /// The same for whoever may drop it in its middle, and call it again: clients of the internal broker are cut off and come again.
    async fn run_again(&mut self, heart: &Heart, shutdown: CancellationToken) -> Result<(), Error> {
        let Self { internal, external, sinks, outbox, store, messages, bus } = self;
        let (stop, has_last_words) = (shutdown.clone(), internal.is_some());
        heart.beat();
        let known = load(store).await;
        drop(heart.rest());
        let (set, topics) = watch::channel(known);
        let (mine, of_external) = (sinks.clone(), topics.clone());
        let inside = async {
            match internal {
                Some(broker) => broker.run(mine, topics, (stop, heart.another("internal broker"))).await,
                None => std::future::pending().await,
            }
        };
        let outside = async {
            match external {
                Some(broker) => broker.run(sinks.clone(), of_external).await,
                None => std::future::pending().await,
            }
        };
        let others = async { tokio::join!(outbox.run(), listen(messages, store, set, bus, heart)) };
        let ended = tokio::select! {
            // the internal broker ends by itself, after its clients were told
            biased;
            // cancel-safe, all: what was not acknowledged is sent again
            ended = inside => ended,
            ended = outside => ended,
            _ = others => Ok(()),
            () = ended(&shutdown, has_last_words) => Ok(()),
        };
        outbox.finish().await;
        ended
    }
}

impl Part for Task {
    async fn run(&mut self, heart: Heart, shutdown: CancellationToken) -> Result<(), PartError> {
        Ok(Box::pin(self.run_again(&heart, shutdown)).await?)
    }
}

async fn ended(shutdown: &CancellationToken, has_last_words: bool) {
    shutdown.cancelled().await;
    if has_last_words {
        tokio::time::sleep(LAST_WORDS).await;
    }
}

async fn load(store: &Arc<dyn Store>) -> BTreeSet<String> {
    loop {
        match TOPICS.load(store).await {
            Ok(mut topics) => {
                topics.retain(|topic| mqtt::is_filter(topic));
                return topics;
            }
            Err(failure) => failed(&failure).await,
        }
    }
}

async fn failed(failure: &StoreError) {
    error!(error = failure as &dyn std::error::Error, "the topics of rules cannot be read or written");
    tokio::time::sleep(RETRY).await;
}

/// Does what the cloud says of topics.
async fn listen(
    messages: &mut CloudMessages,
    store: &Arc<dyn Store>,
    topics: watch::Sender<BTreeSet<String>>,
    bus: &Bus,
    heart: &Heart,
) {
    loop {
        let rest = heart.rest();
        let message = messages.next().await;
        drop(rest);
        let Some(message) = message else { break };
        match message {
            Downstream::Subscription { on, topic, .. } => {
                if !mqtt::is_filter(&topic) {
                    warn!(topic, "a rule of the cloud listens to what is no topic");
                    continue;
                }
                while let Err(failure) = TOPICS.set(store, &topic, on).await {
                    failed(&failure).await;
                }
                // said again, as with each connection to the cloud, it changes nothing
                topics
                    .send_if_modified(|topics| if on { topics.insert(topic) } else { topics.remove(&topic) });
            }
            Downstream::Publish { topic, payload } => {
                if topic.is_empty() || topic.contains(['+', '#', '\0']) {
                    warn!(topic, "a rule of the cloud publishes on what is no topic");
                    continue;
                }
                let payload = match payload {
                    serde_json::Value::String(text) => text,
                    other => other.to_string(),
                };
                bus.publish(topic, payload).await;
            }
            other => warn!(what = other.kind(), "this is not about topics"),
        }
    }
    // the cloud's messages have ended, and with them soon everything else
    let _rest = heart.rest();
    std::future::pending().await
}
