//! The broker in this process: subscribed to without a socket, published to without one.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, time::Duration};

use futures::StreamExt;
use mqtt::{Access, Filters, Handle, Limits, Listener, PublishError, QoS, Subscription};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use wire::topic::SUBSCRIPTIONS;

use super::{
    Error, Internal, Sinks,
    figures::Running,
    handle::{Inlet, Outlet, Passed, Progress, Publication, Standing},
    passwords,
    receipt::Receipt,
    route::Routed,
};
use crate::{config::InternalAccess, rt::Heart};

/// Messages of one subscription that wait for this room.
const MAX_QUEUED_MESSAGES: usize = 512;
/// Publications that wait for the broker's disk, or for subscribers.
const MAX_CONCURRENT_PUBLICATIONS: usize = 128;
/// How long DeviceTwin may be busy before it is taken to wait for the broker.
const BUSY: Duration = Duration::from_millis(200);
/// Time between two questions to the broker.
const LIVENESS_INTERVAL: Duration = Duration::from_secs(15);
/// A filter that nothing is heard by: the broker is asked to remove it.
const ASKED: &str = "$SYS/asked";
/// A broker that was dropped lets go of its port soon after: so often, and so long each time, it is waited for.
const BINDS: u32 = 50;
const BIND_AGAIN: Duration = Duration::from_millis(20);

/// The broker, not running yet.
#[derive(Debug)]
pub(super) struct Broker {
    config: Internal,
    access: Access,
    inlet: Inlet,
    address: watch::Sender<Option<SocketAddr>>,
    running: Running,
}

impl Broker {
    pub(super) fn new(config: Internal) -> Result<(Outlet, Self), Error> {
        let access = config.access.as_ref().map(access).transpose()?.unwrap_or_default();
        let (outlet, inlet) = Outlet::in_process();
        Ok((
            outlet,
            Self { config, access, inlet, address: watch::Sender::new(None), running: Running::default() },
        ))
    }

    /// Where it listens, once it does.
    pub(super) fn listening(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.address.subscribe()
    }

    /// The broker, once it runs.
    pub(super) fn running(&self) -> Running {
        self.running.clone()
    }

    /// Runs until `shutdown`; `topics` are listened to beside those of devices.
    pub(super) async fn run(
        &mut self,
        sinks: Sinks,
        topics: watch::Receiver<BTreeSet<String>>,
        shutdown: CancellationToken,
        heart: Heart,
    ) -> Result<(), Error> {
        let Self { config, access, inlet, address, running } = self;
        let Inlet { publications, standing, progress, passed, .. } = inlet;
        let passed: &Passed = passed;
        heart.beat();
        let has_run = address.borrow().is_some();
        let (handle, task) = bind(mqtt::Config { access: access.clone(), ..broker(config) }, has_run).await?;
        *running.lock() = Some(handle.clone());
        let listening = handle.addresses().first().copied();
        address.send_replace(listening);
        info!(address = ?listening, "the internal MQTT broker listens");
        standing.up();
        let qos = QoS::from_number(config.qos).unwrap_or(QoS::AtMostOnce);
        let progress = progress.clone();
        let outgoing = Outgoing { publications, progress, passed, qos, retain: config.retain };
        let incoming = Incoming { sinks, standing, passed };
        tokio::select! {
            // cancel-safe, all: the broker's own end is waited for; what was not committed was not acknowledged
            ended = task.run(shutdown) => Ok(ended?),
            () = publish(handle.clone(), outgoing) => Ok(()),
            () = subscribe(handle.clone(), incoming, topics, heart) => Ok(()),
        }
    }
}

/// What this node publishes.
struct Outgoing<'a> {
    publications: &'a mut mpsc::Receiver<Publication>,
    progress: Arc<Progress>,
    passed: &'a Passed,
    qos: QoS,
    retain: bool,
}

/// Where messages of clients go.
struct Incoming<'a> {
    sinks: Sinks,
    standing: &'a mut Standing,
    passed: &'a Passed,
}

