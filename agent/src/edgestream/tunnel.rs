//! One tunnel, from its upgrade to its end: reads frames, writes frames, and has a task for each stream.

use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    sync::mpsc,
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;
use wire::{
    tunnel::{Frame, FrameError, Kind, MAX_FRAME, PING},
    websocket::{Decoder, Message, Role, encode},
};

use super::{
    Answers, Config,
    request::request,
    stream::{self, Outbound},
    streams::{Refused, Streams},
};

/// Messages to the cloud that wait. Each stream waits for its turn beside them, so that none is behind more than one message of each other.
const OUTBOUND: usize = 4;
/// Pings of the cloud that are not yet answered; further ones get no answer.
const PONGS: usize = 4;
/// Bytes that are written at a time, however many messages they are.
const BATCH: usize = 32 * 1024;
/// Bytes read at a time.
const READ: usize = 16 * 1024;
/// EdgeCore's interval of pings; shorter where the read deadline is.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// How long a goodbye, and the ends of streams, may take.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// What is told of the cloud's reasons.
const MAX_REASON: usize = 200;

/// How a tunnel has ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The agent ends.
    Shutdown,
    /// The cloud wants it closed, and says why.
    Closed(String),
    /// The connection broke, or the cloud does not speak the protocol.
    Lost(io::Error),
}

/// Serves a tunnel on `io`, to a cloud with this window for each stream, until it ends; all its streams end with it.
pub(super) async fn run<T: AsyncRead + AsyncWrite>(
    io: T,
    window: Option<usize>,
    config: &Config,
    api: &impl Answers,
    shutdown: &CancellationToken,
) -> Ended {
    let (mut reader, mut writer) = split(io);
    let (frames, outbound) = mpsc::channel(OUTBOUND);
    let (pongs, asked) = mpsc::channel(PONGS);
    let stop = shutdown.child_token();
    let mut tunnel = Tunnel {
        api: api.clone(),
        frames,
        pongs,
        streams: Streams::new(window),
        tasks: TaskTracker::new(),
        stop: stop.clone(),
    };
    let ended = tokio::select! {
        // none of them goes on after another has ended
        ended = tunnel.read(&mut reader, config.read_deadline) => ended,
        error = write(&mut writer, outbound, asked, config) => Ended::Lost(error),
        () = shutdown.cancelled() => Ended::Shutdown,
    };
    stop.cancel();
    tunnel.tasks.close();
    let goodbye = async {
        if !matches!(ended, Ended::Lost(_)) {
            let mut out = BytesMut::new();
            // normal closure
            encode(&mut out, &Message::Close(Bytes::from_static(&[0x03, 0xe8])), Some(rand::random()));
            writer.write_all(&out).await?;
            writer.flush().await?;
        }
        tunnel.tasks.wait().await;
        io::Result::Ok(())
    };
    // a cloud that takes nothing needs no goodbye
    let _ = timeout(CLOSE_TIMEOUT, goodbye).await;
    ended
}

/// The reading half.
struct Tunnel<A> {
    api: A,
    frames: mpsc::Sender<Frame>,
    pongs: mpsc::Sender<Bytes>,
    streams: Streams,
    tasks: TaskTracker,
    /// Ends all streams.
    stop: CancellationToken,
}

