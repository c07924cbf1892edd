//! The one owner of the connection: enrols, dials, runs sessions, waits, and repeats; renews the certificate when it is time.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use clock::Instant;
use componentbase::Link;
use componentbase::{Heartbeat, Part, PartError};
use limits::Repeated;
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use wire::instance::Instance;

use super::{
    Config, Error,
    dial::{CloudConnection, Dialler},
    enroll::{self, EnrollError, EnrollmentCsr, Identity, Renewal},
    liveness::SilenceLimit,
    network::{NetworkChanges, Watcher},
    redial::Redial,
    session::{self, Endpoints, Session},
    session_end::SessionEnd,
};

/// How many handshake timeouts a connection with a new certificate may take before it is given up for the time being.
const NEW_CONNECTION_TIMEOUT_FACTOR: u32 = 2;
/// How long the answer to an upgrade may take that the cloud has already acted on.
const OVERTAKEN_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The task that [`super::new`] builds.
#[derive(Debug)]
pub struct Task {
    pub(super) config: Config,
    pub(super) endpoints: Endpoints,
    link: watch::Sender<Link>,
}

impl Task {
    pub(super) fn new(config: Config, endpoints: Endpoints, link: watch::Sender<Link>) -> Self {
        Self {
            config,
            endpoints,
            link,
        }
    }

    /// Announces a new connection.
    pub(super) fn begin(&self, session: u64) {
        // messages for an older connection are stale: their senders send the newest state anew
        self.endpoints.queue.clear();
        self.link.send_replace(Link::Up(session));
    }

    /// Announces the end of a connection; `last` says that there is no other.
    pub(super) fn end(&self, last: bool) {
        if last {
            self.link.send_replace(Link::Down);
        }
        self.endpoints.queue.clear();
        self.endpoints.waiters.abandon();
    }

    /// Runs until `shutdown`. An error means that a person must help: the cloud refused to enrol this node.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        self.run_restartable(&Heartbeat::unmonitored(), shutdown)
            .await
    }

    /// Runs until `shutdown`. The future may be dropped at any point and the method called again.
    async fn run_restartable(
        &self,
        heartbeat: &Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        if *self.link.borrow() != Link::Down {
            // the connection ended with the future that was dropped
            self.end(true);
        }
        let (watcher, network) = Watcher::new();
        let begun = Instant::now();
        let mut hub = Connector {
            dialler: Dialler::new(self.endpoints.traffic.clone(), new_instance()),
            redial: Redial::new(begun),
            silence_limit: SilenceLimit::new(),
            network,
            heartbeat,
            task: self,
        };
        let watching = async {
            match self.config.in_process {
                None => watcher.run().await,
                // the network does not matter
                Some(_) => std::future::pending().await,
            }
        };
        clock::select! {
            // cancel-safe: what is not acknowledged is sent again; a session closes by itself
            () = watching => Ok(()),
            ended = hub.run(&shutdown) => ended,
        }
    }
}

impl Part for Task {
    async fn run(
        &mut self,
        heartbeat: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        Ok(self.run_restartable(&heartbeat, shutdown).await?)
    }
}

/// The state of the running task.
struct Connector<'a> {
    task: &'a Task,
    heartbeat: &'a Heartbeat,
    dialler: Dialler,
    redial: Redial,
    silence_limit: SilenceLimit,
    network: NetworkChanges,
}

