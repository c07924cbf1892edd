//! Dials the servers one after the other, and again, until one answers.
//!
//! An attempt that hangs does not delay the next: a new one starts beside it, so that a route that works again is found at
//! once. The same happens when the network has changed: most changes do not affect the route to the cloud, and running attempts
//! go on. The remaining attempts are dropped with the first success.

mod proxy;
pub(super) mod quic;
pub(super) mod tcp;
pub(super) mod websocket;

use std::{
    collections::VecDeque,
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use clock::Instant;
use futures::{
    FutureExt,
    future::{BoxFuture, select_all},
};
use limits::Repeated;
use tokio::{
    sync::Mutex,
    time::{sleep, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite;
use tracing::warn;
use wire::{instance::Instance, text::with_causes};

pub use self::proxy::{Proxy, ProxyError};
use super::{
    Config,
    enroll::{EnrollError, Identity},
    liveness::SilenceLimit,
    metered::{Meter, Metered},
    network::NetworkChanges,
    redial::{Cause, Redial},
    stream::Stream,
    traffic::Traffic,
    transport::Transport,
    unreached::unreached_cure,
};
use crate::{
    config::{HostPort as Target, Transport as Carrier},
    tls::CertificateFault,
};

/// The setting with the servers.
const SETTING: &str = "modules.edgeHub.websocket.server";
/// The shortest time after which a second attempt starts beside a hanging one. The time is twice that of the last success …
const MIN_ATTEMPT_DELAY: Duration = Duration::from_millis(300);
/// … this, if there was no success yet …
const INITIAL_ATTEMPT_DELAY: Duration = Duration::from_secs(1);
/// … and at most this. Hints of the network do not start attempts more often than every [`MIN_ATTEMPT_DELAY`].
const MAX_ATTEMPT_DELAY: Duration = Duration::from_secs(5);
/// The delay beside an attempt that the server has accepted: the silence that would end a connection. A cloud to which all its
/// nodes return at once answers late, and would answer even later if each of them dialled twice.
const ACCEPTED_ATTEMPT_DELAY: Duration = SilenceLimit::DEFAULT;
/// The most concurrent attempts; beyond it the oldest is dropped. Few enough for a small node, and enough that each has several
/// seconds with a cloud to which all its nodes return at once.
const MAX_CONCURRENT_ATTEMPTS: usize = 16;

/// Why a connection could not be established.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The configured address has no host or port.
    #[error("{0} is not host:port; check modules.edgeHub.websocket.server")]
    Address(String),
    /// Nothing listens there, or the network does not reach it.
    #[error("cannot connect to {0}: {1}; {cure}", cure = unreached_cure(.1, .0, SETTING))]
    Connect(String, std::io::Error),
    /// The two ends do not trust each other.
    #[error(
        "TLS with {0} failed: {1}; check that tlsCaFile is the cloud's CA and that the cloud has issued this node's certificate"
    )]
    Tls(String, std::io::Error),
    /// A certificate is not valid at this time.
    #[error("cannot connect to {0}: {1}")]
    Certificate(String, CertificateFault),
    /// The server belongs to another cloud.
    #[error(
        "the server at {0} is not the cloud that this node joined: this node does not trust the CA of its certificate; if the cloud was reinstalled, run `edge-agent reset` and join again; if a proxy or firewall opens TLS connections, exempt this server"
    )]
    OtherCloud(String),
    /// The server refused the upgrade.
    #[error("{0} refused this node: {1}")]
    Refused(String, String),
    /// The server does not accept this node's certificate.
    #[error("{0} refused this node: {1}; retrying with growing delays, up to one minute")]
    Forbidden(String, String),
    /// Another agent of this node's name is connected.
    #[error(
        "{0} refused this node: {1}; two machines use the same node name; rename or stop one of them"
    )]
    NameInUse(String, String),
    /// The server, or something between, ended the connection before it was established.
    #[error(
        "{0} closed the connection during the handshake; check that this is CloudHub's address, and that no proxy or firewall closes \
         connections"
    )]
    Closed(String),
    /// The upgrade failed otherwise.
    #[error(
        "the WebSocket upgrade with {0} failed: {1}; check that this is CloudHub's address, and that no proxy changes the request"
    )]
    Upgrade(String, Box<tungstenite::Error>),
    /// QUIC failed.
    #[error(
        "no QUIC connection to {0}: {why}; check that cloudsim listens there (--quic-port), and that no firewall blocks UDP",
        why = with_causes(&**.1)
    )]
    Quic(String, Box<dyn std::error::Error + Send + Sync>),
    /// The attempt took too long.
    #[error("no connection to {0} within {1:?}")]
    Timeout(String, Duration),
}

impl DialError {
    /// Converts the error of a TLS handshake with the server.
    pub(super) fn of_handshake(server: String, error: std::io::Error) -> Self {
        if let Some(fault) = CertificateFault::find(&error) {
            return Self::Certificate(server, fault);
        }
        let why = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match why {
            Some(rustls::Error::InvalidCertificate(_)) => Self::OtherCloud(server),
            _ if error.kind() == ErrorKind::UnexpectedEof => Self::Closed(server),
            _ => Self::Tls(server, error),
        }
    }