/// Binds the broker; one that `has_run` may still be letting go of its port.
async fn bind(config: mqtt::Config, has_run: bool) -> Result<(Handle, mqtt::Task), mqtt::Error> {
    for _ in 1..BINDS {
        match mqtt::bind(config.clone()).await {
            Err(mqtt::Error::Listen { .. }) if has_run => sleep(BIND_AGAIN).await,
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
        listeners: vec![Listener { address: config.address, tls }],
        database: config.database.clone(),
        limits: Limits { queued_messages: config.session_queue, ..Limits::default() },
        ..mqtt::Config::default()
    }
}

/// In the order in which they come: one after the other is given to the broker, and only its answers are waited for side by side.
/// A slow subscriber holds up so many at most.
async fn publish(handle: Handle, outgoing: Outgoing<'_>) {
    let Outgoing { publications, progress, passed, qos, retain } = outgoing;
    let publications = futures::stream::poll_fn(|context| publications.poll_recv(context));
    let given = publications.then(move |Publication { topic, payload, told }| {
        let handle = handle.clone();
        async move { (topic.clone(), told, handle.begin_publish(topic, payload, qos, retain).await) }
    });
    let published = given.map(move |(topic, told, given)| {
        let progress = progress.clone();
        async move {
            let outcome = match given {
                Ok(publishing) => publishing.done().await,
                Err(error) => Err(error),
            };
            progress.done();
            Publication::tell(told, outcome.as_ref().map(|_| ()).map_err(ToString::to_string));
            outcome.map_err(|error| (topic, error))
        }
    });
    let mut published = std::pin::pin!(published.buffered(MAX_CONCURRENT_PUBLICATIONS));
    while let Some(outcome) = published.next().await {
        if outcome.is_ok() {
            Passed::count(&passed.published);
        }
        if let Err((topic, error)) = outcome {
            warn!(topic, error = &error as &dyn std::error::Error, "not published");
        }
    }
    std::future::pending().await
}

/// One receiver for all filters: what a rule listens to and this room listens to anyway comes once.
async fn subscribe(
    handle: Handle,
    incoming: Incoming<'_>,
    topics: watch::Receiver<BTreeSet<String>>,
    heart: Heart,
) {
    let Incoming { sinks, standing, passed } = incoming;
    let [first, others @ ..] = SUBSCRIPTIONS;
    let listening = async {
        let subscription = handle.subscribe(first, MAX_QUEUED_MESSAGES).await?;
        let filters = subscription.filters();
        for filter in others {
            filters.add(filter).await?;
        }
        Ok::<_, PublishError>((subscription, filters))
    };
    match listening.await {
        Ok((subscription, filters)) => {
            tokio::join!(read(subscription, sinks, standing, passed), follow(filters, topics, &heart));
        }
        // the broker has ended before, as with the agent; where it failed, it says so itself
        Err(PublishError::Stopped) => {}
        Err(error) => warn!(error = &error as &dyn std::error::Error, "not subscribed"),
    }
    let _rest = heart.rest();
    std::future::pending().await
}

/// Listens to the topics of rules, as they come and go. Now and then the broker is asked for what changes nothing, so that one that
/// hangs is noticed.
async fn follow(filters: Filters, mut topics: watch::Receiver<BTreeSet<String>>, heart: &Heart) {
    let mut heard = BTreeSet::new();
    loop {
        let mut wanted = topics.borrow_and_update().clone();
        // listened to whatever rules say
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
                warn!(error = &error as &dyn std::error::Error, "not subscribed to all topics of rules");
            }
        }
        heard = wanted;
        while let Some(()) = asked_or(&mut topics, heart).await {
            // it hears no such filter
            let _ = filters.remove(ASKED).await;
        }
        if topics.has_changed().is_err() {
            let _rest = heart.rest();
            return std::future::pending().await;
        }
    }
}

/// Waits for other topics, or until it is time to ask the broker for something: then there is a value.
async fn asked_or(topics: &mut watch::Receiver<BTreeSet<String>>, heart: &Heart) -> Option<()> {
    let _rest = heart.rest();
    // cancel-safe: a change that was not seen stays
    match timeout(LIVENESS_INTERVAL, topics.changed()).await {
        Ok(_) => None,
        Err(_) => Some(()),
    }
}

/// A full room makes the broker hold back publishers above QoS 0, DeviceTwin among them: what it says is heard here, too, where a
/// rule listens to it.
async fn read(mut subscription: Subscription, sinks: Sinks, standing: &mut Standing, passed: &Passed) {
    while let Some(message) = subscription.recv().await {
        Passed::count(&passed.received);
        let receipt = Receipt::default();
        if let Routed::Full(received) = sinks.route(&message.topic, message.payload.clone(), receipt)
            && !sinks.deliver(received, standing, BUSY).await
        {
            return;
        }
    }
}
