//! The one owner of the connection: enrol, dial, run, wait, again; and a new certificate when it is time.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use wire::instance::Instance;

use super::{
    Config, Error, Link,
    dial::{Dialled, Dialler},
    enroll::{self, EnrollError, FirstRequest, Identity, Renewal},
    liveness::Patience,
    network::{Network, Watcher},
    redial::Redial,
    session::{self, Endpoints, Session},
    session_end::SessionEnd,
};
use crate::rt::{Heart, Part, PartError, Repeated, now};

/// So many handshake timeouts a connection with a new certificate may take before it is given up for the time being.
const NEW_LINK: u32 = 2;
/// The answer to an upgrade that the cloud has already acted on is on its way.
const OVERTAKEN: Duration = Duration::from_secs(1);

/// See [`super::new`].
#[derive(Debug)]
pub struct Task {
    pub(super) config: Config,
    pub(super) endpoints: Endpoints,
    link: watch::Sender<Link>,
}

impl Task {
    pub(super) fn new(config: Config, endpoints: Endpoints, link: watch::Sender<Link>) -> Self {
        Self { config, endpoints, link }
    }

    /// A connection stands.
    pub(super) fn begin(&self, session: u64) {
        // what was queued for an older connection is stale: whoever sent it sends its newest state anew
        self.endpoints.queue.clear();
        self.link.send_replace(Link::Up(session));
    }

    /// A connection has ended, and with it the `last` one that there is.
    pub(super) fn end(&self, last: bool) {
        if last {
            self.link.send_replace(Link::Down);
        }
        self.endpoints.queue.clear();
        self.endpoints.waiters.abandon();
    }

    /// Runs until `shutdown`. An error means that a person must help: the cloud refused to enrol this node.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        self.run_again(&Heart::unheard(), shutdown).await
    }

    /// The same for whoever may drop it in its middle, and call it again.
    async fn run_again(&self, heart: &Heart, shutdown: CancellationToken) -> Result<(), Error> {
        if *self.link.borrow() != Link::Down {
            // the connection went with the run that was dropped
            self.end(true);
        }
        let (watcher, network) = Watcher::new();
        let begun = Instant::now();
        let mut hub = Hub {
            dialler: Dialler::new(self.endpoints.traffic.clone(), this_run()),
            redial: Redial::new(begun),
            patience: Patience::new(),
            network,
            heart,
            task: self,
        };
        tokio::select! {
            // cancel-safe: what is not acknowledged is sent again; a session says goodbye by itself
            () = watcher.run() => Ok(()),
            ended = hub.run(&shutdown) => ended,
        }
    }
}

impl Part for Task {
    async fn run(&mut self, heart: Heart, shutdown: CancellationToken) -> Result<(), PartError> {
        Ok(self.run_again(&heart, shutdown).await?)
    }
}

/// The task with what it has learned.
struct Hub<'a> {
    task: &'a Task,
    heart: &'a Heart,
    dialler: Dialler,
    redial: Redial,
    patience: Patience,
    network: Network,
}