    /// Converts the error of unusable credentials.
    fn tls(server: &Target, error: EnrollError) -> Self {
        Self::Tls(server.to_string(), std::io::Error::other(error))
    }

    fn cause(&self) -> Cause {
        let was_said = match self {
            Self::NameInUse(..) => return Cause::NameConflict,
            Self::Forbidden(..) => return Cause::Refused,
            Self::Connect(_, error) => {
                matches!(
                    error.kind(),
                    ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
                )
            }
            Self::Tls(..)
            | Self::Certificate(..)
            | Self::OtherCloud(..)
            | Self::Refused(..)
            | Self::Closed(_)
            | Self::Upgrade(..) => true,
            Self::Address(_) | Self::Quic(..) | Self::Timeout(..) => false,
        };
        if was_said {
            Cause::Cloud
        } else {
            Cause::Network
        }
    }
}

/// An established connection and its server.
pub(super) struct CloudConnection {
    pub(super) transport: Transport,
    pub(super) server: Target,
}

/// Dials the servers in turn, starting with the one that answered last.
#[derive(Debug)]
pub(super) struct Dialler {
    next: usize,
    attempt_delay: Duration,
    upgrade_lock: Mutex<()>,
    traffic: Traffic,
    /// Identifies this run of the agent.
    instance: Instance,
}

/// Whether the server has accepted the TCP connection of an attempt.
type Accepted = Arc<AtomicBool>;

/// The number of an attempt, its start, and its result.
type AttemptResult = (usize, Instant, Result<CloudConnection, DialError>);
type Attempt<'a> = BoxFuture<'a, AttemptResult>;

/// What ended a wait.
enum DialEvent {
    Connected(usize, Instant, Box<CloudConnection>),
    Failed(Cause),
    Timer,
    /// The network has changed: running attempts may be lost.
    NetworkChanged,
}

impl Dialler {
    pub(super) fn new(traffic: Traffic, instance: Instance) -> Self {
        Self {
            next: 0,
            attempt_delay: INITIAL_ATTEMPT_DELAY,
            upgrade_lock: Mutex::default(),
            traffic,
            instance,
        }
    }

    /// Dials until a connection is established. `redial` has the waits between attempts; a change of the network ends a wait.
    pub(super) async fn dial(
        &mut self,
        config: &Config,
        identity: &Identity,
        redial: &mut Redial,
        network: &mut NetworkChanges,
    ) -> CloudConnection {
        let first = self.next;
        let (number, begun, dialled) = {
            let (this, hints) = (&*self, network.clone());
            let begin = |number, accepted| {
                this.attempt(config, number, identity, accepted, hints.subscribe())
                    .boxed()
            };
            // boxed: the connection outlives it by far
            let dialling = dial_until_connected(
                config.servers.len().max(1),
                first,
                self.attempt_delay,
                begin,
                redial,
                network,
            );
            Box::pin(dialling).await
        };
        self.next = number;
        self.attempt_delay = (begun.elapsed() * 2).clamp(MIN_ATTEMPT_DELAY, MAX_ATTEMPT_DELAY);
        *dialled
    }

    async fn attempt(
        &self,
        config: &Config,
        number: usize,
        identity: &Identity,
        accepted: Accepted,
        network: NetworkChanges,
    ) -> AttemptResult {
        let begun = Instant::now();
        let server = &config.servers[number % config.servers.len().max(1)];
        let connecting = self.connect(config, server, identity, &accepted, network);
        let connected = timeout(config.handshake_timeout, connecting).await;
        let connected = connected.unwrap_or_else(|_| {
            Err(DialError::Timeout(
                server.to_string(),
                config.handshake_timeout,
            ))
        });
        (
            number,
            begun,
            connected.map(|transport| CloudConnection {
                transport,
                server: server.clone(),
            }),
        )
    }

    async fn connect(
        &self,
        config: &Config,
        server: &Target,
        identity: &Identity,
        accepted: &AtomicBool,
        network: NetworkChanges,
    ) -> Result<Transport, DialError> {
        let tls = || {
            identity
                .tls()
                .map_err(|error| DialError::tls(server, error))
        };
        match (&config.in_process, config.transport) {
            (in_process, carrier) if in_process.is_some() || carrier == Carrier::WebSocket => {
                let meter = Meter::new(self.traffic.clone(), clock::Instant::now());
                let stream: Box<dyn Stream> = match in_process {
                    Some(link) => {
                        let stream = websocket::connect_in_process(link, server).await?;
                        Box::new(Metered::new(stream, meter.clone()))
                    }
                    None => {
                        let tcp = websocket::connect_tcp(config, server).await?;
                        accepted.store(true, Ordering::Relaxed);
                        let stream = Metered::new(tcp, meter.clone());
                        Box::new(websocket::connect_tls(server, tls()?, stream).await?)
                    }
                };
                let upgraded = websocket::upgrade(
                    config,
                    server,
                    stream,
                    &self.instance,
                    (&self.upgrade_lock, network),
                )
                .await?;
                meter.record_activity();
                let websocket::Upgraded {
                    socket,
                    cut,
                    compressed,
                } = upgraded;
                Ok(Transport::websocket(socket, cut, meter, compressed))
            }
            _ => {
                let stream = quic::connect(
                    config,
                    server,
                    tls()?,
                    self.traffic.clone(),
                    &self.upgrade_lock,
                )
                .await?;
                Ok(Transport::quic(stream, config.max_message))
            }
        }
    }
}

