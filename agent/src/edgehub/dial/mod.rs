//! Dialling: one server after the other, and again, until one answers.
//!
//! An attempt that hangs does not hold up the next: a new one begins beside it, so that a way that is open again is found at
//! once. So it is when the network has changed: most changes are none of the way to the cloud, and what is under way there goes
//! on. Attempts that were overtaken are dropped with the first success.

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
    time::{Duration, Instant},
};

use futures::{
    FutureExt,
    future::{BoxFuture, select_all},
};
use rustls::ClientConfig;
use tokio::{
    sync::Mutex,
    time::{sleep, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite;
use tracing::warn;
use wire::instance::Instance;

pub use self::proxy::{Proxy, ProxyError};
use super::{
    Config,
    liveness::Patience,
    metered::{Meter, Metered},
    network::Network,
    redial::{Cause, Redial},
    traffic::Traffic,
    transport::Transport,
};
use crate::{
    config::{HostPort as Target, Transport as Carrier},
    rt::{Repeated, now},
};

/// An attempt that hangs for twice the time that the last success took, and for no less than this, gets company.
const HANGS: Duration = Duration::from_millis(300);
/// … for this, where there was no success yet …
const HANGS_AT_FIRST: Duration = Duration::from_secs(1);
/// … and for no more than this. Hints of the network are no reason to begin more often than each [`HANGS`].
const HANGS_AT_MOST: Duration = Duration::from_secs(5);
/// One that the server has taken gets company only after so much silence as would end a connection: a cloud to which all its nodes
/// return at once answers late, and would answer later still were each of them to ask twice.
const TAKEN: Duration = Patience::USUAL;
/// Attempts at one time; the oldest one makes room. Few enough for a small node, and enough that each has several seconds with
/// a cloud to which all its nodes return at once.
const MAX_CONCURRENT_ATTEMPTS: usize = 16;

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The configured address has no host or port.
    #[error("{0} is not host:port; check modules.edgeHub.websocket.server")]
    Address(String),
    /// Nobody listens there, or the network does not reach it.
    #[error("cannot connect to {0}; check that the cloud runs and modules.edgeHub.websocket.server names it")]
    Connect(String, #[source] std::io::Error),
    /// The two ends do not trust each other.
    #[error(
        "TLS with {0} failed; check that tlsCaFile is the cloud's CA and that this node's certificate is in its validity"
    )]
    Tls(String, #[source] std::io::Error),
    /// The server is of another cloud.
    #[error(
        "what answers at {0} is another cloud than the one that this node joined: its certificate is not of the CA that this node \
         trusts; if the cloud was set up anew, run `edge-agent reset` and join again"
    )]
    OtherCloud(String, #[source] std::io::Error),
    /// The server refused the upgrade.
    #[error("{0} refused this node: {1}")]
    Refused(String, String),
    /// The server does not let this node in with its certificate.
    #[error("{0} refused this node: {1}; it is asked less and less often from now on, at last once a minute")]
    Forbidden(String, String),
    /// Another agent of this node's name is connected.
    #[error("{0} refused this node: {1}; a name is one machine's: give one of the two another, or end one")]
    Taken(String, String),
    /// The upgrade failed otherwise.
    #[error("the WebSocket upgrade with {0} failed")]
    Upgrade(String, #[source] Box<tungstenite::Error>),
    /// QUIC failed.
    #[error(
        "no QUIC connection to {0}; check that cloudsim listens there (--quic-port), and that UDP passes"
    )]
    Quic(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// It took too long.
    #[error("no connection to {0} within {1:?}")]
    Timeout(String, Duration),
}

impl DialError {
    /// What a failed TLS handshake with the server says.
    pub(super) fn of_handshake(server: String, error: std::io::Error) -> Self {
        use rustls::CertificateError::{BadSignature, UnknownIssuer};
        let why = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match why {
            // a CA that was made anew has the same name and another key
            Some(rustls::Error::InvalidCertificate(BadSignature | UnknownIssuer)) => {
                Self::OtherCloud(server, error)
            }
            _ => Self::Tls(server, error),
        }
    }

