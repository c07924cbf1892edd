//! One connection from its upgrade to its end: reads, writes and liveness checks run concurrently, so that neither a slow store
//! nor a stalled write hides that the link is dead.

use std::time::Duration;

use componentbase::Heartbeat;
use limits::Rate;
use record::{ConnectionRecorder, Side};
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{MissedTickBehavior, interval, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use wire::{Message, Upstream, lane::needs_ack, session, text::printable_short};

use super::{
    Config,
    kind::Kind,
    liveness::{Liveness, LivenessAction},
    metered::Meter,
    network::NetworkChanges,
    queue::Queue,
    session_end::SessionEnd,
    traffic::{Direction, Traffic},
    transport::{Reader, Received, Sent, TooLarge, Transport, Writer},
    waiters::Waiters,
};

/// How long the closing handshake may delay the end of the program.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The program's ends of the connection; they outlive it.
#[derive(Clone, Debug)]
pub(super) struct Endpoints {
    pub(super) queue: Queue,
    pub(super) inbox: mpsc::Sender<Box<Message>>,
    pub(super) waiters: Waiters,
    pub(super) traffic: Traffic,
}

/// The signals between the tasks of a session.
struct Signals {
    /// A ping has to be sent.
    ping: Notify,
    /// Whether the connection is being read; not while the last message waits for space in the inbox.
    listening: watch::Sender<bool>,
}

/// What a session needs.
pub(super) struct Session<'a> {
    pub(super) config: &'a Config,
    pub(super) endpoints: &'a Endpoints,
    /// The silence that ends the connection.
    pub(super) silence_limit: Duration,
    /// The address of the cloud.
    pub(super) server: String,
    pub(super) shutdown: &'a CancellationToken,
    pub(super) heartbeat: &'a Heartbeat,
}

/// Runs the connection until it ends.
pub(super) async fn run(
    this: Session<'_>,
    transport: Transport,
    network: &mut NetworkChanges,
) -> SessionEnd {
    let Session {
        config,
        endpoints,
        silence_limit,
        server,
        shutdown,
        heartbeat,
    } = this;
    let Transport {
        mut reader,
        mut writer,
        meter,
    } = transport;
    let recorder = connect(config, &reader, server);
    let signals = Signals {
        ping: Notify::new(),
        listening: watch::Sender::new(true),
    };
    let ended = clock::select! {
        // received data is handled before the connection is declared dead
        biased;
        // cancel-safe: whichever wins, the session is over
        () = shutdown.cancelled() => SessionEnd::Shutdown,
        ended = read(config, (&mut reader, &recorder), endpoints, &signals, heartbeat.for_loop("reader")) => ended,
        ended = write(config, (&mut writer, &recorder), endpoints, &signals, heartbeat.for_loop("writer")) => ended,
        () = watch_liveness(meter.as_ref(), silence_limit, &signals, network) => SessionEnd::Silent,
    };
    if matches!(ended, SessionEnd::Shutdown) {
        writer.close(CLOSE_TIMEOUT).await;
    }
    ended
}

/// Records the new connection.
fn connect(config: &Config, reader: &Reader, server: String) -> ConnectionRecorder {
    let transport = match reader {
        Reader::WebSocket(_) => record::Transport::WebSocket,
        Reader::Quic(..) => record::Transport::Quic,
    };
    let headers = [
        (session::NODE_HEADER, config.node_name.clone()),
        (session::PROJECT_HEADER, config.project_id.clone()),
        (session::USE_HEADER, session::USE_MESSAGES.to_owned()),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value));
    config
        .recorder
        .connect(transport, &config.node_name, &server, headers.into())
}

/// Dispatches messages: answers to their requests, all others to MetaManager.
async fn read(
    config: &Config,
    (reader, recorder): (&mut Reader, &ConnectionRecorder),
    endpoints: &Endpoints,
    signals: &Signals,
    heartbeat: Heartbeat,
) -> SessionEnd {
    loop {
        // without space in the inbox nothing is read: the cloud is slowed down, and nothing is dropped
        let place = match endpoints.inbox.try_reserve() {
            Ok(place) => place,
            Err(_) => {
                let _rest = heartbeat.idle();
                signals.listening.send_replace(false);
                let Ok(place) = endpoints.inbox.reserve().await else {
                    return SessionEnd::Shutdown;
                };
                signals.listening.send_replace(true);
                place
            }
        };
        loop {
            let rest = heartbeat.idle();
            let read = reader.next(config.max_message).await;
            drop(rest);
            let (message, size) = match read {
                Ok(Received::Message(message, size)) => (message, size),
                Ok(Received::TooLarge(message)) => {
                    reject(config, &endpoints.queue, message);
                    continue;
                }
                Err(ended) => return ended,
            };
            endpoints
                .traffic
                .message(Direction::Down, Kind::of(&message), size);
            recorder.message(Side::Cloud, &message, size);
            let message = if message.header.parent_msg_id.is_empty() {
                message
            } else {
                match endpoints.waiters.deliver(message) {
                    Ok(()) => continue,
                    // the request has timed out; MetaManager still stores and acknowledges the content
                    Err(message) => *message,
                }
            };
            place.send(Box::new(message));
            break;
        }
    }
}