impl Connector<'_> {
    async fn run(&mut self, shutdown: &CancellationToken) -> Result<(), Error> {
        let Some(mut identity) = self.identity(shutdown).await? else {
            return Ok(());
        };
        let mut renewal = Renewal::new(&identity);
        let mut ready = None;
        while !shutdown.is_cancelled() {
            let dialled = match ready.take() {
                Some(dialled) => dialled,
                None => {
                    let config = &self.task.config;
                    clock::select! {
                        // cancel-safe: an incomplete connection is closed
                        () = shutdown.cancelled() => break,
                        dialled = self.dialler.dial(config, &identity, &mut self.redial, &mut self.network) => dialled,
                        // cancel-safe: a certificate that is not taken is requested again
                        renewed = renewal.after_expiry(config, &identity) => {
                            identity = renewed;
                            renewal = Renewal::new(&identity);
                            log_renewal(enroll::keep(config, &identity));
                            continue;
                        }
                    }
                }
            };
            if let Some((renewed, dialled)) =
                self.serve(dialled, &identity, &mut renewal, shutdown).await
            {
                identity = renewed;
                renewal = Renewal::new(&identity);
                ready = Some(dialled);
            } else {
                // nodes that were cut off at one instant do not dial at one instant
                self.wait_before_retry(shutdown).await;
            }
        }
        Ok(())
    }

    /// Returns this node's certificate, after enrolment if there is none. `None` at shutdown.
    async fn identity(&mut self, shutdown: &CancellationToken) -> Result<Option<Identity>, Error> {
        let (mut faults, mut first) = (Repeated::default(), EnrollmentCsr::default());
        loop {
            let enrolled = clock::select! {
                // cancel-safe: interrupted enrolment starts again at the next start
                () = shutdown.cancelled() => return Ok(None),
                enrolled = enroll::identity(&self.task.config, &mut first) => enrolled,
            };
            match enrolled {
                Ok(identity) => return Ok(Some(identity)),
                Err(error) if error.is_retryable() => {
                    if let Some(times) = faults.count(&error.to_string(), clock::Instant::now()) {
                        warn!(
                            times,
                            error = &error as &dyn std::error::Error,
                            "failed to enroll the node; retrying"
                        );
                    }
                }
                Err(error) => return Err(error.into()),
            }
            self.wait_before_retry(shutdown).await;
        }
    }

    /// Waits before the next attempt; a changed network ends the wait.
    async fn wait_before_retry(&mut self, shutdown: &CancellationToken) {
        let pause = self.redial.wait(clock::rng().random(), Instant::now());
        clock::select! {
            // cancel-safe: all hold no data
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
            () = self.network.changed() => self.redial.reset(),
        }
    }

    /// Runs the connection until it ends, or until another one is established with a new certificate.
    async fn serve(
        &mut self,
        CloudConnection { transport, server }: CloudConnection,
        identity: &Identity,
        renewal: &mut Renewal,
        shutdown: &CancellationToken,
    ) -> Option<(Identity, CloudConnection)> {
        let Task {
            config, endpoints, ..
        } = self.task;
        if self.redial.take_outage() {
            info!(cloud = %server, "connection to CloudHub restored");
        } else {
            info!(cloud = %server, "connected to CloudHub");
        }
        let begun = Instant::now();
        self.task.begin(endpoints.traffic.count_connection());
        let dialling = AtomicBool::new(false);
        let silence_limit = self.silence_limit.get();
        let received = endpoints.traffic.received_count();
        let session = Session {
            config,
            endpoints,
            silence_limit,
            server: server.to_string(),
            shutdown,
            heartbeat: self.heartbeat,
        };
        let (dialler, network) = (&mut self.dialler, self.network.clone());
        let mut renewing = pin!(renew(
            config, identity, renewal, dialler, network, &dialling
        ));
        let (ended, renewed) = clock::select! {
            // cancel-safe: what is not acknowledged is sent again
            ended = session::run(session, transport, &mut self.network) => (ended, None),
            // cancel-safe: the future is kept, see below
            renewed = &mut renewing => (SessionEnd::Shutdown, Some(renewed)),
        };
        // the cloud ends the old session as soon as it has the new one, which this end may not know yet
        let renewed = match renewed {
            None if dialling.load(Ordering::Relaxed) => {
                timeout(OVERTAKEN_ANSWER_TIMEOUT, renewing).await.ok()
            }
            renewed => renewed,
        };
        self.task.end(renewed.is_none());
        self.silence_limit
            .record_end(matches!(ended, SessionEnd::Silent), begun.elapsed());
        self.redial.record_end(
            begun,
            Instant::now(),
            endpoints.traffic.received_count() > received,
        );
        self.redial.record_cause(ended.cause());
        if renewed.is_none() && !shutdown.is_cancelled() {
            warn!(
                error = &ended as &dyn std::error::Error,
                "connection to CloudHub lost"
            );
            self.redial.record_outage();
        }
        renewed
    }
}

/// Returns the identity of this run of the agent, by which the cloud distinguishes agents of the same name.
fn new_instance() -> Instance {
    let (id, started) = (
        clock::uuid().to_string(),
        clock::now().round(jiff::Unit::Second),
    );
    let started = started.map_or_else(|_| "unknown".to_owned(), |started| started.to_string());
    Instance::new(&id, &started).unwrap_or_default()
}

/// Returns a new certificate and a connection that was made with it. The files are replaced when it works; until then the old
/// connection and certificate stay.
async fn renew(
    config: &Config,
    identity: &Identity,
    renewal: &mut Renewal,
    dialler: &mut Dialler,
    mut network: NetworkChanges,
    dialling: &AtomicBool,
) -> (Identity, CloudConnection) {
    loop {
        let renewed = renewal.next(config, identity).await;
        let mut redial = Redial::new(Instant::now());
        let limit = config.handshake_timeout * NEW_CONNECTION_TIMEOUT_FACTOR;
        dialling.store(true, Ordering::Relaxed);
        let dialled = timeout(
            limit,
            dialler.dial(config, &renewed, &mut redial, &mut network),
        )
        .await;
        dialling.store(false, Ordering::Relaxed);
        match dialled {
            Ok(dialled) => {
                log_renewal(enroll::keep(config, &renewed));
                return (renewed, dialled);
            }
            Err(_) => {
                warn!(
                    "failed to connect with the new certificate in time; old certificate stays in use"
                )
            }
        }
    }
}

/// Logs the result. A certificate that cannot be written is used all the same; after a restart it is renewed again.
fn log_renewal(written: Result<(), EnrollError>) {
    match written {
        Ok(()) => info!("certificate of this node renewed"),
        Err(error) => {
            warn!(
                error = &error as &dyn std::error::Error,
                "failed to store the new certificate; certificate is renewed again after a restart"
            )
        }
    }
}