impl<A: Answers> Tunnel<A> {
    async fn read(&mut self, reader: &mut (impl AsyncRead + Unpin), deadline: Duration) -> Ended {
        let mut decoder = Decoder::new(Role::Client, MAX_FRAME);
        let mut input = BytesMut::new();
        loop {
            loop {
                match decoder.next(&mut input) {
                    Ok(Some(message)) => {
                        if let Some(ended) = self.message(message).await {
                            return ended;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => return Ended::Lost(io::Error::new(io::ErrorKind::InvalidData, error)),
                }
            }
            input.reserve(READ);
            match timeout(deadline, reader.read_buf(&mut input)).await {
                Ok(Ok(0)) => return Ended::Lost(io::ErrorKind::UnexpectedEof.into()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Ended::Lost(error),
                Err(_) => {
                    let why = format!("nothing came from the cloud within {deadline:?}");
                    return Ended::Lost(io::Error::new(io::ErrorKind::TimedOut, why));
                }
            }
        }
    }

    async fn message(&mut self, message: Message) -> Option<Ended> {
        match message {
            Message::Text(payload) | Message::Binary(payload) => match Frame::decode(payload) {
                Ok(frame) => return self.frame(frame).await,
                // as EdgeCore does
                Err(FrameError::Kind(number)) => debug!(number, "a frame of an unknown type is ignored"),
                Err(error) => debug!(%error, "a message that is no frame is ignored"),
            },
            // a cloud that asks faster than it can be answered is not answered each time
            Message::Ping(payload) => drop(self.pongs.try_send(payload)),
            Message::Pong(_) => {}
            Message::Close(_) => {
                let why = "the cloud closed the connection";
                return Some(Ended::Lost(io::Error::new(io::ErrorKind::ConnectionAborted, why)));
            }
        }
        None
    }

    async fn frame(&mut self, frame: Frame) -> Option<Ended> {
        let taken = frame.taken();
        let Frame { id, kind, data } = frame;
        match kind {
            Kind::Logs | Kind::Exec | Kind::Metrics | Kind::Attach => self.open(id, kind, &data).await,
            Kind::Data => self.streams.deliver(id, &data).await,
            Kind::Window => self.streams.taken(id, taken),
            Kind::RemoveConnect => self.streams.end(id),
            Kind::CloseConnect => {
                let why = String::from_utf8_lossy(&data);
                return Some(Ended::Closed(why.chars().take(MAX_REASON).collect()));
            }
        }
        None
    }

    async fn open(&mut self, id: u64, kind: Kind, data: &[u8]) {
        // a refusal is short
        let mut outbound = Outbound { id, frames: self.frames.clone(), allowance: None };
        let Some(request) = request(kind, data) else {
            debug!(id, "a request that cannot be read");
            return outbound.refuse(kind, StatusCode::BAD_REQUEST, "the request cannot be read").await;
        };
        match self.streams.open(id, &self.stop) {
            Ok(place) => {
                outbound.allowance.clone_from(&place.allowance);
                let api = self.api.clone();
                self.tasks.spawn(stream::run(kind, request, api, place, outbound));
            }
            // an answer would end the one that there is
            Err(Refused::Known) => debug!(id, "a second request of the same number is ignored"),
            Err(Refused::TooMany) => {
                let why = "too many requests at the same time on this node";
                outbound.refuse(kind, StatusCode::TOO_MANY_REQUESTS, why).await;
            }
        }
    }
}

/// Writes what streams send, pongs, and pings, until that fails.
async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    mut frames: mpsc::Receiver<Frame>,
    mut pongs: mpsc::Receiver<Bytes>,
    config: &Config,
) -> io::Error {
    let mut pings = interval(PING_INTERVAL.min(config.read_deadline / 3));
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut out = BytesMut::new();
        let mut put = |message: &Message| encode(&mut out, message, Some(rand::random()));
        tokio::select! {
            // cancel-safe, all: what is not taken stays where it is
            Some(frame) = frames.recv() => put(&Message::Text(frame.encode().into())),
            Some(payload) = pongs.recv() => put(&Message::Pong(payload)),
            _ = pings.tick() => put(&Message::Ping(Bytes::from_static(PING))),
        }
        while out.len() < BATCH
            && let Ok(frame) = frames.try_recv()
        {
            encode(&mut out, &Message::Text(frame.encode().into()), Some(rand::random()));
        }
        let writing = async {
            writer.write_all(&out).await?;
            writer.flush().await
        };
        match timeout(config.write_deadline, writing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(_) => {
                let why = format!("the cloud took nothing within {:?}", config.write_deadline);
                return io::Error::new(io::ErrorKind::TimedOut, why);
            }
        }
    }
}