impl Hub<'_> {
    async fn run(&mut self, shutdown: &CancellationToken) -> Result<(), Error> {
        let Some(mut identity) = self.identity(shutdown).await? else { return Ok(()) };
        let mut renewal = Renewal::new(&identity);
        let mut ready = None;
        while !shutdown.is_cancelled() {
            let dialled = match ready.take() {
                Some(dialled) => dialled,
                None => {
                    let config = &self.task.config;
                    let tls = identity.tls();
                    tokio::select! {
                        // cancel-safe: a connection half made is closed
                        () = shutdown.cancelled() => break,
                        dialled = self.dialler.dial(config, &tls, &mut self.redial, &mut self.network) => dialled,
                        // cancel-safe: a certificate that is not taken is asked for again
                        renewed = renewal.after_expiry(config, &identity) => {
                            identity = renewed;
                            renewal = Renewal::new(&identity);
                            log_renewal(enroll::keep(config, &identity));
                            continue;
                        }
                    }
                }
            };
            if let Some((renewed, dialled)) = self.serve(dialled, &identity, &mut renewal, shutdown).await {
                identity = renewed;
                renewal = Renewal::new(&identity);
                ready = Some(dialled);
            } else {
                // nodes that were cut off at one instant do not dial at one instant
                self.pause(shutdown).await;
            }
        }
        Ok(())
    }

    /// This node's certificate, enrolling first where there is none. `None`: shutdown.
    async fn identity(&mut self, shutdown: &CancellationToken) -> Result<Option<Identity>, Error> {
        let (mut faults, mut first) = (Repeated::default(), FirstRequest::default());
        loop {
            let enrolled = tokio::select! {
                // cancel-safe: enrolment that is cut off is begun anew at the next start
                () = shutdown.cancelled() => return Ok(None),
                enrolled = enroll::identity(&self.task.config, &mut first) => enrolled,
            };
            match enrolled {
                Ok(identity) => return Ok(Some(identity)),
                Err(error) if error.may_pass() => {
                    if let Some(times) = faults.count(&error.to_string(), now()) {
                        warn!(times, error = &error as &dyn std::error::Error, "not enrolled yet");
                    }
                }
                Err(error) => return Err(error.into()),
            }
            self.pause(shutdown).await;
        }
    }

    /// The wait before the next try, which a changed network ends.
    async fn pause(&mut self, shutdown: &CancellationToken) {
        let pause = self.redial.wait(rand::random(), Instant::now());
        tokio::select! {
            // cancel-safe: all hold no data
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
            () = self.network.changed() => self.redial.hope(),
        }
    }

    /// Runs the connection until it ends, or until another one stands, made with a new certificate.
    async fn serve(
        &mut self,
        Dialled { transport, server }: Dialled,
        identity: &Identity,
        renewal: &mut Renewal,
        shutdown: &CancellationToken,
    ) -> Option<(Identity, Dialled)> {
        let Task { config, endpoints, .. } = self.task;
        info!(cloud = %server, "connected");
        let begun = Instant::now();
        self.task.begin(endpoints.traffic.connected());
        let dialling = AtomicBool::new(false);
        let patience = self.patience.get();
        let received = endpoints.traffic.received();
        let session = Session { config, endpoints, patience, shutdown, heart: self.heart };
        let (dialler, network) = (&mut self.dialler, self.network.clone());
        let mut renewing = pin!(renew(config, identity, renewal, dialler, network, &dialling));
        let (ended, renewed) = tokio::select! {
            // cancel-safe: what is not acknowledged is sent again
            ended = session::run(session, transport, &mut self.network) => (ended, None),
            // cancel-safe: the future is kept, see below
            renewed = &mut renewing => (SessionEnd::Shutdown, Some(renewed)),
        };
        // the cloud ends the old session as soon as it has the new one: this end may not know yet that it has it
        let renewed = match renewed {
            None if dialling.load(Ordering::Relaxed) => timeout(OVERTAKEN, renewing).await.ok(),
            renewed => renewed,
        };
        self.task.end(renewed.is_none());
        self.patience.ended(matches!(ended, SessionEnd::Silent), begun.elapsed());
        self.redial.ended(begun, Instant::now(), endpoints.traffic.received() > received);
        self.redial.because(ended.cause());
        if renewed.is_none() && !shutdown.is_cancelled() {
            warn!(error = &ended as &dyn std::error::Error, "disconnected");
        }
        renewed
    }
}

/// This run of the agent, as the cloud tells it from others of the same name.
fn this_run() -> Instance {
    let (id, started) = (uuid::Uuid::new_v4().to_string(), jiff::Timestamp::now().round(jiff::Unit::Second));
    let started = started.map_or_else(|_| "unknown".to_owned(), |started| started.to_string());
    Instance::new(&id, &started).unwrap_or_default()
}

/// A new certificate and a connection that was made with it. The files are replaced when it works; until then the old
/// connection stays, and so does the old certificate.
async fn renew(
    config: &Config,
    identity: &Identity,
    renewal: &mut Renewal,
    dialler: &mut Dialler,
    mut network: Network,
    dialling: &AtomicBool,
) -> (Identity, Dialled) {
    loop {
        let renewed = renewal.next(config, identity).await;
        let mut redial = Redial::new(Instant::now());
        let limit = config.handshake_timeout * NEW_LINK;
        let tls = renewed.tls();
        dialling.store(true, Ordering::Relaxed);
        let dialled = timeout(limit, dialler.dial(config, &tls, &mut redial, &mut network)).await;
        dialling.store(false, Ordering::Relaxed);
        match dialled {
            Ok(dialled) => {
                log_renewal(enroll::keep(config, &renewed));
                return (renewed, dialled);
            }
            Err(_) => warn!("no connection with the new certificate; the old one stays"),
        }
    }
}

/// A certificate that cannot be written is used all the same; after a restart it is renewed again.
fn log_renewal(written: Result<(), EnrollError>) {
    match written {
        Ok(()) => info!("the node's certificate was renewed"),
        Err(error) => {
            warn!(error = &error as &dyn std::error::Error, "the new certificate could not be kept")
        }
    }
}
