//! One connection, from its upgrade to its end.

use std::time::Instant;

use futures::{SinkExt, StreamExt, stream::SplitSink};
use tokio::{sync::mpsc, time};
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};
use tokio_util::sync::CancellationToken;
use wire::{Message, Upstream};

use super::{
    Config,
    dial::Socket,
    liveness::{Liveness, Pulse},
    rate::Rate,
    waiters::Waiters,
};

/// The program's ends of the connection; they outlive it.
#[derive(Debug)]
pub(super) struct Ends {
    /// Answers to the cloud's own messages: it holds back the next of them until they have come.
    pub(super) answers: mpsc::Receiver<Message>,
    pub(super) outgoing: mpsc::Receiver<Message>,
    /// Sent when nothing is in `outgoing`.
    pub(super) in_background: mpsc::Receiver<Message>,
    pub(super) inbox: mpsc::Sender<Message>,
    pub(super) waiters: Waiters,
}

impl Ends {
    /// The next message to send, and whether it counts: answers go at once, since the cloud sets the rate of what it asks;
    /// then what is promised goes before what is only told, when the rate allows it.
    async fn next(&mut self, rate: &Rate) -> Option<(Message, bool)> {
        let (ready, spare) = (rate.ready_at().into(), rate.spare_at().into());
        let (outgoing, in_background) = (&mut self.outgoing, &mut self.in_background);
        tokio::select! {
            biased;
            // cancel-safe, all three: a message not returned stays in its queue, and is taken after the sleep
            message = self.answers.recv() => message.map(|message| (message, false)),
            message = async { time::sleep_until(ready).await; outgoing.recv().await } => message.map(|message| (message, true)),
            message = async { time::sleep_until(spare).await; in_background.recv().await } => message.map(|message| (message, true)),
        }
    }
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("shutdown")]
    Shutdown,
    #[error("the cloud closed the connection")]
    Closed,
    #[error("the cloud has not been heard of for too long; the link is dead")]
    Silent,
    #[error("the socket failed")]
    Socket(#[source] Box<tungstenite::Error>),
    #[error("a message could not be written in time; the link is stalled")]
    Stalled,
    #[error("the cloud sent a malformed message")]
    Malformed(#[source] wire::json::DecodeError),
}

type Writer = SplitSink<Socket, tungstenite::Message>;

/// Runs the connection until it ends.
pub(super) async fn run(
    config: &Config,
    socket: Socket,
    ends: &mut Ends,
    shutdown: &CancellationToken,
) -> Ended {
    let (mut writer, mut reader) = socket.split();
    let mut liveness = Liveness::new(Instant::now());
    let mut rate = Rate::new(config.qps, config.burst, Instant::now());
    let mut keepalive = time::interval(config.heartbeat);
    keepalive.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        let pulse = match liveness.check(Instant::now()) {
            Pulse::Wait(until) => until,
            Pulse::Dead => return Ended::Silent,
            Pulse::Ask => {
                if let Err(ended) =
                    write(config, &mut writer, tungstenite::Message::Ping(Default::default())).await
                {
                    return ended;
                }
                continue;
            }
        };
        let wrote = tokio::select! {
            // cancel-safe: a cancelled token stays cancelled
            () = shutdown.cancelled() => {
                let _ = write(config, &mut writer, tungstenite::Message::Close(None)).await;
                return Ended::Shutdown;
            }
            // cancel-safe: frames stay in the socket until they are whole
            frame = reader.next() => {
                liveness.heard(Instant::now());
                received(config, frame, ends).await
            }
            // cancel-safe: an interval keeps its ticks
            _ = keepalive.tick() => send(config, &mut writer, &Upstream::keepalive().into_message(now_ms())).await,
            // cancel-safe: sleeping holds no data
            () = time::sleep_until(pulse.into()) => Ok(()),
            // cancel-safe: a message is taken from a queue only when this arm wins
            message = ends.next(&rate) => match message {
                None => return Ended::Shutdown,
                Some((message, counts)) => {
                    if counts {
                        rate.sent(Instant::now());
                    }
                    send(config, &mut writer, &message).await
                }
            },
        };
        if let Err(ended) = wrote {
            return ended;
        }
    }
}

/// Sorts one frame: answers to their waiters, everything else to MetaManager.
async fn received(
    config: &Config,
    frame: Option<Result<tungstenite::Message, tungstenite::Error>>,
    ends: &Ends,
) -> Result<(), Ended> {
    let text = match frame {
        None | Some(Ok(tungstenite::Message::Close(_))) => return Err(Ended::Closed),
        Some(Err(error)) => return Err(Ended::Socket(Box::new(error))),
        Some(Ok(frame @ (tungstenite::Message::Text(_) | tungstenite::Message::Binary(_)))) => {
            frame.into_data()
        }
        // pings are answered by the library; pongs have done their work by arriving
        Some(Ok(_)) => return Ok(()),
    };
    let message = wire::json::decode(&text, config.max_message).map_err(Ended::Malformed)?;
    let message = if message.header.parent_msg_id.is_empty() {
        message
    } else {
        match ends.waiters.deliver(message) {
            Ok(()) => return Ok(()),
            // nobody waits any more; MetaManager still stores and acknowledges what it carries
            Err(message) => *message,
        }
    };
    // the reader waits for room here: the cloud is slowed down, nothing is dropped
    ends.inbox.send(message).await.map_err(|_| Ended::Shutdown)
}

async fn send(config: &Config, writer: &mut Writer, message: &Message) -> Result<(), Ended> {
    write(config, writer, tungstenite::Message::Text(Utf8Bytes::from(wire::json::encode(message)))).await
}

async fn write(config: &Config, writer: &mut Writer, frame: tungstenite::Message) -> Result<(), Ended> {
    match time::timeout(config.write_deadline, writer.send(frame)).await {
        Err(_) => Err(Ended::Stalled),
        Ok(Err(error)) => Err(Ended::Socket(Box::new(error))),
        Ok(Ok(())) => Ok(()),
    }
}

pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