/// Runs `next_event` under the lock. It is given up if the network has changed since the attempt started and the step takes longer
/// than [`ACCEPTED_ATTEMPT_DELAY`] after that: its route may be gone, and it would block attempts on another one.
async fn with_upgrade_lock<T>(
    upgrade_lock: &Mutex<()>,
    mut network: NetworkChanges,
    step: impl Future<Output = T>,
) -> Option<T> {
    let _lock = upgrade_lock.lock().await;
    let lost = async {
        network.changed().await;
        sleep(ACCEPTED_ATTEMPT_DELAY).await;
    };
    clock::select! {
        biased;
        // cancel-safe: another attempt repeats what is given up
        done = step => Some(done),
        () = lost => None,
    }
}

/// Starts attempts, numbered from `number` on, until one of them succeeds. Each server is dialled before the first wait.
async fn dial_until_connected<'a>(
    servers: usize,
    mut number: usize,
    attempt_delay: Duration,
    begin: impl Fn(usize, Accepted) -> Attempt<'a>,
    redial: &mut Redial,
    network: &mut NetworkChanges,
) -> (usize, Instant, Box<CloudConnection>) {
    let mut pending = VecDeque::new();
    let (mut asked, mut faults) = (0, Repeated::default());
    // the earliest time at which a hint of the network starts an attempt
    let mut hinted = clock::Instant::now();
    loop {
        if pending.len() >= MAX_CONCURRENT_ATTEMPTS {
            pending.pop_front();
        }
        let (begun, accepted) = (clock::Instant::now(), Accepted::default());
        pending.push_back(begin(number, accepted.clone()));
        (number, asked) = (number.wrapping_add(1), asked + 1);
        let mut until = begun + attempt_delay;
        let mut waits = false;
        loop {
            match next_event(&mut pending, until, network, &mut faults).await {
                DialEvent::Connected(number, begun, dialled) => {
                    if faults.recover() {
                        redial.record_outage();
                    }
                    return (number, begun, dialled);
                }
                DialEvent::Failed(_) if waits => continue,
                // other servers are dialled meanwhile
                DialEvent::Timer
                    if !waits
                        && asked >= servers
                        && until < begun + ACCEPTED_ATTEMPT_DELAY
                        && accepted.load(Ordering::Relaxed) =>
                {
                    until = begun + ACCEPTED_ATTEMPT_DELAY;
                    continue;
                }
                step @ (DialEvent::Failed(_) | DialEvent::Timer) if !waits && asked >= servers => {
                    (waits, asked) = (true, 0);
                    redial.record_cause(if let DialEvent::Failed(cause) = step {
                        cause
                    } else {
                        Cause::Network
                    });
                    until = clock::Instant::now()
                        + redial.wait(clock::rng().random(), clock::Instant::now());
                    continue;
                }
                DialEvent::Failed(_) | DialEvent::Timer => {}
                DialEvent::NetworkChanged => {
                    redial.reset();
                    asked = 0;
                    until = until.min(hinted.max(clock::Instant::now()));
                    hinted = until + MIN_ATTEMPT_DELAY;
                    continue;
                }
            }
            break;
        }
    }
}

/// Waits for the next event. Cancel-safe: attempts stay where they are.
async fn next_event(
    pending: &mut VecDeque<Attempt<'_>>,
    until: Instant,
    network: &mut NetworkChanges,
    faults: &mut Repeated,
) -> DialEvent {
    let any = async {
        if pending.is_empty() {
            return std::future::pending().await;
        }
        let (outcome, index, _) = select_all(pending.iter_mut()).await;
        (index, outcome)
    };
    let (index, (number, begun, dialled)) = clock::select! {
        // cancel-safe: an attempt that is not returned goes on
        done = any => done,
        // cancel-safe: both hold no data
        () = sleep_until(until) => return DialEvent::Timer,
        () = network.changed() => return DialEvent::NetworkChanged,
    };
    drop(pending.remove(index));
    match dialled {
        Ok(dialled) => DialEvent::Connected(number, begun, Box::new(dialled)),
        Err(error) => {
            if let Some(times) = faults.count(&error.to_string(), clock::Instant::now()) {
                warn!(
                    times,
                    error = &error as &dyn std::error::Error,
                    "failed to connect to CloudHub; retrying"
                );
            }
            DialEvent::Failed(error.cause())
        }
    }
}

#[cfg(test)]
mod tests;
