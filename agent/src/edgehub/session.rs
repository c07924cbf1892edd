//! One connection, from its upgrade to its end: it is read, written and listened to at the same time, so that neither a slow
//! store nor a stalled write hides that the link is dead.

use std::time::Duration;

use tokio::{
    sync::{Notify, mpsc, watch},
    time::{MissedTickBehavior, interval, sleep_until},
};
use tokio_util::sync::CancellationToken;
use wire::{Message, Upstream};

use super::{
    Config,
    kind::Kind,
    liveness::{Liveness, Pulse},
    metered::Meter,
    network::Network,
    queue::Queue,
    rate::Rate,
    session_end::SessionEnd,
    traffic::{Direction, Traffic},
    transport::{Reader, Transport, Writer},
    waiters::Waiters,
};
use crate::rt::{Heart, now, unix_millis};

/// Saying goodbye must not hold up the end of the program.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The program's ends of the connection; they outlive it.
#[derive(Clone, Debug)]
pub(super) struct Endpoints {
    pub(super) queue: Queue,
    pub(super) inbox: mpsc::Sender<Message>,
    pub(super) waiters: Waiters,
    pub(super) traffic: Traffic,
}

/// What the parts of a session tell each other.
struct Signals {
    /// A sign of life is to be asked for.
    ask: Notify,
    /// Whether somebody reads; not while the last message waits for its place.
    listening: watch::Sender<bool>,
}

/// What a session runs with.
pub(super) struct Session<'a> {
    pub(super) config: &'a Config,
    pub(super) endpoints: &'a Endpoints,
    /// The silence after which the other end is taken for dead.
    pub(super) patience: Duration,
    pub(super) shutdown: &'a CancellationToken,
    pub(super) heart: &'a Heart,
}

/// Runs the connection until it ends.
pub(super) async fn run(session: Session<'_>, transport: Transport, network: &mut Network) -> SessionEnd {
    let Session { config, endpoints, patience, shutdown, heart } = session;
    let Transport { mut reader, mut writer, meter } = transport;
    let signals = Signals { ask: Notify::new(), listening: watch::Sender::new(true) };
    let ended = tokio::select! {
        // what has come in is seen before it is called missing
        biased;
        // cancel-safe, all: whichever wins, the session is over
        () = shutdown.cancelled() => SessionEnd::Shutdown,
        ended = read(config, &mut reader, endpoints, &signals, heart.another("reader")) => ended,
        ended = write(config, &mut writer, endpoints, &signals, heart.another("writer")) => ended,
        () = listen(meter.as_ref(), patience, &signals, network) => SessionEnd::Silent,
    };
    if matches!(ended, SessionEnd::Shutdown) {
        writer.close(CLOSE_TIMEOUT).await;
    }
    ended
}

/// Sorts messages: answers to their waiters, everything else to MetaManager.
async fn read(
    config: &Config,
    reader: &mut Reader,
    endpoints: &Endpoints,
    signals: &Signals,
    heart: Heart,
) -> SessionEnd {
    loop {
        // without a place nothing is read: the cloud is slowed down, nothing is dropped
        let place = match endpoints.inbox.try_reserve() {
            Ok(place) => place,
            Err(_) => {
                let _rest = heart.rest();
                signals.listening.send_replace(false);
                let Ok(place) = endpoints.inbox.reserve().await else { return SessionEnd::Shutdown };
                signals.listening.send_replace(true);
                place
            }
        };
        loop {
            let rest = heart.rest();
            let read = reader.next(config.max_message).await;
            drop(rest);
            let (message, size) = match read {
                Ok(read) => read,
                Err(ended) => return ended,
            };
            endpoints.traffic.message(Direction::Down, Kind::of(&message), size);
            let message = if message.header.parent_msg_id.is_empty() {
                message
            } else {
                match endpoints.waiters.deliver(message) {
                    Ok(()) => continue,
                    // nobody waits any more; MetaManager still stores and acknowledges what it carries
                    Err(message) => *message,
                }
            };
            place.send(message);
            break;
        }
    }
}

/// Writes what waits, keepalives and questions for a sign of life.
async fn write(
    config: &Config,
    writer: &mut Writer,
    endpoints: &Endpoints,
    signals: &Signals,
    heart: Heart,
) -> SessionEnd {
    let mut rate = Rate::new(config.qps, config.burst, now());
    let mut keepalive = interval(config.heartbeat);
    keepalive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let rest = heart.rest();
        let message = tokio::select! {
            biased;
            // cancel-safe: a question not asked yet stays
            () = signals.ask.notified() => None,
            // cancel-safe: an interval keeps its ticks
            _ = keepalive.tick() => Some(Upstream::keepalive().into_message(unix_millis())),
            // cancel-safe: a message is taken from the queue only when this arm wins
            message = endpoints.queue.next(&mut rate) => Some(message),
        };
        drop(rest);
        heart.beat_for(config.write_deadline);
        let written = match &message {
            None => writer.ping(config.write_deadline).await,
            Some(message) => writer.send(message, config.write_deadline).await.map(|size| {
                endpoints.traffic.message(Direction::Up, Kind::of(message), size);
                endpoints.waiters.written(&message.header.msg_id);
            }),
        };
        if let Err(ended) = written {
            return ended;
        }
    }
}

/// Endpoints when the other end has been silent for too long.
async fn listen(meter: Option<&Meter>, patience: Duration, signals: &Signals, network: &mut Network) {
    let Some(meter) = meter else { return std::future::pending().await };
    let mut listening = signals.listening.subscribe();
    let mut liveness = Liveness::new(patience, now());
    loop {
        if !*listening.borrow_and_update() {
            // the sender lives as long as this session
            let _ = listening.changed().await;
            liveness.listened(now());
            continue;
        }
        match liveness.check(meter.heard(), now()) {
            Pulse::Dead => return,
            Pulse::Ask => ask(meter, signals),
            Pulse::Wait(until) => tokio::select! {
                // cancel-safe: all hold no data
                () = sleep_until(until.into()) => {}
                _ = listening.changed() => liveness.listened(now()),
                () = network.changed() => {
                    if liveness.doubt(now()) {
                        ask(meter, signals);
                    }
                }
            },
        }
    }
}

fn ask(meter: &Meter, signals: &Signals) {
    // before the question is written: its answer cannot come sooner
    meter.asking();
    signals.ask.notify_one();
}