    fn cause(&self) -> Cause {
        let was_said = match self {
            Self::Taken(..) => return Cause::Rival,
            Self::Forbidden(..) => return Cause::Refused,
            Self::Connect(_, error) => {
                matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)
            }
            Self::Tls(..) | Self::OtherCloud(..) | Self::Refused(..) | Self::Upgrade(..) => true,
            Self::Address(_) | Self::Quic(..) | Self::Timeout(..) => false,
        };
        if was_said { Cause::Cloud } else { Cause::Way }
    }
}

/// A connection, and which server it leads to.
pub(super) struct Dialled {
    pub(super) transport: Transport,
    pub(super) server: Target,
}

/// Goes round the servers; the one that answered last is asked first.
#[derive(Debug)]
pub(super) struct Dialler {
    next: usize,
    hangs: Duration,
    turn: Mutex<()>,
    traffic: Traffic,
    /// This run of the agent.
    own: Instance,
}

/// Whether the server has taken an attempt's connection.
type Taken = Arc<AtomicBool>;

/// One attempt's number, when it began, and what became of it.
type Outcome = (usize, Instant, Result<Dialled, DialError>);
type Attempt<'a> = BoxFuture<'a, Outcome>;

/// What ended a wait.
enum Step {
    Found(usize, Instant, Box<Dialled>),
    Failed(Cause),
    Time,
    /// The network is another one: what is under way may be lost.
    Network,
}

impl Dialler {
    pub(super) fn new(traffic: Traffic, own: Instance) -> Self {
        Self { next: 0, hangs: HANGS_AT_FIRST, turn: Mutex::default(), traffic, own }
    }

    /// Dials until a connection is there. Waits between attempts are `redial`'s; a change of the network ends them.
    pub(super) async fn dial(
        &mut self,
        config: &Config,
        tls: &Arc<ClientConfig>,
        redial: &mut Redial,
        network: &mut Network,
    ) -> Dialled {
        let first = self.next;
        let (number, begun, dialled) = {
            let (this, hints) = (&*self, network.clone());
            let begin =
                |number, taken| this.attempt(config, number, tls.clone(), taken, hints.later()).boxed();
            rounds(config.servers.len().max(1), first, self.hangs, begin, redial, network).await
        };
        self.next = number;
        self.hangs = (begun.elapsed() * 2).clamp(HANGS, HANGS_AT_MOST);
        *dialled
    }

    async fn attempt(
        &self,
        config: &Config,
        number: usize,
        tls: Arc<ClientConfig>,
        taken: Taken,
        network: Network,
    ) -> Outcome {
        let begun = Instant::now();
        let server = &config.servers[number % config.servers.len().max(1)];
        let connecting = self.connect(config, server, tls, &taken, network);
        let connected = timeout(config.handshake_timeout, connecting).await;
        let connected = connected
            .unwrap_or_else(|_| Err(DialError::Timeout(server.to_string(), config.handshake_timeout)));
        (number, begun, connected.map(|transport| Dialled { transport, server: server.clone() }))
    }

    async fn connect(
        &self,
        config: &Config,
        server: &Target,
        tls: Arc<ClientConfig>,
        taken: &AtomicBool,
        network: Network,
    ) -> Result<Transport, DialError> {
        match config.transport {
            Carrier::WebSocket => {
                let meter = Meter::new(self.traffic.clone(), Instant::now());
                let tcp = websocket::reach(config, server).await?;
                taken.store(true, Ordering::Relaxed);
                let stream = Metered::new(tcp, meter.clone());
                let (socket, compressed) =
                    websocket::connect(config, server, tls, stream, &self.own, (&self.turn, network)).await?;
                meter.alive();
                Ok(Transport::websocket(socket, meter, compressed))
            }
            Carrier::Quic => {
                let stream = quic::connect(config, server, tls, self.traffic.clone(), &self.turn).await?;
                Ok(Transport::quic(stream, config.max_message))
            }
        }
    }
}