/// Rejects a message that is larger than this agent accepts, and continues with the next. It is acknowledged if the cloud waits for that:
/// it would otherwise come again for ever, and the protocol has no other answer.
fn reject(config: &Config, queue: &Queue, TooLarge { size, head }: TooLarge) {
    let resource = head
        .as_ref()
        .map_or("unknown", |head| head.route.resource.as_str());
    warn!(
        resource = printable_short(resource),
        bytes = size,
        limit = config.max_message,
        "message from the cloud is too large; message rejected, stored object unchanged"
    );
    if let Some(head) = head.filter(needs_ack) {
        // without room it comes again
        queue.offer(head.acknowledgement(clock::unix_millis()));
    }
}

/// Writes queued messages, keepalives and pings.
async fn write(
    config: &Config,
    (writer, recorder): (&mut Writer, &ConnectionRecorder),
    endpoints: &Endpoints,
    signals: &Signals,
    heartbeat: Heartbeat,
) -> SessionEnd {
    let mut rate = Rate::new(config.qps, config.burst, clock::Instant::now());
    let mut keepalive = interval(config.heartbeat);
    keepalive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let rest = heartbeat.idle();
        let message = clock::select! {
            biased;
            // cancel-safe: a ping that was not sent yet stays due
            () = signals.ping.notified() => None,
            // cancel-safe: an interval keeps its ticks
            _ = keepalive.tick() => Some(Upstream::keepalive().into_message(clock::unix_millis())),
            // cancel-safe: a message is taken from the queue only when this arm wins
            message = endpoints.queue.next(&mut rate) => Some(message),
        };
        drop(rest);
        heartbeat.beat_for(config.write_deadline);
        let written = match &message {
            None => writer.ping(config.write_deadline).await,
            Some(message) => writer
                .send(message, config.max_message, config.write_deadline)
                .await
                .map(|sent| match sent {
                    Sent::Written(size) => {
                        endpoints
                            .traffic
                            .message(Direction::Up, Kind::of(message), size);
                        recorder.message(Side::Edge, message, size);
                        endpoints.waiters.record_written(&message.header.msg_id);
                    }
                    Sent::TooLarge(bytes) => warn!(
                        resource = printable_short(&message.route.resource),
                        bytes,
                        limit = config.max_message,
                        "failed to send message: it is larger than the cloud accepts"
                    ),
                }),
        };
        if let Err(ended) = written {
            return ended;
        }
    }
}

/// Returns when the other end has been silent for too long.
async fn watch_liveness(
    meter: Option<&Meter>,
    silence_limit: Duration,
    signals: &Signals,
    network: &mut NetworkChanges,
) {
    let Some(meter) = meter else {
        return std::future::pending().await;
    };
    let mut listening = signals.listening.subscribe();
    let mut liveness = Liveness::new(silence_limit, clock::Instant::now());
    loop {
        if !*listening.borrow_and_update() {
            // the sender lives as long as this session
            let _ = listening.changed().await;
            liveness.resume(clock::Instant::now());
            continue;
        }
        match liveness.check(meter.last_received(), clock::Instant::now()) {
            LivenessAction::Dead => return,
            LivenessAction::Ping => ping(meter, signals),
            LivenessAction::Wait(until) => clock::select! {
                // cancel-safe: all hold no data
                () = sleep_until(until) => {}
                _ = listening.changed() => liveness.resume(clock::Instant::now()),
                () = network.changed() => {
                    if liveness.ping_early(clock::Instant::now()) {
                        ping(meter, signals);
                    }
                }
            },
        }
    }
}

fn ping(meter: &Meter, signals: &Signals) {
    // before the ping is written: its answer cannot come sooner
    meter.expect_answer();
    signals.ping.notify_one();
}