/// Makes `step` when its turn has come. It is given up where the network has changed since the attempt began, and the step takes
/// longer than [`TAKEN`] after that: its way may be gone, and it would keep the turn from those that go another one.
async fn in_turn<T>(turn: &Mutex<()>, mut network: Network, step: impl Future<Output = T>) -> Option<T> {
    let _turn = turn.lock().await;
    let lost = async {
        network.changed().await;
        sleep(TAKEN).await;
    };
    tokio::select! {
        biased;
        // cancel-safe, both: what is given up is made by another attempt
        done = step => Some(done),
        () = lost => None,
    }
}

/// Begins attempts, numbered from `number` on, until one of them succeeds. Each server is asked before the first wait.
async fn rounds<'a>(
    servers: usize,
    mut number: usize,
    hangs: Duration,
    begin: impl Fn(usize, Taken) -> Attempt<'a>,
    redial: &mut Redial,
    network: &mut Network,
) -> (usize, Instant, Box<Dialled>) {
    let mut pending = VecDeque::new();
    let (mut asked, mut faults) = (0, Repeated::default());
    // the earliest time at which a hint of the network begins an attempt
    let mut hinted = now();
    loop {
        if pending.len() >= MAX_CONCURRENT_ATTEMPTS {
            pending.pop_front();
        }
        let (begun, taken) = (now(), Taken::default());
        pending.push_back(begin(number, taken.clone()));
        (number, asked) = (number.wrapping_add(1), asked + 1);
        let mut until = begun + hangs;
        let mut waits = false;
        loop {
            match step(&mut pending, until, network, &mut faults).await {
                Step::Found(number, begun, dialled) => return (number, begun, dialled),
                Step::Failed(_) if waits => continue,
                // others than this server are asked meanwhile
                Step::Time
                    if !waits
                        && asked >= servers
                        && until < begun + TAKEN
                        && taken.load(Ordering::Relaxed) =>
                {
                    until = begun + TAKEN;
                    continue;
                }
                step @ (Step::Failed(_) | Step::Time) if !waits && asked >= servers => {
                    (waits, asked) = (true, 0);
                    redial.because(if let Step::Failed(cause) = step { cause } else { Cause::Way });
                    until = now() + redial.wait(rand::random(), now());
                    continue;
                }
                Step::Failed(_) | Step::Time => {}
                Step::Network => {
                    redial.hope();
                    asked = 0;
                    until = until.min(hinted.max(now()));
                    hinted = until + HANGS;
                    continue;
                }
            }
            break;
        }
    }
}

/// Waits for whatever comes first. Cancel-safe: attempts stay where they are.
async fn step(
    pending: &mut VecDeque<Attempt<'_>>,
    until: Instant,
    network: &mut Network,
    faults: &mut Repeated,
) -> Step {
    let any = async {
        if pending.is_empty() {
            return std::future::pending().await;
        }
        let (outcome, index, _) = select_all(pending.iter_mut()).await;
        (index, outcome)
    };
    let (index, (number, begun, dialled)) = tokio::select! {
        // cancel-safe: an attempt not returned goes on
        done = any => done,
        // cancel-safe: both hold no data
        () = sleep_until(until.into()) => return Step::Time,
        () = network.changed() => return Step::Network,
    };
    drop(pending.remove(index));
    match dialled {
        Ok(dialled) => Step::Found(number, begun, Box::new(dialled)),
        Err(error) => {
            if let Some(times) = faults.count(&error.to_string(), now()) {
                warn!(times, error = &error as &dyn std::error::Error, "no connection to the cloud yet");
            }
            Step::Failed(error.cause())
        }
    }
}

#[cfg(test)]
mod tests;
